import type { Context } from 'hono'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import { parseOffset } from '../../log/offsets.ts'
import type { LogName, Resync, Tail, TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, SSE_EVENTS } from '../../protocol/names.ts'
import { encodeSse } from '../../sse/encode.ts'
import { mayReadTurn } from '../auth/caller.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { AppendFrames, Frame, type RecordFrames, SharedAppends, WholeFrames } from './frames.ts'
import type { SseConnection } from './sse-connection.ts'
import { headerOf, openSse, type SendStream } from './sse-response.ts'

/** `append` sends only what a growing text gained. For `processed` only. */
export type StreamEncoding = 'append' | 'snapshot'

export interface TurnReading {
  /** The id of the turn or run in the request. */
  readonly id: string
  readonly log: LogName
  readonly encoding: StreamEncoding
  /** The cursor, exclusive. */
  readonly after: string
}

const WHOLE = new WholeFrames()
const APPENDS = new SharedAppends(WHOLE)

/**
 * Answers with one log of a turn: its records and then what is added, until the last record, which ends the response.
 * 204 when nothing can follow the cursor, because an EventSource would reconnect for ever otherwise. CURSOR_INVALID,
 * TURN_UNKNOWN, TURN_EXPIRED.
 *
 * When the turn is deleted the response ends, and a client that reconnects gets TURN_UNKNOWN. When the store fails the
 * response is cut.
 */
export async function openTurnStream(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  turn: TurnRecord | undefined,
  reading: TurnReading,
): Promise<Response> {
  if (turn === undefined || !mayReadTurn(c.get('caller'), turn)) {
    throw new TurnstreamError('TURN_UNKNOWN', reading.id)
  }
  const { turnId, threadId } = turn
  const { log, after } = reading
  c.set('turnId', turnId)
  const { seq } = parseOffset(after)
  if (turn.expired) throw new TurnstreamError('TURN_EXPIRED', turnId)
  const store = c.get('space').log
  const isOver = seq > 0 && isSealed(turn, log) && !(await hasMore(store, turnId, reading))
  if (isOver) return c.body(null, 204)
  const headers = { [HEADERS.turnId]: headerOf(turnId), [HEADERS.threadId]: headerOf(threadId) }
  const kind = log === 'events' ? 'v2' : 'xapi'
  return openSse(c, context, { kind, cursor: after, headers, send: sender(store, turnId, reading) })
}

function isSealed({ sealed, status }: TurnRecord, log: LogName): boolean {
  return log === 'events' ? status !== 'in_progress' : sealed
}

/** Whether a sealed log has something for a client with this cursor. */
async function hasMore(log: TurnLog, turnId: string, reading: TurnReading): Promise<boolean> {
  const { log: name, after } = reading
  // Never aborted: a sealed log comes to its end.
  const tail = log.tail(turnId, name, after, new AbortController().signal)
  let isForeign = false
  for await (const each of tail) {
    if (isSliceOver()) await nextSlice()
    isForeign ||= 'resync' in each && each.resync === 'foreign'
    if (!isForeign) return true
  }
  // A foreign cursor begins again, but one past the end has seen it.
  return isForeign && parseOffset(after).seq <= parseOffset(tail.cursor).seq
}

/** A function of its own, so that an open stream retains nothing of its request. */
function sender(log: TurnLog, turnId: string, reading: TurnReading): SendStream {
  const { log: name, after, encoding } = reading
  return (connection) => {
    const tail = log.tail(turnId, name, after, connection.signal)
    const frames = encoding === 'append' ? new AppendFrames(APPENDS) : WHOLE
    return sendTail(connection, tail, frames)
  }
}

/**
 * Sends a log to its end, or until the client leaves. A record is taken only when there is room for it: a slow client
 * delays no other, and finds the newest state in the log later. `toId` makes the id of a frame from a cursor.
 */
export async function sendTail(
  connection: SseConnection,
  tail: Tail,
  frames: RecordFrames,
  toId: (cursor: string) => string = String,
): Promise<void> {
  let { cursor } = tail
  try {
    for await (const each of tail) {
      if (isSliceOver()) await nextSlice()
      const id = tail.cursor === cursor ? undefined : toId(tail.cursor)
      cursor = tail.cursor
      if ('resync' in each) {
        sendResync(connection, each.resync, toId(cursor))
        continue
      }
      const frame = frames.frameOf(each, id)
      while (connection.isHeldBack(frame)) await connection.room()
      if (!connection.send(frame)) await connection.drained()
    }
  } finally {
    connection.counts.skipped += tail.skipped ?? 0
  }
}

/** Says why the cursor is not honoured, and where what follows begins. */
export function sendResync(
  connection: SseConnection,
  reason: Resync['resync'],
  offset: string,
): void {
  const data = JSON.stringify({ reason, offset })
  connection.counts.resyncs[reason] += 1
  connection.send(new Frame(encodeSse({ event: SSE_EVENTS.resync, data })))
}
