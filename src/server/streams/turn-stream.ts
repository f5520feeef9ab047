import type { Context } from 'hono'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import { parseOffset, START } from '../../log/offsets.ts'
import type { LogName, TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'
import { mayReadTurn } from '../auth/caller.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { follow } from './follow.ts'
import { AppendFrames, SharedAppends, WholeFrames } from './record-frames.ts'
import type { SseConnection } from './sse-connection.ts'
import { headerOf, openSse } from './sse-response.ts'

/** `append` sends of a growing text only what is new. It is for `processed` alone. */
export type StreamEncoding = 'append' | 'snapshot'

export interface TurnStreamOptions {
  readonly turnId: string
  readonly log: LogName
  /** `snapshot` unless given. */
  readonly encoding?: StreamEncoding
  /** The cursor, exclusive. The beginning unless given. */
  readonly after?: string
}

type Reading = Required<TurnStreamOptions>

const WHOLE = new WholeFrames()
const APPENDS = new SharedAppends(WHOLE)

/**
 * Answers with one log of a turn: what is there and then what is added, until its last record, with which
 * the response ends. 204 when nothing can follow the cursor any more, because an EventSource would come back
 * for ever otherwise. CURSOR_INVALID, TURN_UNKNOWN, TURN_EXPIRED.
 *
 * When the turn is deleted in the middle the response ends, and whoever comes back is told that it is gone.
 * When the store fails the response breaks off.
 */
export async function openTurnStream(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  options: TurnStreamOptions,
): Promise<Response> {
  const { turnId } = options
  const turn = await c.get('space').log.getTurn(turnId)
  if (turn === undefined || !mayReadTurn(c.get('caller'), turn)) {
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }
  return await streamTurn(c, context, turn, options)
}

/** The same for a turn that was looked up already. */
export async function streamTurn(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  turn: TurnRecord,
  options: Omit<TurnStreamOptions, 'turnId'>,
): Promise<Response> {
  const { turnId, threadId } = turn
  c.set('turnId', turnId)
  const { log, encoding = 'snapshot', after = START } = options
  const reading = { turnId, log, encoding, after }
  const { log: store } = c.get('space')
  const { seq } = parseOffset(after)
  if (turn.expired) throw new TurnstreamError('TURN_EXPIRED', turnId)
  const isOver = seq > 0 && isSealed(turn, log) && !(await hasMore(store, reading))
  if (isOver) return c.body(null, 204)
  const headers = { [HEADERS.turnId]: headerOf(turnId), [HEADERS.threadId]: headerOf(threadId) }
  const kind = log === 'events' ? 'v2' : 'xapi'
  return openSse(c, context, { kind, cursor: after, headers, run: runOf(store, reading) })
}

function isSealed({ sealed, status }: TurnRecord, log: LogName): boolean {
  return log === 'events' ? status !== 'in_progress' : sealed
}

/** Whether a sealed log has something for a reader with this cursor. */
async function hasMore(log: TurnLog, { turnId, log: name, after }: Reading): Promise<boolean> {
  // Nothing to abort: a sealed log comes to its end.
  const tail = log.tail(turnId, name, after, new AbortController().signal)
  let isForeign = false
  for await (const each of tail) {
    if (isSliceOver()) await nextSlice()
    isForeign ||= 'resync' in each && each.resync === 'foreign'
    if (!isForeign) return true
  }
  // A cursor of another history begins anew, but one past the end has seen it.
  return isForeign && parseOffset(after).seq <= parseOffset(tail.cursor).seq
}

/** Made apart, so that an open stream keeps nothing of its request. */
function runOf(log: TurnLog, reading: Reading): (connection: SseConnection) => Promise<void> {
  const { turnId, log: name, after, encoding } = reading
  return (connection) => {
    const tail = log.tail(turnId, name, after, connection.signal)
    const frames = encoding === 'append' ? new AppendFrames(APPENDS) : WHOLE
    return follow(connection, { tail, frames, idOf: sameId })
  }
}

function sameId(cursor: string): string {
  return cursor
}
