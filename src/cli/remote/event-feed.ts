import type { Clock } from '../../async/clock.ts'
import { pause } from '../../async/pause.ts'
import { calculateRetryDelay } from '../../async/retry.ts'
import { HEADERS } from '../../protocol/names.ts'
import { SseDecoder, type SseEvent } from '../../sse/decode.ts'
import { isRefused, RemoteError, unreachable } from './errors.ts'
import { refusalOf } from './refusal.ts'

export interface EventFeedOptions {
  readonly url: string
  /** Come with every connection. */
  readonly headers?: Readonly<Record<string, string>>
  /** Where to begin, exclusive. */
  readonly from?: string
  readonly clock: Clock
  readonly signal: AbortSignal
  /** From 0 to 1; keeps many readers from coming back in the same moment. */
  readonly random?: () => number
  /** Told that the connection broke, how long it will be until the next one, and for which time in a row. */
  readonly onBreak?: (ms: number, failures: number) => void
}

const MAX_ATTEMPTS = 10
const RETRY_BASE_MS = 500
const RETRY_MAX_MS = 10_000
const MAX_RESTARTS = 5

// Three heartbeats of a gateway as it comes: a connection that is silent for longer is dead.
const MAX_SILENCE_MS = 45_000

/** May be asked for again as it was: the gateway is busy, or not there for a moment. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

/**
 * The frames of an event stream, over as many connections as it takes: one that breaks is followed by another
 * that resumes after the last frame. Whoever reads says when it is over, by leaving the loop; a gateway says
 * so with a 204. Ends with a RemoteError when it is refused, or when connection after connection fails.
 */
export class EventFeed {
  readonly #options: EventFeedOptions
  #cursor: string | undefined
  #failures = 0
  #hasConnected = false
  #isRestarting = false
  #restarts = 0

  constructor(options: EventFeedOptions) {
    this.#options = options
    this.#cursor = options.from
  }

  /** Forgets where it was: the next frames come on a new connection, from the beginning. */
  restart(): void {
    this.#isRestarting = true
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<SseEvent, void> {
    const { signal, clock } = this.#options
    while (!signal.aborted) {
      const connection = new Connection(this.#options, this.#cursor)
      try {
        if (yield* this.#read(connection)) return
      } catch (error) {
        if (error instanceof RemoteError) throw error
        if (!this.#hasConnected && isRefused(error)) throw unreachable(origin(this.#options), error)
      } finally {
        connection.close()
      }
      if (signal.aborted) return
      await pause(this.#nextDelay(), clock, signal)
    }
  }

  /** True when there is nothing left to read. */
  async *#read(connection: Connection): AsyncGenerator<SseEvent, boolean> {
    const response = await connection.open()
    this.#hasConnected = true
    if (response.status === 204) return true
    if (PASSING.has(response.status)) return false
    if (!response.ok) throw await refusalOf(response)
    for await (const events of connection.read(response)) {
      for (const event of events) {
        // Only an id, which is kept below, and nothing to show.
        if (event.data === '') continue
        this.#cursor = event.id || this.#cursor
        yield event
        if (this.#isRestarting) return this.#forget()
        this.#failures = 0
      }
      this.#cursor = connection.lastEventId || this.#cursor
    }
    return false
  }

  #forget(): false {
    this.#restarts += 1
    if (this.#restarts > MAX_RESTARTS) {
      throw new RemoteError(
        'ANSWER_INVALID',
        `what ${origin(this.#options)} sends does not fit together`,
      )
    }
    this.#isRestarting = false
    this.#cursor = undefined
    return false
  }

  #nextDelay(): number {
    const { url, random = Math.random, onBreak } = this.#options
    this.#failures += 1
    if (this.#failures >= MAX_ATTEMPTS) {
      const message = `the connection to ${origin({ url })} was lost, and ${MAX_ATTEMPTS} attempts to resume failed`
      throw new RemoteError('CONNECTION_LOST', message)
    }
    const delay = calculateRetryDelay(this.#failures - 1, RETRY_BASE_MS, RETRY_MAX_MS)
    const ms = Math.round(delay * (0.5 + random() / 2))
    onBreak?.(ms, this.#failures)
    return ms
  }
}

function origin({ url }: { readonly url: string }): string {
  return new URL(url).origin
}

/** One connection, which ends when it has been silent for too long. */
class Connection {
  readonly #options: EventFeedOptions
  readonly #cursor: string | undefined
  readonly #decoder = new SseDecoder()
  readonly #abort = new AbortController()
  #cancelTimer = (): void => {}

  constructor(options: EventFeedOptions, cursor: string | undefined) {
    this.#options = options
    this.#cursor = cursor
    options.signal.addEventListener('abort', this.#stop, { once: true })
  }

  get lastEventId(): string {
    return this.#decoder.lastEventId
  }

  open(): Promise<Response> {
    this.#expectBytes()
    const headers: Record<string, string> = {
      ...this.#options.headers,
      accept: 'text/event-stream',
    }
    if (this.#cursor !== undefined) headers[HEADERS.lastEventId] = this.#cursor
    return fetch(this.#options.url, { headers, redirect: 'manual', signal: this.#abort.signal })
  }

  async *read(response: Response): AsyncGenerator<SseEvent[]> {
    for await (const chunk of response.body ?? []) {
      this.#expectBytes()
      yield this.#decoder.feed(chunk)
    }
  }

  close(): void {
    this.#options.signal.removeEventListener('abort', this.#stop)
    this.#stop()
  }

  readonly #stop = (): void => {
    this.#cancelTimer()
    this.#abort.abort()
  }

  #expectBytes(): void {
    this.#cancelTimer()
    this.#cancelTimer = this.#options.clock.after(MAX_SILENCE_MS, this.#stop)
  }
}
