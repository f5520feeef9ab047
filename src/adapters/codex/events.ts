/** What the grammars of codex say, in one vocabulary. */
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { Usage } from '../../protocol/usage.ts'
import { type Fields, fieldsOf, fieldsWithout, idOf, jsonOf, textOf } from './fields.ts'
import { type CodexItem, decodeItem, jsonText, type SpokenItem } from './items.ts'

export type CodexEvent =
  | { type: 'model_known'; model: string }
  | { type: 'turn_started' }
  | { type: 'turn_ended'; ending: TurnEnding; items: readonly CodexItem[] }
  | { type: 'item_started' | 'item_completed'; item: CodexItem }
  /** A whole text that follows what was streamed of it, or stands for it. */
  | { type: 'said'; item: SpokenItem }
  | { type: 'message_delta'; id: string | undefined; text: string }
  | { type: 'reasoning_delta'; id: string | undefined; part: string; text: string }
  | { type: 'reasoning_break' }
  | { type: 'output_delta'; id: string; text: string }
  | { type: 'output_bytes'; id: string; bytes: Uint8Array }
  | { type: 'raw_item'; item: RawItem }
  | { type: 'response_completed'; usage: Usage | undefined }
  | { type: 'thread_usage'; total: Usage; last: Usage | undefined }
  | { type: 'attempt_failed' }
  | { type: 'error'; error: ErrorObject }

export type TurnEnding =
  /** Without a verdict it only says that the turn is over, whatever happened in it. */
  | { outcome: 'completed'; word: string; isVerdict: boolean }
  | { outcome: 'interrupted'; word: string }
  | { outcome: 'failed'; error: ErrorObject | undefined }

/** An item as the model's provider sent it, when codex is asked to pass those on. */
export type RawItem =
  | { kind: 'call'; id: string; name: string; args: string; metadata: Fields }
  | { kind: 'output'; id: string; text: string }
  /** The twin of an item that was told before; it knows what the other leaves out. */
  | { kind: 'twin'; id: string; metadata: Fields }

/** Turn and thread that a message is about, as far as it says. */
export interface Scope {
  threadId: string | undefined
  turnId: string | undefined
}

/** A message decoded: the event, the field at fault, or why there is none. */
export type Decoded =
  | CodexEvent
  | { type: 'fault'; field: string }
  | { type: 'unknown'; name: string }
  | { type: 'nothing' }

export const NOTHING: Decoded = { type: 'nothing' }

export function fault(field: string): Decoded {
  return { type: 'fault', field }
}

export function itemEvent(type: 'item_started' | 'item_completed', value: unknown): Decoded {
  const item = decodeItem(value)
  switch (item.kind) {
    case 'fault':
      return fault(item.field)
    case 'unknown':
      return { type: 'unknown', name: `item ${item.type}` }
    case 'idle':
      return NOTHING
    default:
      return { type, item }
  }
}

/** The first name of `codexErrorInfo` is the code: it is a word, or an object with one key. */
export function errorOf(value: unknown): ErrorObject {
  const fields = fieldsOf(value)
  const info = fields['codexErrorInfo'] ?? fields['codex_error_info']
  const code = idOf(info) ?? Object.keys(fieldsOf(info))[0]
  return {
    code: code ?? 'other',
    message: textOf(fields['message']) ?? 'codex gave no reason',
  }
}

const TWIN_FIELDS = new Set([
  'content',
  'id',
  'internal_chat_message_metadata_passthrough',
  'role',
  'status',
  'summary',
  'type',
])

/**
 * Of raw messages only what their twin lacks is of use: the others are the history of the thread, or
 * the summary that codex makes of it for itself.
 */
export function rawItemEvent(value: unknown): Decoded {
  const item = fieldsOf(value)
  const [id, callId] = [idOf(item['id']), idOf(item['call_id'])]
  const name = textOf(item['name']) ?? ''
  switch (item['type']) {
    case 'function_call':
      if (callId === undefined) return fault('item.call_id')
      return rawCall(callId, name, jsonText(item['arguments'] ?? ''), id)
    case 'custom_tool_call':
      if (callId === undefined) return fault('item.call_id')
      return rawCall(callId, name, jsonOf({ input: item['input'] ?? '' }), id)
    case 'function_call_output':
    case 'custom_tool_call_output':
      if (callId === undefined) return fault('item.call_id')
      return { type: 'raw_item', item: { kind: 'output', id: callId, text: rawOutput(item) } }
    case 'message':
    case 'reasoning':
      if (id === undefined) return NOTHING
      return { type: 'raw_item', item: { kind: 'twin', id, metadata: twinMetadata(item) } }
    default:
      return NOTHING
  }
}

function rawCall(id: string, name: string, args: string, itemId: string | undefined): Decoded {
  const metadata = itemId === undefined ? {} : { id: itemId }
  return { type: 'raw_item', item: { kind: 'call', id, name, args, metadata } }
}

function rawOutput({ output }: Fields): string {
  return textOf(output) ?? textOf(fieldsOf(output)['content']) ?? jsonOf(output ?? '')
}

function twinMetadata(item: Fields): Fields {
  const parts = Array.isArray(item['content']) ? item['content'] : []
  const annotations = parts.flatMap((part: unknown) => {
    const list = fieldsOf(part)['annotations']
    return Array.isArray(list) ? list : []
  })
  return {
    ...fieldsWithout(item, TWIN_FIELDS),
    ...(annotations.length > 0 && { annotations }),
  }
}
