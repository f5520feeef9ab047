/**
 * What a codex app-server writes, a message at a time: bare, or as a recorder wraps it with the side
 * that sent it. Three grammars have been spoken, and for a while two at once.
 */
import { isRecord } from '../../protocol/json.ts'
import type { CodexEvent, Decoded, Scope } from './events.ts'
import { type Fields, fieldsOf, textOf } from './fields.ts'
import { decodeLegacy, isLegacyName, legacyName, scopeOfLegacy } from './wire-legacy.ts'
import { decodeReply, decodeV2, scopeOfV2 } from './wire-v2.ts'

export type Grammar = 'v2' | 'legacy' | 'response'

export type CodexMessage =
  | { kind: 'event'; grammar: 'v2' | 'legacy'; scope: Scope; event: CodexEvent }
  /** Of a known type, but not to be read; `reason` names type and field. */
  | { kind: 'malformed'; grammar: 'v2' | 'legacy'; scope: Scope; reason: string }
  /** A notification of the `response.*` family, in the form in which Responses backends send it. */
  | { kind: 'response'; notification: Fields }
  | { kind: 'unknown'; type: string }
  | { kind: 'nothing' }

const NOTHING: CodexMessage = { kind: 'nothing' }
const LEGACY_PREFIX = 'codex/event/'
const RESPONSE_PREFIX = 'response.'

/** `spoken` is the grammar so far: a few names belong to more than one. */
export function decodeCodexMessage(value: unknown, spoken?: Grammar): CodexMessage {
  if (!isRecord(value)) return NOTHING
  if (!isRecorded(value)) return decodeBare(value, spoken)
  const { dir, msg } = value
  return dir === 's2c' && isRecord(msg) ? decodeBare(msg, spoken) : NOTHING
}

function isRecorded(line: Fields): boolean {
  return typeof line['dir'] === 'string' && !('method' in line) && !('type' in line)
}

function decodeBare(message: Fields, spoken: Grammar | undefined): CodexMessage {
  const method = textOf(message['method'])
  const type = textOf(message['type'])
  const params = fieldsOf(message['params'])
  if (method === 'error') return decodeError(method, params, spoken)
  if (method !== undefined) return decodeMethod(method, params)
  if (type === 'error') return decodeError(type, message, spoken)
  if (type !== undefined) return decodeType(type, message)
  const inner = fieldsOf(message['msg'])
  const innerType = textOf(inner['type'])
  if (innerType !== undefined) return legacyMessage(innerType, message, inner)
  return v2Message('reply', {}, decodeReply(message['result']))
}

/** Every grammar has an `error`: today's is wrapped, the earlier one explains itself. */
function decodeError(name: string, fields: Fields, spoken: Grammar | undefined): CodexMessage {
  const isWrapped = 'willRetry' in fields || 'threadId' in fields
  if (isWrapped || spoken === 'v2') return v2Message(name, fields, decodeV2(name, fields))
  const isLegacy = spoken === undefined ? 'codex_error_info' in fields : spoken === 'legacy'
  if (isLegacy) return legacyMessage(name, {}, fields)
  return responseMessage({ ...fields, type: 'error' })
}

/** Where the name stands decides: in `codex/event/raw_response_item` the type is that of the item. */
function decodeMethod(method: string, params: Fields): CodexMessage {
  if (method.startsWith(RESPONSE_PREFIX)) return responseMessage({ ...params, type: method })
  if (method.startsWith(LEGACY_PREFIX)) {
    return legacyMessage(method.slice(LEGACY_PREFIX.length), params, fieldsOf(params['msg']))
  }
  const name = legacyName(method)
  if (!isLegacyName(name)) return v2Message(method, params, decodeV2(method, params))
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
  return messageOf({ grammar: 'legacy', scope, name }, decodeLegacy(name, message))
}

function v2Message(name: string, params: Fields, decoded: Decoded): CodexMessage {
  return messageOf({ grammar: 'v2', scope: scopeOfV2(params), name }, decoded)
}

interface Source {
  grammar: 'v2' | 'legacy'
  scope: Scope
  name: string
}

function messageOf({ grammar, scope, name }: Source, decoded: Decoded): CodexMessage {
  switch (decoded.type) {
    case 'nothing':
      return NOTHING
    case 'unknown':
      return { kind: 'unknown', type: decoded.name }
    case 'fault': {
      const reason = `${name}: ${decoded.field} is missing or of the wrong type`
      return { kind: 'malformed', grammar, scope, reason }
    }
    default:
      return { kind: 'event', grammar, scope, event: decoded }
  }
}
