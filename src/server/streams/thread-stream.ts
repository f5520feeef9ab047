import type { Context } from 'hono'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import { parseOffset, START } from '../../log/offsets.ts'
import { ID_PATTERN } from '../../log/records.ts'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { isTurnMissing, TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'
import { mayReadThread } from '../auth/caller.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { AppendFrames, SharedAppends, WholeFrames } from './frames.ts'
import type { NewTurns } from './new-turns.ts'
import type { SseConnection } from './sse-connection.ts'
import { headerOf, openSse, type SendStream } from './sse-response.ts'
import { type StreamEncoding, sendResync, sendTail } from './turn-stream.ts'

// Not those of turn streams: the same record has another id here.
const WHOLE = new WholeFrames()
const APPENDS = new SharedAppends(WHOLE)

// A client that is up to date finds one new turn at a time.
const FIRST_PAGE = 2

/**
 * Answers with the snapshots of every turn of a thread, one turn after the other, existing and future ones. `after` is
 * the cursor, exclusive: `<turnId>/<offset>`. When the thread is deleted the response ends, and a client that reconnects
 * gets THREAD_UNKNOWN. A new thread with the same id is another thread. CURSOR_INVALID, THREAD_UNKNOWN.
 */
export async function openThreadStream(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  threadId: string,
  { encoding, after }: { readonly encoding: StreamEncoding; readonly after: string },
): Promise<Response> {
  const cursor = parseCursor(after)
  const { log, newTurns } = c.get('space')
  const thread = await log.getThread(threadId)
  if (thread === undefined || !mayReadThread(c.get('caller'), threadId)) {
    throw new TurnstreamError('THREAD_UNKNOWN', threadId)
  }
  const reading = { log, newTurns, threadId, creation: thread.creation, encoding }
  return openSse(c, context, {
    kind: 'thread',
    cursor: after,
    headers: { [HEADERS.threadId]: headerOf(threadId) },
    send: sender(reading, cursor),
  })
}

/** A function of its own, so that an open stream retains nothing of its request. */
function sender(reading: ThreadReading, cursor: ThreadCursor): SendStream {
  return (connection) => sendThread(connection, reading, cursor)
}

/** A place in one of the turns, or before all of them. */
type ThreadCursor = { readonly turnId: string; readonly offset: string } | undefined

/** `<turnId>/<offset>`, or `0-0` for the beginning. */
function parseCursor(text: string): ThreadCursor {
  // Ids may contain slashes.
  const slash = text.lastIndexOf('/')
  const offset = text.slice(slash + 1)
  parseOffset(offset)
  const turnId = text.slice(0, Math.max(0, slash))
  // It is sent back as it is: a text that is no id could inject a line.
  if (ID_PATTERN.test(turnId)) return { turnId, offset }
  if (text === START) return undefined
  throw new TurnstreamError('CURSOR_INVALID', JSON.stringify(text.slice(0, 64)))
}

interface ThreadReading {
  readonly log: TurnLog
  readonly newTurns: NewTurns
  readonly threadId: string
  /** Tells the thread from a later one with the same id. */
  readonly creation: string
  readonly encoding: StreamEncoding
}

async function sendThread(
  connection: SseConnection,
  reading: ThreadReading,
  cursor: ThreadCursor,
): Promise<void> {
  const { log, newTurns, threadId, creation } = reading
  const { signal } = connection
  // Of the last turn that was sent.
  let ordinal = 0
  if (cursor !== undefined) {
    const turn = await log.getTurn(cursor.turnId)
    if (turn?.threadId === threadId) {
      await sendTurn(connection, reading, turn.turnId, cursor.offset)
      ordinal = turn.ordinal
    } else {
      sendResync(connection, 'foreign', START)
    }
  }
  while (!signal.aborted) {
    const { turns, newest } = await turnsAfter(log, threadId, ordinal)
    for (const turn of turns) {
      // After listing: while the thread exists, no turn of a later thread was listed.
      if (!(await exists(reading))) return
      await sendTurn(connection, reading, turn.turnId, START)
      ordinal = turn.ordinal
    }
    if (turns.length > 0) continue
    if (!(await exists(reading))) return
    await newTurns.wait(threadId, { creation, newest }, signal)
  }
}

async function sendTurn(
  connection: SseConnection,
  { log, encoding }: ThreadReading,
  turnId: string,
  after: string,
): Promise<void> {
  if (connection.signal.aborted) return
  const toId = (cursor: string) => `${turnId}/${cursor}`
  const tail = log.tail(turnId, 'processed', after, connection.signal)
  const frames = encoding === 'append' ? new AppendFrames(APPENDS) : WHOLE
  try {
    await sendTail(connection, tail, frames, toId)
  } catch (error) {
    if (!isTurnMissing(error)) throw error
    // Nothing follows of this turn, whatever the client has of it.
    sendResync(connection, 'trimmed', toId(START))
  }
}

async function exists({ log, threadId, creation }: ThreadReading): Promise<boolean> {
  const thread = await log.getThread(threadId)
  return thread?.creation === creation
}

type TurnPlace = Pick<TurnRecord, 'turnId' | 'ordinal'>

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
    for (const { turnId, ordinal } of found) turns.push({ turnId, ordinal })
    cursor = found.length === page.items.length ? page.nextCursor : undefined
  } while (cursor !== undefined)
  return { turns: turns.toReversed(), newest }
}
