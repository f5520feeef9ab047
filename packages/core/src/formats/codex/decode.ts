/**
 * Decodes the messages of a codex app-server, bare or wrapped by a recorder with the side that sent them. There are
 * three grammars, two of them sent at once by some versions.
 */
import { isRecord } from '../../protocol/json.ts'
import { asFields, asList, asNonEmpty, asString, type Fields, Malformed } from '../fields.ts'
import { decodeLegacy, isLegacyName, legacyName, scopeOfLegacy } from './decode-legacy.ts'
import { errorOf } from './errors.ts'
import {
  type CodexEvent,
  type Decoded,
  decodeMessage,
  itemEvent,
  missing,
  modelKnown,
  planUpdate,
  rawItemEvent,
  reasoningDelta,
  requireId,
  requireText,
  type Scope,
  threadUsage,
} from './events.ts'
import { usageOf } from './usage.ts'

export type Grammar = 'v2' | 'legacy' | 'response'

export type CodexMessage =
  | { kind: 'event'; grammar: 'v2' | 'legacy'; scope: Scope; event: CodexEvent }
  /** A known type with malformed content; `reason` names type and field. */
  | { kind: 'malformed'; grammar: 'v2' | 'legacy'; scope: Scope; reason: string }
  /** A `response.*` notification, as Responses backends send it. */
  | { kind: 'response'; notification: Fields }
  | { kind: 'unknown'; type: string }
  | { kind: 'nothing' }

const NO_MESSAGE: CodexMessage = { kind: 'nothing' }
const LEGACY_PREFIX = 'codex/event/'
const RESPONSE_PREFIX = 'response.'

/** `spoken` is the grammar so far: a few names occur in more than one. */
export function decodeCodexMessage(value: unknown, spoken?: Grammar): CodexMessage {
  if (!isRecord(value)) return NO_MESSAGE
  if (!isRecorded(value)) return decodeBare(value, spoken)
  const { dir, msg } = value
  return dir === 's2c' && isRecord(msg) ? decodeBare(msg, spoken) : NO_MESSAGE
}

function isRecorded(line: Fields): boolean {
  return typeof line['dir'] === 'string' && !('method' in line) && !('type' in line)
}

function decodeBare(message: Fields, spoken: Grammar | undefined): CodexMessage {
  const method = asString(message['method'])
  const type = asString(message['type'])
  const params = asFields(message['params'])
  if (method === 'error') return decodeError(method, params, spoken)
  if (method !== undefined) return decodeMethod(method, params)
  if (type === 'error') return decodeError(type, message, spoken)
  if (type !== undefined) return decodeType(type, message)
  const inner = asFields(message['msg'])
  const innerType = asString(inner['type'])
  if (innerType !== undefined) return legacyMessage(innerType, message, inner)
  return v2Message('reply', {}, () => decodeReply(message['result']))
}

/** Every grammar has an `error`: the current one is wrapped, the earlier one has its own fields. */
function decodeError(name: string, fields: Fields, spoken: Grammar | undefined): CodexMessage {
  const isWrapped = 'willRetry' in fields || 'threadId' in fields
  if (isWrapped || spoken === 'v2') return v2Message(name, fields)
  const isLegacy = spoken === undefined ? 'codex_error_info' in fields : spoken === 'legacy'
  if (isLegacy) return legacyMessage(name, {}, fields)
  return responseMessage({ ...fields, type: 'error' })
}

/** The position of the name decides: in `codex/event/raw_response_item` the item has the type. */
function decodeMethod(method: string, params: Fields): CodexMessage {
  if (method.startsWith(RESPONSE_PREFIX)) return responseMessage({ ...params, type: method })
  if (method.startsWith(LEGACY_PREFIX)) {
    return legacyMessage(method.slice(LEGACY_PREFIX.length), params, asFields(params['msg']))
  }
  const name = legacyName(method)
  if (!isLegacyName(name)) return v2Message(method, params)
  const inner = params['msg']
  return isRecord(inner) ? legacyMessage(name, params, inner) : legacyMessage(name, {}, params)
}

function decodeType(type: string, message: Fields): CodexMessage {
  if (type.startsWith(RESPONSE_PREFIX)) return responseMessage(message)
  const name = legacyName(type)
  return isLegacyName(name) ? legacyMessage(name, {}, message) : { kind: 'unknown', type }
}

function responseMessage(notification: Fields): CodexMessage {
  return { kind: 'response', notification }
}

function legacyMessage(name: string, params: Fields, message: Fields): CodexMessage {
  const scope = scopeOfLegacy(params, message)
  return toMessage({ grammar: 'legacy', scope }, name, () => decodeLegacy(name, message))
}

function v2Message(
  name: string,
  params: Fields,
  decode: () => Decoded = () => decodeV2(name, params),
): CodexMessage {
  return toMessage({ grammar: 'v2', scope: scopeOfV2(params) }, name, decode)
}

function toMessage(
  source: { grammar: 'v2' | 'legacy'; scope: Scope },
  name: string,
  decode: () => Decoded,
): CodexMessage {
  try {
    const event = decode()
    if (event === undefined) return NO_MESSAGE
    if (event.type === 'unknown') return { kind: 'unknown', type: event.name }
    return { kind: 'event', ...source, event }
  } catch (error) {
    const reason = error instanceof Malformed ? error.message : 'it is malformed'
    return { kind: 'malformed', ...source, reason: `${name}: ${reason}` }
  }
}

/** Notifications and requests of the current app-server: `turn/*`, `item/*`. */
const NOTIFICATIONS = new Map<string, (params: Fields) => Decoded>([
  ['turn/started', () => ({ type: 'turn_started' })],
  ['turn/completed', turnCompleted],
  ['item/started', ({ item }) => itemEvent('item_started', item)],
  ['item/completed', ({ item }) => itemEvent('item_completed', item)],
  ['item/agentMessage/delta', (params) => ({ type: 'message_delta', ...deltaOf(params) })],
  ['item/reasoning/summaryTextDelta', (params) => reasoning(params, 'summaryIndex')],
  ['item/reasoning/textDelta', (params) => reasoning(params, 'contentIndex')],
  ['item/plan/delta', outputDelta],
  ['item/commandExecution/outputDelta', outputDelta],
  ['item/fileChange/outputDelta', outputDelta],
  ['item/tool/call', toolCall],
  ['rawResponseItem/completed', ({ item }) => rawItemEvent(item)],
  ['rawResponse/completed', ({ usage }) => ({ type: 'response_completed', usage: usageOf(usage) })],
  ['turn/plan/updated', planUpdate],
  ['thread/tokenUsage/updated', ({ tokenUsage }) => threadUsage(tokenUsage, 'total', 'last')],
  [
    'thread/settings/updated',
    ({ threadSettings }) => modelKnown(asFields(threadSettings)['model']),
  ],
  ['error', error],
])

/** Messages that do not affect a turn, by name or by prefix. */
const IDLE = new Set([
  'configWarning',
  'deprecationNotice',
  'guardianWarning',
  'initialize',
  'initialized',
  'warning',
  // Progress: the result comes with the item.
  'item/autoApprovalReview/completed',
  'item/autoApprovalReview/started',
  'item/commandExecution/terminalInteraction',
  'item/fileChange/patchUpdated',
  'item/mcpToolCall/progress',
  'item/reasoning/summaryPartAdded',
  'turn/diff/updated',
  'turn/moderationMetadata',
  // Server requests about permissions, not content.
  'applyPatchApproval',
  'execCommandApproval',
  'item/commandExecution/requestApproval',
  'item/fileChange/requestApproval',
  'item/permissions/requestApproval',
  'item/tool/requestUserInput',
  // Sent by the client.
  'turn/interrupt',
  'turn/start',
  'turn/steer',
])
const IDLE_AREAS = new Set([
  'account',
  'app',
  'attestation',
  'autoApprovalReview',
  'command',
  'config',
  'currentTime',
  'externalAgentConfig',
  'fs',
  'fuzzyFileSearch',
  'hook',
  'mcpServer',
  'model',
  'process',
  'project',
  'remoteControl',
  'serverRequest',
  'skills',
  'thread',
  'windows',
  'windowsSandbox',
])

function decodeV2(method: string, params: Fields): Decoded {
  const decode = NOTIFICATIONS.get(method)
  if (decode !== undefined) return decode(params)
  const [area = ''] = method.split('/', 1)
  return IDLE.has(method) || IDLE_AREAS.has(area) ? undefined : { type: 'unknown', name: method }
}

function scopeOfV2(params: Fields): Scope {
  return {
    threadId: asNonEmpty(params['threadId']),
    turnId: asNonEmpty(params['turnId']) ?? asNonEmpty(asFields(params['turn'])['id']),
  }
}

/** A reply that opened a thread names its model. */
function decodeReply(result: unknown): Decoded {
  const fields = asFields(result)
  const isOpened = 'thread' in fields || 'conversationId' in fields
  return isOpened ? modelKnown(fields['model']) : undefined
}

function turnCompleted(params: Fields): Decoded {
  const { status, error, items } = asFields(params['turn'])
  switch (status) {
    case 'completed':
    case 'interrupted': {
      const messages = asList(items).flatMap((item) => decodeMessage(asFields(item)) ?? [])
      const ending = { outcome: status, word: status, isVerdict: true }
      return { type: 'turn_ended', ending, items: messages.filter(({ kind }) => kind !== 'user') }
    }
    case 'failed': {
      const known = error === null || error === undefined ? undefined : errorOf(error)
      return { type: 'turn_ended', ending: { outcome: 'failed', error: known }, items: [] }
    }
    default:
      throw missing('turn.status')
  }
}

function deltaOf({ itemId, delta }: Fields) {
  return { id: requireId(itemId, 'itemId'), text: requireText(delta, 'delta') }
}

function outputDelta(params: Fields): Decoded {
  return { type: 'output_delta', ...deltaOf(params) }
}

function reasoning(params: Fields, index: 'summaryIndex' | 'contentIndex'): Decoded {
  return reasoningDelta(requireId(params['itemId'], 'itemId'), params, index)
}

/** Requests that the client run its own tool. */
function toolCall({ callId, ...call }: Fields): Decoded {
  if (callId === undefined) throw missing('callId')
  return itemEvent('item_started', { ...call, type: 'dynamicToolCall', id: callId })
}

function error({ error, willRetry }: Fields): Decoded {
  return willRetry === true ? { type: 'attempt_failed' } : { type: 'error', error: errorOf(error) }
}
