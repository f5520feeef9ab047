import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import type { Resync, Tail } from '../../log/turn-log.ts'
import { SSE_EVENTS } from '../../protocol/names.ts'
import { encodeSse } from '../../sse/encode.ts'
import { Frame } from './frame.ts'
import type { RecordFrames } from './record-frames.ts'
import type { SseConnection } from './sse-connection.ts'

export interface Following {
  /** Not read from yet. */
  readonly tail: Tail
  readonly frames: RecordFrames
  /** What a cursor of the log is called on this stream. */
  readonly idOf: (cursor: string) => string
}

/**
 * Sends a log to its end, or until the reader leaves. It takes a record only when there is room for one:
 * whoever is slow holds up nobody, and finds the newest state in the log later.
 */
export async function follow(connection: SseConnection, following: Following): Promise<void> {
  try {
    await sendAll(connection, following)
  } finally {
    connection.counts.skipped += following.tail.skipped ?? 0
  }
}

async function sendAll(connection: SseConnection, following: Following): Promise<void> {
  const { tail, frames, idOf } = following
  let { cursor } = tail
  for await (const each of tail) {
    if (isSliceOver()) await nextSlice()
    const id = tail.cursor === cursor ? undefined : idOf(tail.cursor)
    cursor = tail.cursor
    if ('resync' in each) {
      sendResync(connection, each, idOf(cursor))
    } else {
      const frame = frames.frameOf(each, id)
      while (connection.isHeldBack(frame)) await connection.room()
      if (!connection.send(frame)) await connection.drained()
    }
  }
}

/** Says why the cursor is not honoured, and after which place what follows begins. */
export function sendResync(
  connection: SseConnection,
  { resync: reason }: Resync,
  offset: string,
): void {
  const data = JSON.stringify({ reason, offset })
  connection.counts.resyncs[reason] += 1
  connection.send(new Frame(encodeSse({ event: SSE_EVENTS.resync, data })))
}
