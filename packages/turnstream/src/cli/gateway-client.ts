import {
  bearer,
  failureReason,
  readBounded,
  send,
  tooLate,
} from '@turnstream/conformance/internal/endpoint/http'
import { type Clock, sleep } from '@turnstream/core/internal/async/clock'
import { calculateRetryDelay } from '@turnstream/core/internal/async/retry'
import { applyAppend } from '@turnstream/core/internal/protocol/append-frame'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { HEADERS, ROUTES, SSE_EVENTS } from '@turnstream/core/internal/protocol/names'
import type { ItemSnapshot, StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import { decodeText } from '@turnstream/core/internal/schemas/decode'
import { streamOutputSchema } from '@turnstream/core/internal/schemas/stream-output'
import { SseDecoder, type SseEvent } from '@turnstream/core/internal/sse/decode'
import * as z from 'zod'
import { isKey } from '../server/auth/key-ring.ts'
import type { CallResult } from './chat-tools.ts'
import { CommandError, UsageError } from './command.ts'
import { readSecret } from './serve/configuration.ts'
import type { Terminal } from './terminal.ts'

export const DEFAULT_URL = 'http://127.0.0.1:4010'

export const URL_OPTION = {
  value: 'url',
  about: `gateway URL (TURNSTREAM_URL, or ${DEFAULT_URL})`,
} as const

/** For the help of commands that call a gateway. */
export const ABOUT_KEYS =
  'The API key is read from TURNSTREAM_KEY, or from the file that TURNSTREAM_KEY_FILE names.'

/** Creates a client for `--url`, TURNSTREAM_URL or the local gateway, with the API key of the environment. */
export function createGatewayClient(option: string | undefined, terminal: Terminal): GatewayClient {
  const url = option ?? (terminal.env['TURNSTREAM_URL']?.trim() || DEFAULT_URL)
  if (!/^https?:\/\//.test(url) || parseUrl(url) === undefined) {
    const origin = option === undefined ? 'TURNSTREAM_URL' : '--url'
    throw new UsageError(`${origin} must be an http:// or https:// URL, got '${url}'`)
  }
  return new GatewayClient(url, terminal.clock, keyHeaders(terminal))
}

/** Empty without a key. There is no option for it: command lines are visible to every user of the machine. */
export function keyHeaders({ env }: Pick<Terminal, 'env'>): Readonly<Record<string, string>> {
  return bearer(environmentKey(env, 'TURNSTREAM_KEY'))
}

/** Refuses keys that are not valid in a header. The error of `fetch` would print them. */
export function environmentKey(env: Terminal['env'], variable: string): string | undefined {
  const key = readSecret(env, variable)
  if (key === undefined || isKey(key)) return key
  throw new UsageError(`${variable} must be a key: printable characters on one line`)
}

const submittedSchema = z.object({ runId: z.string(), turnId: z.string(), threadId: z.string() })

const ATTEMPTS = 4
const RETRY_BASE_MS = 250
const RETRY_MAX_MS = 2000

// A gateway responds when the turn is durable, which depends on its store.
const ANSWER_LIMIT_MS = 15_000
// Far more than any response of a gateway. Another server may send anything.
const MAX_ANSWER_BYTES = 64 * 1024

export class GatewayClient {
  readonly url: string
  readonly #clock: Clock
  readonly #headers: Readonly<Record<string, string>>

  /** `url` may have a path prefix. `headers` are sent with every request. */
  constructor(url: string, clock: Clock, headers: Readonly<Record<string, string>> = {}) {
    this.url = url.replace(/\/+$/, '')
    this.#clock = clock
    this.#headers = headers
  }

  address(route: string, params: Readonly<Record<string, string>> = {}): string {
    const path = route.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(params[name] ?? ''),
    )
    return `${this.url}${path}`
  }

  stream(
    route: string,
    params: Readonly<Record<string, string>>,
    options: Pick<EventFeedOptions, 'from' | 'onBreak'>,
  ): EventFeed {
    const url = this.address(route, params)
    return new EventFeed({ ...options, url, headers: this.#headers, clock: this.#clock })
  }

  /** Rejects when the gateway is unreachable or does not have the thread. */
  async check(threadId?: string): Promise<void> {
    const route = threadId === undefined ? ROUTES.health : `${ROUTES.thread}?limit=1`
    const response = await this.#send(this.address(route, { threadId: threadId ?? '' }))
    if (!response.ok) throw await readRefusal(response)
    await response.body?.cancel()
  }

  /** The caller generates the turn id, so a submit can be repeated. */
  async submit(body: {
    readonly turnId: string
    readonly prompt?: string
    readonly input?: readonly CallResult[]
    readonly tools?: readonly unknown[]
    readonly model?: string
    readonly threadId?: string
  }): Promise<z.infer<typeof submittedSchema>> {
    const response = await this.#post(this.address(ROUTES.submit), body)
    const text = await readBounded(response.body, MAX_ANSWER_BYTES)
    const submitted = decodeText(submittedSchema, text)
    if (submitted.ok) return submitted.value
    throw new CommandError('ANSWER_INVALID', `${this.url} is not a turnstream gateway`)
  }

  async cancel(runId: string, reason: string): Promise<void> {
    await this.#post(this.address(ROUTES.runCancel, { runId }), { reason })
  }

  async answerApproval(
    runId: string,
    approvalId: string,
    answer: { readonly approved: boolean; readonly reason?: string },
  ): Promise<void> {
    await this.#post(this.address(ROUTES.runApproval, { runId, approvalId }), answer)
  }

  /** Submits, cancels and answers can be repeated: the first answer counts. */
  async #post(address: string, body: unknown): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt + 1 === ATTEMPTS
      try {
        const response = await this.#send(address, JSON.stringify(body))
        if (response.ok) return response
        if (response.status !== 503 || isLast) throw await readRefusal(response)
      } catch (error) {
        const isLost = error instanceof CommandError && error.code === 'CONNECTION_LOST'
        if (isLast || !isLost) throw error
      }
      await sleep(calculateRetryDelay(attempt, RETRY_BASE_MS, RETRY_MAX_MS), this.#clock)
    }
  }

  /** A POST of `body`, or a GET without it. */
  async #send(address: string, body?: string): Promise<Response> {
    const limit = new AbortController()
    const stopWaiting = this.#clock.after(ANSWER_LIMIT_MS, () => {
      limit.abort(new Error(tooLate(ANSWER_LIMIT_MS).reason))
    })
    const requestId = body !== undefined && { [HEADERS.requestId]: crypto.randomUUID() }
    try {
      const headers = { ...this.#headers, ...requestId }
      return await send({ url: address, headers, body }, limit.signal)
    } catch (error) {
      throw isRefused(error) ? unreachable(this.url, error) : lost(this.url, error)
    } finally {
      stopWaiting()
    }
  }
}

export interface EventFeedOptions {
  readonly url: string
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>>
  /** The cursor to start after. */
  readonly from?: string | undefined
  readonly clock: Clock
  /** Called when the connection broke, with the delay until the next attempt and its number. */
  readonly onBreak?: (ms: number, failures: number) => void
}

const MAX_ATTEMPTS = 10
const RECONNECT_BASE_MS = 500
const RECONNECT_MAX_MS = 10_000
const MAX_RESTARTS = 5

// Three default heartbeat intervals: a connection that is silent for longer is dead.
const MAX_SILENCE_MS = 45_000

/** Retryable: the gateway is busy or temporarily unavailable. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

/**
 * The frames of an event stream. Reconnects after a lost connection and resumes after the last frame. Ends when the
 * reader leaves the loop or the gateway returns 204. Throws a CommandError when it is refused, or when repeated
 * attempts fail.
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

  /** Drops the cursor and reconnects: the stream starts from the beginning. */
  restart(): void {
    this.#restarts += 1
    if (this.#restarts > MAX_RESTARTS) {
      throw new CommandError('ANSWER_INVALID', `${this.#origin} sent inconsistent data`)
    }
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
        if (error instanceof CommandError) throw error
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
    const cursor = this.#cursor !== undefined && { [HEADERS.lastEventId]: this.#cursor }
    const response = await send(
      { url, headers: { ...headers, accept: 'text/event-stream', ...cursor } },
      signal,
    )
    this.#hasConnected = true
    if (response.status === 204) return true
    if (PASSING.has(response.status)) return false
    if (!response.ok) throw await readRefusal(response)
    const decoder = new SseDecoder()
    for await (const chunk of response.body ?? []) {
      onBytes()
      for (const event of decoder.feed(chunk)) {
        // Only an id, which is stored below.
        if (event.data === '') continue
        this.#cursor = event.id || this.#cursor
        yield event
        if (this.#isRestarting) {
          this.#isRestarting = false
          this.#cursor = undefined
          return false
        }
        this.#failures = 0
      }
      this.#cursor = decoder.lastEventId || this.#cursor
    }
    return false
  }

  #nextDelay(): number {
    this.#failures += 1
    if (this.#failures >= MAX_ATTEMPTS) {
      const message = `lost the connection to ${this.#origin}; ${MAX_ATTEMPTS} attempts to resume failed`
      throw new CommandError('CONNECTION_LOST', message)
    }
    const delay = calculateRetryDelay(this.#failures - 1, RECONNECT_BASE_MS, RECONNECT_MAX_MS)
    // Jitter keeps many readers from reconnecting at the same time.
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
 * The complete outputs of a turn until its end, each with the offset to resume after. Skips outputs that a reconnect
 * repeats, and unknown types.
 */
export async function* turnOutputs(feed: EventFeed) {
  const items = new Map<string, ItemSnapshot>()
  const seen = new Map<string, string>()
  for await (const { event, data, id: offset } of feed) {
    let output: StreamOutput | undefined
    if (event === SSE_EVENTS.append) {
      const append = decodeText(appendSchema, data)
      const item = append.ok ? items.get(append.value.itemId) : undefined
      output = append.ok && item !== undefined ? applyAppend(item, append.value) : undefined
      // An append is missing.
      if (output === undefined) feed.restart()
    } else if (event === '') {
      const decoded = decodeText(streamOutputSchema, data)
      output = decoded.ok ? decoded.value : undefined
    }
    if (output === undefined) continue
    const key = 'itemId' in output ? output.itemId : output.type
    if ('itemId' in output) items.set(key, output)
    const text = JSON.stringify(output)
    if (seen.get(key) === text) continue
    seen.set(key, text)
    yield { output, offset }
    if (outcomeOf(output) !== undefined) return
  }
}

export type TurnOutcome = 'complete' | 'error' | 'aborted'

/** The outcome of the turn, if this output ends it. */
export function outcomeOf(output: StreamOutput): TurnOutcome | undefined {
  if (output.type === 'turn_error') return 'error'
  return output.type === 'turn_complete' ? output.status : undefined
}

/** No server listens there. Not retryable. */
export function unreachable(url: string, cause: unknown): CommandError {
  const port = new URL(url).port || '4010'
  const start = port === '4010' ? 'turnstream serve' : `turnstream serve --port ${port}`
  const message = `no gateway at ${url}: start one with "${start}", or pass --url`
  return new CommandError('GATEWAY_UNREACHABLE', message, { cause })
}

/** The connection broke. Retryable. */
function lost(url: string, cause: unknown): CommandError {
  const message = `lost the connection to ${url}: ${failureReason(cause)}`
  return new CommandError('CONNECTION_LOST', message, { cause })
}

const REFUSED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'])

/** Whether a failed request never reached a server. */
function isRefused(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if ('code' in at && REFUSED.has(String(at.code))) return true
    // Several addresses were tried, such as the two of localhost.
    if (at instanceof AggregateError && at.errors.length > 0) return at.errors.every(isRefused)
  }
  return false
}

/** Advice for errors whose gateway message does not mention the command line. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'KEY_REQUIRED',
    'the gateway needs an API key: set TURNSTREAM_KEY or TURNSTREAM_KEY_FILE; ' +
      'its operator creates keys with "turnstream keys add"',
  ],
  [
    'KEY_INVALID',
    'the gateway rejected TURNSTREAM_KEY: the key is unknown or revoked. Ask its operator for a new one.',
  ],
])

/** The error of a response. A proxy in front of the gateway may use any other format. */
async function readRefusal(response: Response): Promise<CommandError> {
  const { status, url } = response
  const location = response.headers.get('location')
  if (status >= 300 && status < 400 && location !== null) {
    await response.body?.cancel()
    const to = URL.parse(location, url)?.origin ?? location.slice(0, 200)
    const message = `${url} redirects to ${to}, and redirects are not followed. Pass --url ${to} if you trust it.`
    return new CommandError('REDIRECTED', message)
  }
  const body = parseJsonSafe(await readBounded(response.body, MAX_ANSWER_BYTES).catch(() => ''))
  const error = isRecord(body) ? body['error'] : undefined
  if (isRecord(error) && typeof error['code'] === 'string') {
    const { code, message } = error
    const text = typeof message === 'string' ? message : code
    return new CommandError(code, ADVICE.get(code) ?? text)
  }
  return new CommandError(`HTTP_${status}`, `${url} returned status ${status}`)
}
