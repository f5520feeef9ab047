import { StreamProcessor } from '../../processor/stream-processor.ts'
import type { AppendFrame } from '../../protocol/append-frame.ts'
import { isRecord } from '../../protocol/json.ts'
import { SSE_EVENTS } from '../../protocol/names.ts'
import type { SnapshotStatus, StreamOutput } from '../../protocol/stream-output.ts'
import { encodeSse } from '../../sse/encode.ts'
import type { TargetFormat } from '../format.ts'

/** Encodes a snapshot: the payload of a StreamMessage, already JSON, without its envelope. */
export function xapiSse(offset: string, payload: string): string {
  return encodeSse({ id: offset, data: payload })
}

// The order in which the processor writes these fields.
const STATUS_FIRST =
  /^\{"type":"(?:message|thinking|tool_call)","turnId":"[^"\\]*","threadId":"[^"\\]*","itemId":"[^"\\]*","status":"/

/**
 * Returns the JSON of an `update` with status `create`, for a reader to whom the item is new: its first snapshot may
 * have been superseded. Undefined for all other outputs. Usually does not parse the text.
 */
export function asCreated(record: {
  readonly data: string
  readonly output: StreamOutput
}): string | undefined {
  const { data } = record
  const start = STATUS_FIRST.exec(data)?.[0].length
  if (start !== undefined) {
    if (!data.startsWith('update"', start)) return undefined
    return `${data.slice(0, start)}create${data.slice(start + 'update'.length)}`
  }
  const { output } = record
  if (!isRecord(output) || !('itemId' in output) || output.status !== 'update') return undefined
  return JSON.stringify({ ...output, status: 'create' })
}

export interface TextSnapshot {
  readonly itemId: string
  readonly content: string
  readonly status: SnapshotStatus
  /** Every other field of the snapshot. An append cannot change these. */
  readonly rest: string
}

/** Returns undefined for outputs that are always sent whole: tool calls and turn events. */
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

/** Decides what a connection receives as appends. The first snapshot of an item is whole, so any frame can be first. */
export class AppendEncoder {
  readonly #sent = new Map<string, TextSnapshot>()

  /** Returns the length after which the snapshot is new; undefined when it must be sent whole. */
  place(snapshot: TextSnapshot): number | undefined {
    const before = this.#sent.get(snapshot.itemId)
    this.#sent.set(snapshot.itemId, snapshot)
    if (before === undefined || before.rest !== snapshot.rest) return undefined
    const { length } = before.content
    // `startsWith` compares one character at a time and takes ten times as long.
    return snapshot.content.slice(0, length) === before.content ? length : undefined
  }
}

/** Returns what a snapshot adds to the first `at` units of its content. */
export function appendFrameOf({ itemId, content, status }: TextSnapshot, at: number): AppendFrame {
  return { itemId, at, text: content.slice(at), length: content.length, status }
}

/** Encodes an append. Omit `id` where a reconnect must not resume. */
export function appendSse(id: string | undefined, frame: AppendFrame): string {
  const data = JSON.stringify(frame)
  return encodeSse({ ...(id !== undefined && { id }), event: SSE_EVENTS.append, data })
}

export const writeXapi: TargetFormat = (
  { turn_id: turnId, thread_id: threadId },
  { json, write, clock, nextOffset },
) => {
  const processor = new StreamProcessor({
    turnId,
    threadId,
    clock,
    onEmit: ({ payload }) => write(json ? `${payload}\n` : xapiSse(nextOffset(), payload)),
  })
  return { event: (event) => processor.processEvent(event), end: () => processor.destroy() }
}
