import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type {
  LogName,
  Resync,
  Tail,
  TurnLog,
  TurnRecord,
} from '@turnstream/core/internal/log/turn-log'
import { hasCode, isTurnMissing, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { HEADERS, SSE_EVENTS } from '@turnstream/core/internal/protocol/names'
import { encodeSse } from '@turnstream/core/internal/sse/encode'
import type { Context } from 'hono'
import { parseOffset, START } from '../../log/offsets.ts'
import { ID_PATTERN } from '../../log/records.ts'
import { mayReadThread, mayReadTurn } from '../auth/authenticate.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { Frame, RecordFrames, type StreamEncoding, type ToFrame } from './frames.ts'
import type { NewTurns } from './new-turns.ts'
import { headerOf, openSse, type SendStream, type SseConnection } from './sse-connection.ts'
import { ArgumentSender, type ArgumentTiming } from './tool-arguments.ts'

export interface TurnReading {
  readonly id: string
  readonly log: LogName
  readonly encoding: StreamEncoding
  /** Whether to send tool arguments while they stream. For the log `processed` only. */
  readonly isStreamingArguments?: boolean | undefined
  /** The cursor, exclusive. */
  readonly after: string
}

const TURN_FRAMES = new RecordFrames()
// Not shared with turn streams: in a thread stream the same record has another id.
const THREAD_FRAMES = new RecordFrames()

/**
 * Streams one log of a turn to its last record. 204 when nothing can follow the cursor: an EventSource would reconnect
 * forever. Ends when the turn is deleted, and is cut when the store fails. CURSOR_INVALID, TURN_UNKNOWN, TURN_EXPIRED.
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
  const source = { log: store, turn, timing: context, frames: TURN_FRAMES }
  return openSse(c, context, { kind, cursor: after, headers, send: turnSender(source, reading) })
}

function isSealed({ sealed, status }: TurnRecord, log: LogName): boolean {
  return log === 'events' ? status !== 'in_progress' : sealed
}

/** Whether a sealed log has records for a client with this cursor. */
async function hasMore(log: TurnLog, turnId: string, reading: TurnReading): Promise<boolean> {
  const { log: name, after } = reading
  // Never aborted: a sealed log has an end.
  const tail = log.tail(turnId, name, after, new AbortController().signal)
  let isForeign = false
  for await (const each of tail) {
    if (isSliceOver()) await nextSlice()
    isForeign ||= 'resync' in each && each.resync === 'foreign'
    if (!isForeign) return true
  }
  // A foreign cursor restarts, but one past the end has read everything.
  return isForeign && parseOffset(after).seq <= parseOffset(tail.cursor).seq
}

interface TurnSource {
  readonly log: TurnLog
  readonly turn: Pick<TurnRecord, 'turnId' | 'threadId' | 'sealed'>
  readonly timing: ArgumentTiming
  readonly frames: RecordFrames
}

/** A separate function, so that an open stream does not retain its request. */
function turnSender(source: TurnSource, reading: TurnReading): SendStream {
  return (connection) => sendLog(connection, source, reading)
}

/** How the cursors of a log become those of a stream. */
interface Place {
  /** The id of a frame, if it has one. */
  readonly toId: (cursor: string) => string | undefined
  /** Called when everything up to a cursor was sent. */
  readonly onSent?: (cursor: string) => void
  /** Called when the log starts over. */
  readonly onResync?: () => void
  /** Set on streams of several threads. */
  readonly threadId?: string
}

const TURN_PLACE: Place = { toId: String }

/** Sends a log and, if requested, the arguments of open calls while the turn runs. */
async function sendLog(
  connection: SseConnection,
  { log, turn, timing, frames }: TurnSource,
  { log: name, after, encoding, isStreamingArguments }: Omit<TurnReading, 'id'>,
  place = TURN_PLACE,
): Promise<void> {
  const tail = log.tail(turn.turnId, name, after, connection.signal)
  const toFrame = frames.encoder(encoding)
  if (!isStreamingArguments) return sendTail(connection, tail, toFrame, place)
  const sender = new ArgumentSender(connection, { log, turn, ...timing }, tail.cursor)
  const onResync = () => sender.restart()
  // Whatever fails here also fails for the tail.
  if (!turn.sealed) sender.run().catch(() => {})
  try {
    await sendTail(connection, tail, sender.wrap(toFrame), { ...place, onResync })
  } finally {
    sender.stop()
  }
}

/**
 * Sends a log to its end, or until the client disconnects. Records are read only when there is room: a slow client
 * delays no other, and finds the newest state in the log later.
 */
async function sendTail(
  connection: SseConnection,
  tail: Tail,
  toFrame: ToFrame,
  place = TURN_PLACE,
): Promise<void> {
  const { toId, onSent } = place
  let { cursor } = tail
  try {
    for await (const each of tail) {
      if (isSliceOver()) await nextSlice()
      // The cursor moves with the last record of a block: before that it is where the block starts.
      const start = cursor
      const isBlockEnd = tail.cursor !== cursor
      cursor = tail.cursor
      if ('resync' in each) {
        sendResync(connection, each.resync, toId(cursor), place.threadId)
        place.onResync?.()
        continue
      }
      const isFirst = 'firstSeq' in each && each.firstSeq > parseOffset(start).seq
      // Other threads of the same stream may have filled it.
      while (connection.isBehind) await connection.drained()
      if (connection.isHeldBack(each.data.length)) await connection.room(each.data.length)
      const hasRoom = connection.send(toFrame(each, isBlockEnd ? toId(cursor) : undefined, isFirst))
      if (isBlockEnd) onSent?.(cursor)
      if (!hasRoom) await connection.drained()
    }
  } finally {
    connection.streams.counts.skipped += tail.skipped ?? 0
  }
}

/** Reports why the cursor was not valid, and where the stream restarts. */
function sendResync(
  connection: SseConnection,
  reason: Resync['resync'],
  offset: string | undefined,
  threadId: string | undefined,
): void {
  const data = JSON.stringify({ reason, offset, threadId })
  connection.streams.counts.resyncs[reason] += 1
  connection.send(new Frame(encodeSse({ event: SSE_EVENTS.resync, data })))
}

// An up-to-date client finds one new turn at a time.
const FIRST_PAGE = 2

/**
 * Streams the snapshots of all turns of a thread after the cursor `<turnId>/<offset>`, in order, until the thread is
 * deleted. A new thread with the same id is a different one. CURSOR_INVALID, THREAD_UNKNOWN.
 */
export async function openThreadStream(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  threadId: string,
  { after, ...format }: Omit<TurnReading, 'id' | 'log'>,
): Promise<Response> {
  const cursor = parseCursor(after)
  const { log, newTurns } = c.get('space')
  const thread = await log.getThread(threadId)
  if (thread === undefined || !mayReadThread(c.get('caller'), threadId)) {
    throw new TurnstreamError('THREAD_UNKNOWN', threadId)
  }
  const { creation } = thread
  const source = { log, newTurns, threadId, creation, timing: context, frames: THREAD_FRAMES }
  const reading = { ...source, ...format, placeIn: placeInThread }
  return openSse(c, context, {
    kind: 'thread',
    cursor: after,
    headers: { [HEADERS.threadId]: headerOf(threadId) },
    send: threadSender(reading, cursor),
  })
}

export function placeInThread(turnId: string): Place {
  return { toId: (offset) => `${turnId}/${offset}` }
}

/** A separate function, so that an open stream does not retain its request. */
function threadSender(reading: ThreadReading, cursor: ThreadCursor): SendStream {
  return (connection) => sendThread(connection, reading, cursor)
}

/** A position in one of the turns, after it if there is no offset, or before all of them. */
export type ThreadCursor = { readonly turnId: string; readonly offset?: string } | undefined

/** `<turnId>/<offset>`, or `0-0` for the start. CURSOR_INVALID. */
export function parseCursor(text: string): ThreadCursor {
  // Ids may contain slashes.
  const slash = text.lastIndexOf('/')
  const offset = text.slice(slash + 1)
  parseOffset(offset)
  const turnId = text.slice(0, Math.max(0, slash))
  // It is echoed back: an invalid id could inject a line.
  if (ID_PATTERN.test(turnId)) return { turnId, offset }
  if (text === START) return undefined
  throw new TurnstreamError('CURSOR_INVALID', JSON.stringify(text.slice(0, 64)))
}

export interface ThreadReading
  extends Omit<TurnSource, 'turn'>,
    Pick<TurnReading, 'encoding' | 'isStreamingArguments'> {
  readonly newTurns: NewTurns
  readonly threadId: string
  /** Distinguishes the thread from a later one with the same id. */
  readonly creation: string
  readonly placeIn: (turnId: string) => Place
}

/** Sends all turns after the cursor, until the thread is deleted or the client disconnects. */
export async function sendThread(
  connection: SseConnection,
  reading: ThreadReading,
  cursor: ThreadCursor,
): Promise<void> {
  const { log, newTurns, threadId, creation } = reading
  const { signal } = connection
  // The ordinal of the last turn that was sent.
  let ordinal = 0
  if (cursor !== undefined) {
    const turn = await log.getTurn(cursor.turnId)
    if (turn?.threadId === threadId) {
      const { offset } = cursor
      if (offset !== undefined) await sendTurn(connection, reading, turn, offset)
      ordinal = turn.ordinal
    } else {
      sendResync(connection, 'foreign', START, reading.placeIn(cursor.turnId).threadId)
    }
  }
  while (!signal.aborted) {
    const { turns, newest } = await turnsAfter(log, threadId, ordinal)
    for (const turn of turns) {
      // Checked after listing: while the thread exists, no turn of a later thread was listed.
      if (!(await exists(reading))) return
      await sendTurn(connection, reading, turn, START)
      ordinal = turn.ordinal
    }
    if (turns.length > 0) continue
    if (!(await exists(reading))) return
    await newTurns.wait(threadId, { creation, newest }, signal)
  }
}

async function sendTurn(
  connection: SseConnection,
  reading: ThreadReading,
  { turnId, sealed }: TurnPlace,
  after: string,
): Promise<void> {
  if (connection.signal.aborted) return
  const place = reading.placeIn(turnId)
  const { log, timing, frames, threadId, encoding, isStreamingArguments } = reading
  const source = { log, timing, frames, turn: { turnId, threadId, sealed } }
  try {
    const ofTurn = { log: 'processed', after, encoding, isStreamingArguments } as const
    await sendLog(connection, source, ofTurn, place)
  } catch (error) {
    if (!isTurnMissing(error) && !hasCode(error, 'STORE_CORRUPT')) throw error
    // Nothing follows in this turn, whatever the client has read of it.
    sendResync(connection, 'trimmed', place.toId(START), place.threadId)
  }
}

async function exists({ log, threadId, creation }: ThreadReading): Promise<boolean> {
  const thread = await log.getThread(threadId)
  return thread?.creation === creation
}

type TurnPlace = Pick<TurnRecord, 'turnId' | 'ordinal' | 'sealed'>

/** The turns after an ordinal, oldest first, and the ordinal of the newest. */
async function turnsAfter(log: TurnLog, threadId: string, ordinal: number) {
  const turns: TurnPlace[] = []
  let newest: number | undefined
  let cursor: string | undefined
  do {
    if (isSliceOver()) await nextSlice()
    const place = cursor === undefined ? { limit: FIRST_PAGE } : { cursor }
    const page = await log.listTurns(threadId, { first: 'newest', ...place })
    newest ??= page.items[0]?.ordinal ?? 0
    const found = page.items.filter((turn) => turn.ordinal > ordinal)
    for (const { turnId, ordinal, sealed } of found) turns.push({ turnId, ordinal, sealed })
    cursor = found.length === page.items.length ? page.nextCursor : undefined
  } while (cursor !== undefined)
  return { turns: turns.toReversed(), newest }
}
