import { monotonicNow } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { SSE_EVENTS } from '@turnstream/core/internal/protocol/names'
import { encodeSse } from '@turnstream/core/internal/sse/encode'
import type { Context } from 'hono'
import * as z from 'zod'
import { parseOffset, START } from '../../log/offsets.ts'
import { ID_PATTERN } from '../../log/records.ts'
import { mayReadThread } from '../auth/authenticate.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { Frame, RecordFrames } from './frames.ts'
import { openSse, type SendStream } from './sse-connection.ts'
import {
  parseCursor,
  placeInThread,
  sendThread,
  type ThreadCursor,
  type ThreadReading,
  type TurnReading,
} from './turn-stream.ts'

/** The most threads of one stream. A cursor for all of them has to fit into a URL. */
export const MAX_THREADS = 32

/** How often a frame has a cursor. It grows with the number of threads, and a repeated frame does no harm. */
const CURSOR_INTERVAL_MS = 1000

const FRAMES = new RecordFrames({ isOfSeveral: true })

export interface ThreadsReading extends Omit<TurnReading, 'id' | 'log'> {
  readonly threadIds: readonly string[]
  /** Those of each thread's own stream, in the order of the threads. Then frames have such cursors too. */
  readonly cursors?: readonly string[] | undefined
}

/**
 * Streams the snapshots of several threads over one connection. A thread that the cursor does not have starts with its
 * running turn, or else with its next one. A thread that is unknown, or is deleted later, gets a frame `gone`. Counts as
 * one stream per thread. CURSOR_INVALID; THREAD_UNKNOWN if there are none of the threads.
 */
export async function openThreadsStream(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  { threadIds, cursors, after, ...format }: ThreadsReading,
): Promise<Response> {
  const given = cursors === undefined ? decodeCursor(after) : zipCursors(threadIds, cursors)
  const { log, newTurns } = c.get('space')
  const common = { log, newTurns, ...format, timing: context, frames: FRAMES }
  const streams = new ThreadStreams(context.clock, cursors !== undefined)
  for (const threadId of new Set(threadIds)) {
    const thread = await log.getThread(threadId)
    if (thread === undefined || !mayReadThread(c.get('caller'), threadId)) {
      streams.unknown.push(threadId)
      continue
    }
    const { creation } = thread
    const placeIn = (turnId: string) => streams.placeIn(threadId, turnId)
    const cursor = given.has(threadId) ? given.get(threadId) : await newestIn(log, threadId)
    streams.add({ ...common, threadId, creation, placeIn }, cursor)
  }
  if (streams.size === 0) throw new TurnstreamError('THREAD_UNKNOWN', threadIds.join(', '))
  const { size, cursor } = streams
  return openSse(c, context, { kind: 'thread', cursor, headers: {}, size, send: streams.send })
}

/** The end of a thread, or the start of the turn that runs. */
async function newestIn(log: TurnLog, threadId: string): Promise<ThreadCursor> {
  const { items } = await log.listTurns(threadId, { first: 'newest', limit: 1 })
  const [newest] = items
  if (newest === undefined) return undefined
  const { turnId, sealed } = newest
  return sealed ? { turnId } : { turnId, offset: START }
}

/** The threads of one stream, and how far each was sent. */
class ThreadStreams {
  readonly unknown: string[] = []
  readonly #readings: ThreadReading[] = []
  readonly #sent = new Map<string, ThreadCursor>()
  readonly #clock: GatewayContext['clock']
  readonly #isCursorPerThread: boolean
  #cursorDueAt = 0

  constructor(clock: GatewayContext['clock'], isCursorPerThread: boolean) {
    this.#clock = clock
    this.#isCursorPerThread = isCursorPerThread
  }

  add(reading: ThreadReading, cursor: ThreadCursor): void {
    this.#readings.push(reading)
    this.#sent.set(reading.threadId, cursor)
  }

  get size(): number {
    return this.#readings.length
  }

  get cursor(): string {
    return this.#isCursorPerThread ? START : encodeCursor(this.#sent)
  }

  placeIn(threadId: string, turnId: string): ReturnType<ThreadReading['placeIn']> {
    if (this.#isCursorPerThread) return { threadId, ...placeInThread(turnId) }
    return {
      threadId,
      toId: (offset) => {
        const now = monotonicNow(this.#clock)
        if (now < this.#cursorDueAt) return undefined
        this.#cursorDueAt = now + CURSOR_INTERVAL_MS
        // Of other threads only what was sent: their next frames may wait for room.
        return encodeCursor(new Map([...this.#sent, [threadId, { turnId, offset }]]))
      },
      onSent: (offset) => this.#sent.set(threadId, { turnId, offset }),
    }
  }

  /** Resolves when all threads are deleted. */
  readonly send: SendStream = async (connection) => {
    const sendGone = (threadId: string) => {
      const data = JSON.stringify({ threadId })
      connection.send(new Frame(encodeSse({ event: SSE_EVENTS.gone, data })))
    }
    for (const threadId of this.unknown) sendGone(threadId)
    const sendOne = async (reading: ThreadReading) => {
      const { threadId } = reading
      await sendThread(connection, reading, this.#sent.get(threadId))
      if (!connection.signal.aborted) sendGone(threadId)
    }
    await Promise.all(this.#readings.map(sendOne))
  }
}

/** Of each thread the id, turn and offset, as far as it has them. */
const cursorSchema = z
  .array(z.tuple([z.string(), z.string().optional(), z.string().optional()]))
  .max(MAX_THREADS)

function encodeCursor(sent: ReadonlyMap<string, ThreadCursor>): string {
  const list = Array.from(sent, ([threadId, at]) =>
    [threadId, at?.turnId, at?.offset].filter((part) => part !== undefined),
  )
  return Buffer.from(JSON.stringify(list)).toString('base64url')
}

/** CURSOR_INVALID. */
function zipCursors(threadIds: readonly string[], cursors: readonly string[]) {
  if (cursors.length !== threadIds.length) {
    const detail = `${cursors.length} cursors for ${threadIds.length} threads`
    throw new TurnstreamError('CURSOR_INVALID', detail)
  }
  return new Map(threadIds.map((threadId, at) => [threadId, parseCursor(cursors[at] ?? START)]))
}

/** CURSOR_INVALID. */
function decodeCursor(text: string): Map<string, ThreadCursor> {
  const cursors = new Map<string, ThreadCursor>()
  if (text === START) return cursors
  for (const [threadId, turnId, offset] of parseList(text)) {
    if (offset !== undefined) parseOffset(offset)
    if (turnId !== undefined && !ID_PATTERN.test(turnId)) throw invalid(text)
    const at =
      turnId === undefined ? undefined : { turnId, ...(offset !== undefined && { offset }) }
    cursors.set(threadId, at)
  }
  return cursors
}

function parseList(text: string): z.infer<typeof cursorSchema> {
  try {
    return cursorSchema.parse(JSON.parse(Buffer.from(text, 'base64url').toString()))
  } catch {
    throw invalid(text)
  }
}

function invalid(text: string): TurnstreamError {
  return new TurnstreamError('CURSOR_INVALID', JSON.stringify(text.slice(0, 64)))
}
