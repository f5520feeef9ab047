import { type Clock, pause, systemClock } from '../async/clock.ts'
import { IdleTimer } from '../async/idle-timer.ts'
import { calculateRetryDelay } from '../async/retry.ts'
import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../protocol/json.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import { type Provider, type ProviderRequest, ProviderStream, type RunContext } from './provider.ts'
import { type ModelClient, toModelClient } from './response-events.ts'
import type { Translation, TranslationContext } from './translation.ts'
import { concealing } from './vendor-errors.ts'
import { VendorReader } from './vendor-input.ts'
import { checkBaseUrl, type VendorRequest } from './vendor-request.ts'

/** Provider timeouts in milliseconds. `Infinity` disables a limit. Connecting is up to `fetch`. */
export interface TimeLimits {
  /** Silence before the first event: for headers, and then for bytes. 120 s by default. */
  firstEventMs: number
  /** Silence after the first event. 300 s by default. */
  betweenEventsMs: number
  /** How long keep-alives, unknown and empty events may extend those limits in total. 600 s by default. */
  stallMs: number
}

/** Options of every HTTP provider. */
export interface HttpProviderOptions {
  /** Provider id of its responses. */
  id?: string
  baseUrl?: string
  apiKey?: string
  headers?: Record<string, string>
  timeLimits?: Partial<TimeLimits>
  /** Maximum bytes without an event. 64 MiB by default. */
  maxStalledBytes?: number
  /** Retries before the first event. 2 by default. */
  maxRetries?: number
  /** Whether to retry after a timeout, although the first call may be billed. False by default. */
  retryTimeouts?: boolean
  fetch?: typeof globalThis.fetch
  clock?: Clock
  /** Retry jitter, from 0 to 1. */
  random?: () => number
  onUnknown?: (type: string) => void
  /** Maximum characters of one tool call's arguments. 1,000,000 by default. */
  maxArgumentChars?: number
  /** Called for each attempt of each call. Returns what observes its response, if anything. Must not throw. */
  observeCall?: (call: ObservedCall) => CallObserver | undefined
}

/** An attempt to call a vendor, as it is sent. The headers contain the key. */
export interface ObservedCall
  extends Pick<RunContext, 'runId' | 'turnId' | 'threadId' | 'tenant' | 'round'> {
  /** From 1; retries count. */
  readonly attempt: number
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** Receives the response of a call as it arrives. Must not throw. */
export interface CallObserver {
  response(status: number, headers: Readonly<Record<string, string>>): void
  chunk(bytes: Uint8Array): void
  /** Called once, last. */
  end(reason: 'complete' | 'aborted' | 'failed'): void
}

const DEFAULT_LIMITS: TimeLimits = {
  firstEventMs: 120_000,
  betweenEventsMs: 300_000,
  stallMs: 600_000,
}

// More than the largest accepted event, 16 Mi characters.
const MAX_STALLED_BYTES = 64 * 1024 * 1024

// Parsed at a time: 2 ms of the smallest events.
const PART_BYTES = 16 * 1024

/**
 * A provider called over HTTP that responds with a stream. Its URL depends only on its options; OPTION_INVALID if it is
 * not valid.
 */
export function httpProvider<Options extends HttpProviderOptions>(
  vendorId: string,
  buildRequest: (request: ProviderRequest, options: Options) => VendorRequest,
  createTranslation: (context: TranslationContext) => Translation,
  options: Options,
): ModelClient {
  checkBaseUrl(options.baseUrl)
  const { id = vendorId, clock = systemClock, maxArgumentChars } = options
  const conceal = concealing(options)
  const resolved = {
    limits: { ...DEFAULT_LIMITS, ...options.timeLimits },
    maxStalledBytes: options.maxStalledBytes ?? MAX_STALLED_BYTES,
    maxRetries: options.maxRetries ?? 2,
    retryTimeouts: options.retryTimeouts ?? false,
    fetch: options.fetch ?? globalThis.fetch,
    clock,
    random: options.random ?? Math.random,
  }
  const provider: Provider = {
    id,
    stream(request, { onRetry, onUnknown = options.onUnknown, ...run }, signal) {
      const stream = new ProviderStream(signal, clock)
      const context = { ...run, providerId: id, modelId: request.model, now: () => clock.now() }
      const translation = createTranslation({ ...context, onUnknown, maxArgumentChars, conceal })
      const reader = new VendorReader(translation, 'sse')
      const attempt: Attempt = {
        ...resolved,
        signal: stream.signal,
        buildRequest: () => buildRequest(request, options),
        observe: (call) => options.observeCall?.({ ...run, ...call }),
        onRetry,
      }
      void pump(attempt, reader, stream)
      return stream
    },
  }
  return toModelClient(provider, clock)
}

/** Moves the response into the stream at the reader's pace. Never rejects. */
async function pump(attempt: Attempt, reader: VendorReader, stream: ProviderStream): Promise<void> {
  const onChunk = (chunk: Uint8Array) => pumpChunk(chunk, reader, stream)
  const fault = await openVendorStream(attempt, onChunk).catch(unreachable)
  if (attempt.signal.aborted) return
  try {
    await stream.addUntilEnd(reader.end(fault))
  } catch {
    // The reader has left.
  }
  stream.complete()
}

/** Yields to the event loop between slices. */
async function pumpChunk(
  chunk: Uint8Array,
  reader: VendorReader,
  stream: ProviderStream,
): Promise<Progress> {
  let arrived = 0
  for (let at = 0; at < chunk.length; at += PART_BYTES) {
    if (isSliceOver()) await nextSlice()
    const payloads = reader.feed(chunk.subarray(at, at + PART_BYTES))
    arrived += payloads.length
    // Not every vendor closes the connection after its response.
    const hasEnded = await stream.addUntilEnd(payloads)
    if (hasEnded || reader.fault !== undefined) return { arrived, isOver: true }
  }
  return { arrived, isOver: false }
}

type CallOption = 'maxStalledBytes' | 'maxRetries' | 'retryTimeouts' | 'fetch' | 'clock' | 'random'

/** One call to a vendor, including retries. */
interface Attempt extends Required<Pick<HttpProviderOptions, CallOption>> {
  limits: TimeLimits
  signal: AbortSignal
  buildRequest: () => VendorRequest
  observe: (call: Omit<ObservedCall, keyof RunContext>) => CallObserver | undefined
  onRetry?: (() => void) | undefined
}

/** What a chunk contained. */
interface Progress {
  arrived: number
  /** Ignore the rest. */
  isOver: boolean
}

type OnChunk = (chunk: Uint8Array) => Promise<Progress>

/** A failed call. `retryAfterMs` is set if the vendor named a delay. */
interface CallFault extends ErrorObject {
  isRetryable: boolean
  retryAfterMs?: number | undefined
}

const RETRYABLE_STATUSES = new Set([408, 409, 425, 429, 500, 502, 503, 529])
/** A gateway timeout: the model may have received the request. */
const GATEWAY_TIMEOUT = 504
/** Timeouts of Node's `fetch`: 300 s for headers, and between two chunks. */
const FETCH_TIMEOUTS = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const RETRY_BASE_MS = 500
const RETRY_MAX_MS = 8000
// A vendor that asks for a longer delay has, in effect, refused.
const MAX_RETRY_AFTER_MS = 60_000
const MAX_ERROR_BODY_CHARS = 64 * 1024
// Plain-text errors are short; longer texts are pages or stack traces.
const MAX_PLAIN_CHARS = 300

/**
 * Calls the vendor and passes on its response chunk by chunk. A failed call is retried only before the first event.
 * Returns the failure, if any.
 */
async function openVendorStream(
  attempt: Attempt,
  onChunk: OnChunk,
): Promise<ErrorObject | undefined> {
  const { maxRetries, clock, random } = attempt
  for (let tries = 0; ; tries++) {
    const call = new Call(attempt, tries + 1, onChunk)
    const fault = await call.run()
    if (fault === undefined) return undefined
    if (attempt.signal.aborted || call.hasArrived || !fault.isRetryable || tries >= maxRetries) {
      const { code, message, retryAfterMs } = fault
      return { code, message, ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }) }
    }
    const backoff = calculateRetryDelay(tries, RETRY_BASE_MS, RETRY_MAX_MS) * (0.5 + random() / 2)
    await pause(fault.retryAfterMs ?? backoff, clock, attempt.signal)
    if (!attempt.signal.aborted) attempt.onRetry?.()
  }
}

/** One attempt. Every wait has a limit, and aborting ends it immediately. */
class Call {
  readonly #attempt: Attempt
  readonly #number: number
  readonly #onChunk: OnChunk
  readonly #controller = new AbortController()
  #interrupt: (reason: unknown) => void = () => {}
  #observer: CallObserver | undefined
  hasArrived = false

  constructor(attempt: Attempt, number: number, onChunk: OnChunk) {
    this.#attempt = attempt
    this.#number = number
    this.#onChunk = onChunk
  }

  async run(): Promise<CallFault | undefined> {
    const { signal } = this.#attempt
    const abort = (): void => {
      this.#controller.abort()
      this.#interrupt(ABORTED)
    }
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    try {
      const fault = await this.#talk()
      this.#observer?.end('complete')
      return fault
    } catch (error) {
      this.#observer?.end(signal.aborted ? 'aborted' : 'failed')
      return this.#faultOf(error)
    } finally {
      signal.removeEventListener('abort', abort)
      abort()
    }
  }

  async #talk(): Promise<CallFault | undefined> {
    const { fetch, limits } = this.#attempt
    const request = this.#attempt.buildRequest()
    const { url } = request
    const method = 'POST'
    const accept = 'text/event-stream'
    const headers = { 'content-type': 'application/json', accept, ...request.headers }
    const body = JSON.stringify(request.body)
    this.#observer = this.#attempt.observe({ attempt: this.#number, method, url, headers, body })
    const response = await this.#within(
      limits.firstEventMs,
      'headers',
      fetch(url, {
        method,
        headers,
        body,
        // A redirect would forward the key to its target.
        redirect: 'manual',
        signal: this.#controller.signal,
      }),
    )
    this.#observer?.response(response.status, Object.fromEntries(response.headers))
    if (isRedirect(response)) return redirectFault(response)
    if (!response.ok || response.body === null) {
      const text = await this.#within(limits.firstEventMs, 'the error', readStart(response))
      this.#observer?.chunk(new TextEncoder().encode(text))
      return this.#httpFault(response, text)
    }
    return this.#read(response.body.getReader())
  }

  async #read(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<CallFault | undefined> {
    const { limits, maxStalledBytes } = this.#attempt
    const stall = new Stall(this.#attempt, (error) => this.#interrupt(error))
    let silence = this.#silence(limits.firstEventMs)
    try {
      for (;;) {
        stall.watch()
        silence.startWait()
        const { done, value } = await this.#unlessInterrupted(reader.read())
        silence.endWait()
        if (done) return this.hasArrived ? undefined : EMPTY_ANSWER
        this.#observer?.chunk(value)
        const { arrived, isOver } = await this.#onChunk(value)
        if (isOver) return undefined
        if (arrived === 0) stall.add(value.length)
        else stall.end()
        if (stall.bytes > maxStalledBytes) return junkFault(maxStalledBytes)
        if (arrived === 0 || this.hasArrived) continue
        this.hasArrived = true
        silence.stop()
        silence = this.#silence(limits.betweenEventsMs)
      }
    } finally {
      silence.stop()
      stall.stop()
    }
  }

  /** Interrupts a wait for bytes that takes too long. One timer for all reads, because there is one read per token. */
  #silence(ms: number): IdleTimer {
    return new IdleTimer(ms, this.#attempt.clock, () =>
      this.#interrupt(timeoutError('an event', ms)),
    )
  }

  /** Throws on timeout or abort; a later result is ignored. */
  async #within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
    const { clock } = this.#attempt
    const timeOut = (): void => this.#interrupt(timeoutError(what, ms))
    const cancel = ms === Infinity ? () => {} : clock.after(ms, timeOut)
    try {
      return await this.#unlessInterrupted(promise)
    } finally {
      cancel()
    }
  }

  /** Does not wait for `fetch` to handle an abort: in Node 20 a read overtaken by the end of the body never settles. */
  #unlessInterrupted<T>(promise: Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#interrupt = reject
      if (this.#controller.signal.aborted) reject(ABORTED)
      promise.then(resolve, reject)
    })
  }

  #faultOf(error: unknown): CallFault {
    const { retryTimeouts } = this.#attempt
    if (error instanceof TimeoutError) {
      return { code: 'UPSTREAM_TIMEOUT', message: error.message, isRetryable: retryTimeouts }
    }
    if (error instanceof TurnstreamError) {
      // The request could not be created: a retry would fail, too.
      return { code: error.code, message: error.message, isRetryable: false }
    }
    const fault = unreachable(error)
    return { ...fault, isRetryable: fault.code !== 'UPSTREAM_TIMEOUT' || retryTimeouts }
  }

  #httpFault(response: Response, body: string): CallFault {
    const { status } = response
    const retryAfterMs = retryAfter(response.headers.get('retry-after'))
    const isPatient = retryAfterMs === undefined || retryAfterMs <= MAX_RETRY_AFTER_MS
    const { retryTimeouts } = this.#attempt
    const canRetry = status === GATEWAY_TIMEOUT ? retryTimeouts : RETRYABLE_STATUSES.has(status)
    return {
      code: `HTTP_${status}`,
      message: vendorMessage(body) || response.statusText || 'no message',
      isRetryable: canRetry && isPatient,
      retryAfterMs,
    }
  }
}

const ABORTED = new DOMException('The call was aborted', 'AbortError')

/** The vendor sent nothing useful for too long. The call may be billed. */
class TimeoutError extends Error {}

function timeoutError(what: string, ms: number): TimeoutError {
  return new TimeoutError(`The provider did not send ${what} within ${ms} ms`)
}

/**
 * Limits how long bytes may arrive without an event: keep-alives while a model thinks, unknown or empty events. A
 * timer, because the system time can change.
 */
class Stall {
  readonly #timer: IdleTimer
  #isWatched = false
  #error: TimeoutError | undefined
  bytes = 0

  constructor({ clock, limits }: Attempt, onTimeout: (error: TimeoutError) => void) {
    this.#timer = new IdleTimer(limits.stallMs, clock, () => {
      const message = `The provider sent no event within ${limits.stallMs} ms, only keep-alives`
      this.#error = new TimeoutError(message)
      onTimeout(this.#error)
    })
  }

  watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    this.#timer.startWait()
  }

  add(bytes: number): void {
    this.bytes += bytes
    if (this.#error !== undefined) throw this.#error
  }

  end(): void {
    this.#timer.endWait()
    this.#isWatched = false
    this.#error = undefined
    this.bytes = 0
  }

  stop(): void {
    this.#timer.stop()
  }
}

function junkFault(bytes: number): CallFault {
  const message = `The provider sent more than ${bytes} bytes without an event`
  return { code: 'UPSTREAM_MALFORMED', message, isRetryable: false }
}

const EMPTY_ANSWER: CallFault = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider returned an empty stream',
  isRetryable: true,
}

/**
 * Converts a failure before or during the response. Network errors name hosts and ports, and those of `fetch` quote
 * headers: only the error code is public.
 */
export function unreachable(error: unknown): ErrorObject {
  // `fetch` puts the network error into `cause`.
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const word = /^[A-Z][A-Z0-9_]{2,60}$/.test(code) ? ` (${code})` : ''
  if (FETCH_TIMEOUTS.has(code)) {
    return { code: 'UPSTREAM_TIMEOUT', message: `The provider was silent for too long${word}` }
  }
  return { code: 'UPSTREAM_UNREACHABLE', message: `The call to the provider failed${word}` }
}

/** Where `fetch` hides a redirect it has no status. */
function isRedirect({ status, type }: Response): boolean {
  return type === 'opaqueredirect' || (status >= 300 && status < 400)
}

function redirectFault({ status }: Response): CallFault {
  const code = `HTTP_${status === 0 ? 302 : status}`
  const message = 'The provider returned a redirect, which is not followed'
  return { code, message, isRetryable: false }
}

/** Seconds or a date; other values are ignored. */
function retryAfter(header: string | null): number | undefined {
  if (header === null || header.trim() === '') return undefined
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** The message in a known vendor error format, or the body if it is a sentence. */
export function vendorMessage(body: string): string {
  const json = parseJsonSafe(body)
  const outer = Array.isArray(json) ? (json[0] as unknown) : json
  const inner = isRecord(outer) ? (outer['error'] ?? outer) : undefined
  const message = isRecord(inner) ? inner['message'] : inner
  return typeof message === 'string' ? message.trim() : sentenceOf(body)
}

/** Pages, stack traces and other JSON may contain anything. */
function sentenceOf(body: string): string {
  const text = body.trim()
  return text.length <= MAX_PLAIN_CHARS && /^[^\n<>{}]*$/.test(text) ? text : ''
}

async function readStart(response: Response): Promise<string> {
  if (response.body === null) return ''
  const decoder = new TextDecoder()
  const reader = response.body.getReader()
  let text = ''
  while (text.length < MAX_ERROR_BODY_CHARS) {
    const { done, value } = await reader.read()
    if (done) break
    text += decoder.decode(value, { stream: true })
  }
  return text
}
