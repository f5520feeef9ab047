import type { Context } from 'hono'
import { isSliceOver, nextSlice } from '../../async/time-slice.ts'
import { START } from '../../log/offsets.ts'
import type { TurnLog, TurnRecord } from '../../log/turn-log.ts'
import { type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'
import { mayReadThread } from '../auth/caller.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { formatThreadCursor, parseThreadCursor, type ThreadCursor } from './cursors.ts'
import { follow, sendResync } from './follow.ts'
import type { NewTurns } from './new-turns.ts'
import { AppendFrames, SharedAppends, WholeFrames } from './record-frames.ts'
import type { SseConnection } from './sse-connection.ts'
import { headerOf, openSse } from './sse-response.ts'
import type { StreamEncoding } from './turn-stream.ts'

export interface ThreadStreamOptions {
  readonly threadId: string
  /** `snapshot` unless given. */
  readonly encoding?: StreamEncoding
  /** The cursor, exclusive: `<turnId>/<offset>`. The beginning of the thread unless given. */
  readonly after?: string
}

// Apart from those of turns: the same record has another id here.
const WHOLE = new WholeFrames()
const APPENDS = new SharedAppends(WHOLE)

// Whoever follows a thread finds one new turn at a time.
const FIRST_PAGE = 2

/** What ends the reading of a turn while its thread goes on. */
const GONE: ReadonlySet<ErrorCode> = new Set(['TURN_DELETED', 'TURN_EXPIRED', 'TURN_UNKNOWN'])

/**
 * Answers with the snapshots of every turn of a thread, one turn after the other, those that are there and
 * those that will be made. When the thread is deleted the response ends, and a client that reconnects gets
 * THREAD_UNKNOWN; a new thread with the same id is another thread. CURSOR_INVALID, THREAD_UNKNOWN.
 */
export async function openThreadStream(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  { threadId, encoding = 'snapshot', after = START }: ThreadStreamOptions,
): Promise<Response> {
  const cursor = parseThreadCursor(after)
  const { log, newTurns } = c.get('space')
  const thread = await log.getThread(threadId)
  if (thread === undefined || !mayReadThread(c.get('caller'), threadId)) {
    throw new TurnstreamError('THREAD_UNKNOWN', threadId)
  }
  const { creation } = thread
  const headers = { [HEADERS.threadId]: headerOf(threadId) }
  const reading = { log, newTurns, threadId, creation, encoding }
  return openSse(c, context, {
    kind: 'thread',
    cursor: after,
    headers,
    run: (connection) => new ThreadReader(connection, reading).run(cursor),
  })
}

interface ThreadReading {
  readonly log: TurnLog
  readonly newTurns: NewTurns
  readonly threadId: string
  /** Tells the thread from a later one with the same id. */
  readonly creation: string
  readonly encoding: StreamEncoding
}

class ThreadReader {
  readonly #connection: SseConnection
  readonly #reading: ThreadReading
  /** The place of the last turn that was sent. */
  #ordinal = 0

  constructor(connection: SseConnection, reading: ThreadReading) {
    this.#connection = connection
    this.#reading = reading
  }

  async run(cursor: ThreadCursor): Promise<void> {
    const { log, newTurns, threadId, creation } = this.#reading
    const { signal } = this.#connection
    if (cursor !== undefined) await this.#resume(cursor.turnId, cursor.offset)
    while (!signal.aborted) {
      const { turns, newest } = await turnsAfter(log, threadId, this.#ordinal)
      for (const turn of turns) {
        // After the listing: as long as the thread is there, no turn of a later one was listed.
        if (!(await this.#isThere())) return
        await this.#send(turn, START)
      }
      if (turns.length > 0) continue
      if (!(await this.#isThere())) return
      await newTurns.wait(threadId, { creation, newest }, signal)
    }
  }

  async #resume(turnId: string, offset: string): Promise<void> {
    const turn = await this.#reading.log.getTurn(turnId)
    if (turn?.threadId === this.#reading.threadId) await this.#send(turn, offset)
    else sendResync(this.#connection, { resync: 'foreign' }, START)
  }

  async #send({ turnId, ordinal }: TurnPlace, after: string): Promise<void> {
    const { log, encoding } = this.#reading
    const connection = this.#connection
    if (connection.signal.aborted) return
    const idOf = (cursor: string) => formatThreadCursor(turnId, cursor)
    const tail = log.tail(turnId, 'processed', after, connection.signal)
    const frames = encoding === 'append' ? new AppendFrames(APPENDS) : WHOLE
    try {
      await follow(connection, { tail, frames, idOf })
    } catch (error) {
      if (!(error instanceof TurnstreamError) || !GONE.has(error.code)) throw error
      // Nothing follows of this turn, whatever the reader has of it.
      sendResync(connection, { resync: 'trimmed' }, idOf(START))
    }
    this.#ordinal = ordinal
  }

  async #isThere(): Promise<boolean> {
    const { log, threadId, creation } = this.#reading
    const thread = await log.getThread(threadId)
    return thread?.creation === creation
  }
}

type TurnPlace = Pick<TurnRecord, 'turnId' | 'ordinal'>

/** The turns after a place, oldest first, and the place of the newest. */
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
