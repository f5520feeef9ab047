/** The notifications and requests of today's app-server: `turn/*`, `item/*`. */
import {
  type CodexEvent,
  type Decoded,
  errorOf,
  fault,
  itemEvent,
  NOTHING,
  rawItemEvent,
  type Scope,
} from './events.ts'
import { type Fields, fieldsOf, idOf, listOf, textOf } from './fields.ts'
import { type DecodedItem, decodeItem, type SpokenItem } from './items.ts'
import { usageOf } from './usage.ts'

type Decode = (params: Fields) => Decoded

const NOTIFICATIONS = new Map<string, Decode>([
  ['turn/started', () => ({ type: 'turn_started' })],
  ['turn/completed', turnCompleted],
  ['item/started', ({ item }) => itemEvent('item_started', item)],
  ['item/completed', ({ item }) => itemEvent('item_completed', item)],
  ['item/agentMessage/delta', messageDelta],
  ['item/reasoning/summaryTextDelta', (params) => reasoningDelta(params, 'summaryIndex')],
  ['item/reasoning/textDelta', (params) => reasoningDelta(params, 'contentIndex')],
  ['item/plan/delta', outputDelta],
  ['item/commandExecution/outputDelta', outputDelta],
  ['item/fileChange/outputDelta', outputDelta],
  ['item/tool/call', toolCall],
  ['rawResponseItem/completed', ({ item }) => rawItemEvent(item)],
  ['rawResponse/completed', ({ usage }) => ({ type: 'response_completed', usage: usageOf(usage) })],
  ['thread/tokenUsage/updated', threadUsage],
  ['thread/settings/updated', ({ threadSettings }) => modelKnown(fieldsOf(threadSettings))],
  ['error', error],
])

/** Messages that change nothing of a turn, by name or by the area that their name begins with. */
const IDLE = new Set([
  'configWarning',
  'deprecationNotice',
  'guardianWarning',
  'initialize',
  'initialized',
  'warning',
  // Progress: what it leads to comes with the item.
  'item/autoApprovalReview/completed',
  'item/autoApprovalReview/started',
  'item/commandExecution/terminalInteraction',
  'item/fileChange/patchUpdated',
  'item/mcpToolCall/progress',
  'item/reasoning/summaryPartAdded',
  'turn/diff/updated',
  'turn/moderationMetadata',
  'turn/plan/updated',
  // Requests of the server that are about permission, not content.
  'applyPatchApproval',
  'execCommandApproval',
  'item/commandExecution/requestApproval',
  'item/fileChange/requestApproval',
  'item/permissions/requestApproval',
  'item/tool/requestUserInput',
  // What the client sends.
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

export function decodeV2(method: string, params: Fields): Decoded {
  const decode = NOTIFICATIONS.get(method)
  if (decode !== undefined) return decode(params)
  const [area = ''] = method.split('/', 1)
  return IDLE.has(method) || IDLE_AREAS.has(area) ? NOTHING : { type: 'unknown', name: method }
}

export function scopeOfV2(params: Fields): Scope {
  return {
    threadId: idOf(params['threadId']),
    turnId: idOf(params['turnId']) ?? idOf(fieldsOf(params['turn'])['id']),
  }
}

/** A reply to a request says, if it opened a thread, which model answers there. */
export function decodeReply(result: unknown): Decoded {
  const fields = fieldsOf(result)
  return 'thread' in fields || 'conversationId' in fields ? modelKnown(fields) : NOTHING
}

function modelKnown({ model }: Fields): Decoded {
  const name = idOf(model)
  return name === undefined ? NOTHING : { type: 'model_known', model: name }
}

function turnCompleted(params: Fields): Decoded {
  const { status, error, items } = fieldsOf(params['turn'])
  const told = listOf(items).map(decodeItem).filter(isTold)
  switch (status) {
    case 'completed':
    case 'interrupted': {
      const ending = { outcome: status, word: status, isVerdict: true }
      return { type: 'turn_ended', ending, items: told }
    }
    case 'failed': {
      const known = error === null || error === undefined ? undefined : errorOf(error)
      return { type: 'turn_ended', ending: { outcome: 'failed', error: known }, items: [] }
    }
    default:
      return fault('turn.status')
  }
}

function isTold(item: DecodedItem): item is SpokenItem {
  return item.kind === 'message' || item.kind === 'reasoning'
}

function messageDelta({ itemId, delta }: Fields): Decoded {
  const [id, text] = [idOf(itemId), textOf(delta)]
  if (id === undefined) return fault('itemId')
  return text === undefined ? fault('delta') : { type: 'message_delta', id, text }
}

function reasoningDelta(params: Fields, index: 'summaryIndex' | 'contentIndex'): Decoded {
  const [id, text] = [idOf(params['itemId']), textOf(params['delta'])]
  if (id === undefined) return fault('itemId')
  if (text === undefined) return fault('delta')
  const at = params[index]
  const part = `${index} ${typeof at === 'number' ? at : ''}`
  return { type: 'reasoning_delta', id, part, text }
}

function outputDelta({ itemId, delta }: Fields): Decoded {
  const [id, text] = [idOf(itemId), textOf(delta)]
  if (id === undefined) return fault('itemId')
  return text === undefined ? fault('delta') : { type: 'output_delta', id, text }
}

/** The client is asked to run a tool of its own. */
function toolCall({ callId, ...call }: Fields): Decoded {
  return callId === undefined
    ? fault('callId')
    : itemEvent('item_started', { ...call, type: 'dynamicToolCall', id: callId })
}

function threadUsage({ tokenUsage }: Fields): Decoded {
  const { total, last } = fieldsOf(tokenUsage)
  const counted = usageOf(total)
  if (counted === undefined) return NOTHING
  return { type: 'thread_usage', total: counted, last: usageOf(last) }
}

function error({ error, willRetry }: Fields): CodexEvent {
  return willRetry === true ? { type: 'attempt_failed' } : { type: 'error', error: errorOf(error) }
}
