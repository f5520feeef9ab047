import { isRecord } from '../../protocol/json.ts'
import { SSE_EVENTS } from '../../protocol/names.ts'
import type { ItemSnapshot, SnapshotStatus, StreamOutput } from '../../protocol/stream-output.ts'
import { encodeSse } from '../../sse/encode.ts'

/** A snapshot: the payload of a StreamMessage, which is JSON already, without its envelope. */
export function xapiSse(offset: string, payload: string): string {
  return encodeSse({ id: offset, data: payload })
}

/** What an item has gained since the last frame of it, in place of the whole snapshot. */
export interface AppendFrame {
  readonly itemId: string
  /** How long the content was before, in UTF-16 units. A reader that has another length has missed something. */
  readonly at: number
  readonly text: string
  /** How long the content is now. */
  readonly length: number
  readonly status: SnapshotStatus
}

/** A snapshot of a text, as far as appending to it needs it. */
export interface TextSnapshot {
  readonly itemId: string
  readonly content: string
  readonly status: SnapshotStatus
  /** Everything else that the snapshot says: an append cannot change it. */
  readonly rest: string
}

/** Undefined for what is always sent whole: tool calls and the events of the turn itself. */
export function textSnapshotOf(output: StreamOutput): TextSnapshot | undefined {
  if (!isRecord(output) || (output.type !== 'message' && output.type !== 'thinking')) {
    return undefined
  }
  const { itemId, content, status, ...rest } = output
  if (typeof itemId !== 'string' || typeof content !== 'string' || !isStatus(status)) {
    return undefined
  }
  return { itemId, content, status, rest: JSON.stringify(rest) }
}

function isStatus(status: unknown): status is SnapshotStatus {
  return status === 'create' || status === 'update' || status === 'complete' || status === 'error'
}

/**
 * Decides for one connection which snapshots travel whole, and which as what they add. It remembers what was
 * sent of each item; the first snapshot of an item is always whole, so that any frame can be the first.
 */
export class AppendEncoder {
  readonly #sent = new Map<string, TextSnapshot>()

  /** The length from which on the snapshot is news; undefined when it has to be sent whole. */
  place(snapshot: TextSnapshot): number | undefined {
    const before = this.#sent.get(snapshot.itemId)
    this.#sent.set(snapshot.itemId, snapshot)
    if (before === undefined || before.rest !== snapshot.rest) return undefined
    const { length } = before.content
    // `startsWith` compares one character at a time, which takes ten times as long.
    return snapshot.content.slice(0, length) === before.content ? length : undefined
  }
}

/** What a snapshot adds to the first `at` units of its content. */
export function appendFrameOf({ itemId, content, status }: TextSnapshot, at: number): AppendFrame {
  return { itemId, at, text: content.slice(at), length: content.length, status }
}

/** The frame that carries an append; `id` is left out where a cut must not resume. */
export function appendSse(id: string | undefined, frame: AppendFrame): string {
  const data = JSON.stringify(frame)
  return encodeSse({ ...(id !== undefined && { id }), event: SSE_EVENTS.append, data })
}

/**
 * The item after an append. Undefined when the frame does not go on where the item is: the reader then has
 * to come back without a cursor.
 */
export function applyAppend<T extends ItemSnapshot>(item: T, frame: AppendFrame): T | undefined {
  const { itemId, at, text, length, status } = frame
  if (item.itemId !== itemId || item.content.length !== at || at + text.length !== length) {
    return undefined
  }
  return { ...item, content: item.content + text, status }
}
