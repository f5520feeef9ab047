import * as z from 'zod'
import { type Clock, sleep } from '../../async/clock.ts'
import { calculateRetryDelay } from '../../async/retry.ts'
import { applyAppend } from '../../dialects/xapi/encode.ts'
import { decodeText } from '../../protocol/decode.ts'
import { HEADERS, SSE_EVENTS } from '../../protocol/names.ts'
import {
  type ItemSnapshot,
  type StreamOutput,
  streamOutputSchema,
} from '../../protocol/stream-output.ts'
import { SseDecoder, type SseEvent } from '../../sse/decode.ts'
import { isRefused, RemoteError, toRemoteError, unreachable } from './errors.ts'

export interface EventFeedOptions {
  readonly url: string
  /** Sent with every connection. */
  readonly headers?: Readonly<Record<string, string>>
  /** Where to begin, exclusive. */
  readonly from?: string | undefined
  readonly clock: Clock
  /** Called when the connection broke: how long until the next one, and for which time in a row. */
  readonly onBreak?: (ms: number, failures: number) => void
}

const MAX_ATTEMPTS = 10
const RETRY_BASE_MS = 500
const RETRY_MAX_MS = 10_000
const MAX_RESTARTS = 5

// Three heartbeats of a gateway as it comes: a connection that is silent for longer is dead.
const MAX_SILENCE_MS = 45_000

/** The same request may be repeated: the gateway is busy, or not there for a moment. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

/**
 * The frames of an event stream, over as many connections as it takes: one that breaks is followed by another
 * that resumes after the last frame. The reader ends it by leaving the loop, a gateway with a 204. Ends with a
 * RemoteError when it is refused, or when connection after connection fails.
 */
export class EventFeed {
  readonly #options: EventFeedOptions
  readonly #origin: string
  #cursor: string | undefined
  #failures = 0
  #hasConnected = false
  #isRestarting = false
  #restarts = 0

  constructor(options: EventFeedOptions) {
    this.#options = options
    this.#origin = new URL(options.url).origin
    this.#cursor = options.from
  }

  /** Drops the cursor: the next frames come on a new connection, from the beginning. */
  restart(): void {
    this.#isRestarting = true
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<SseEvent, void> {
    const { clock } = this.#options
    for (;;) {
      const abort = new AbortController()
      const start = () => clock.after(MAX_SILENCE_MS, () => abort.abort())
      let stopTimer = start()
      const onBytes = () => {
        stopTimer()
        stopTimer = start()
      }
      try {
        if (yield* this.#read(abort.signal, onBytes)) return
      } catch (error) {
        if (error instanceof RemoteError) throw error
        if (!this.#hasConnected && isRefused(error)) throw unreachable(this.#origin, error)
      } finally {
        stopTimer()
        abort.abort()
      }
      await sleep(this.#nextDelay(), clock)
    }
  }

  /** Reads one connection. True when there is nothing left to read. */
  async *#read(signal: AbortSignal, onBytes: () => void): AsyncGenerator<SseEvent, boolean> {
    const { url, headers } = this.#options
    const response = await fetch(url, {
      headers: {
        ...headers,
        accept: 'text/event-stream',
        ...(this.#cursor !== undefined && { [HEADERS.lastEventId]: this.#cursor }),
      },
      redirect: 'manual',
      signal,
    })
    this.#hasConnected = true
    if (response.status === 204) return true
    if (PASSING.has(response.status)) return false
    if (!response.ok) throw await toRemoteError(response)
    const decoder = new SseDecoder()
    for await (const chunk of response.body ?? []) {
      onBytes()
      for (const event of decoder.feed(chunk)) {
        // Only an id, which is kept below, and nothing to show.
        if (event.data === '') continue
        this.#cursor = event.id || this.#cursor
        yield event
        if (this.#isRestarting) return this.#dropCursor()
        this.#failures = 0
      }
      this.#cursor = decoder.lastEventId || this.#cursor
    }
    return false
  }

  #dropCursor(): false {
    this.#restarts += 1
    if (this.#restarts > MAX_RESTARTS) {
      throw new RemoteError('ANSWER_INVALID', `what ${this.#origin} sends does not fit together`)
    }
    this.#isRestarting = false
    this.#cursor = undefined
    return false
  }

  #nextDelay(): number {
    this.#failures += 1
    if (this.#failures >= MAX_ATTEMPTS) {
      const message = `the connection to ${this.#origin} was lost, and ${MAX_ATTEMPTS} attempts to resume failed`
      throw new RemoteError('CONNECTION_LOST', message)
    }
    const delay = calculateRetryDelay(this.#failures - 1, RETRY_BASE_MS, RETRY_MAX_MS)
    // Keeps many readers from coming back in the same moment.
    const ms = Math.round(delay * (0.5 + Math.random() / 2))
    this.#options.onBreak?.(ms, this.#failures)
    return ms
  }
}

const appendSchema = z.object({
  itemId: z.string(),
  at: z.number(),
  text: z.string(),
  length: z.number(),
  status: z.enum(['create', 'update', 'complete', 'error']),
})

/**
 * The outputs of a turn, each of them complete, to the last, with the offset to resume after it. What a new
 * connection repeats is left out, and so are types that this version does not know.
 */
export async function* turnOutputs(feed: EventFeed) {
  const items = new Map<string, ItemSnapshot>()
  const seen = new Map<string, string>()
  for await (const frame of feed) {
    const output = outputOf(frame, items)
    if (output === 'out of step') feed.restart()
    if (output === undefined || output === 'out of step') continue
    const key = 'itemId' in output ? output.itemId : output.type
    if ('itemId' in output) items.set(key, output)
    const text = JSON.stringify(output)
    if (seen.get(key) === text) continue
    seen.set(key, text)
    yield { output, offset: frame.id }
    if (outcomeOf(output) !== undefined) return
  }
}

function outputOf(
  frame: SseEvent,
  items: ReadonlyMap<string, ItemSnapshot>,
): StreamOutput | 'out of step' | undefined {
  if (frame.event === '') {
    const output = decodeText(streamOutputSchema, frame.data)
    return output.ok ? output.value : undefined
  }
  if (frame.event !== SSE_EVENTS.append) return undefined
  const append = decodeText(appendSchema, frame.data)
  const item = append.ok ? items.get(append.value.itemId) : undefined
  if (!append.ok || item === undefined) return 'out of step'
  return applyAppend(item, append.value) ?? 'out of step'
}

export type TurnOutcome = 'complete' | 'error' | 'aborted'

/** How the turn ended, if this is its end. */
export function outcomeOf(output: StreamOutput): TurnOutcome | undefined {
  if (output.type === 'turn_error') return 'error'
  return output.type === 'turn_complete' ? output.status : undefined
}
