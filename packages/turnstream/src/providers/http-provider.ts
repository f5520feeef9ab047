import { type Clock, pause, systemClock } from '@turnstream/core/internal/async/clock'
import { IdleTimer } from '@turnstream/core/internal/async/idle-timer'
import { calculateRetryDelay } from '@turnstream/core/internal/async/retry'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import {
  type CallFault,
  EMPTY_ANSWER,
  isOutOfQuota,
  isRedirect,
  junkFault,
  readStart,
  redirectFault,
  retryAfter,
  unreachable,
  vendorCode,
  vendorMessage,
} from '@turnstream/core/internal/formats/call-faults'
import { ModelTable } from '@turnstream/core/internal/formats/model-traits'
import type { RunContext } from '@turnstream/core/internal/formats/provider-request'
import { fitSettings } from '@turnstream/core/internal/formats/settings'
import { VendorReader } from '@turnstream/core/internal/formats/vendor-input'
import type { Vendor, VendorOptions } from '@turnstream/core/internal/formats/vendor-request'
import { checkBaseUrl, responseIdsIn } from '@turnstream/core/internal/formats/vendor-request'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type {
  ErrorObject,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'
import { readBody } from './body.ts'
import { CallRequest } from './call-request.ts'
import { type Provider, ProviderStream } from './provider.ts'
import { RefusedData } from './refused-data.ts'
import { type ModelClient, toModelClient } from './response-events.ts'
import { Stall, TimeoutError, timeoutError } from './stall.ts'
import { concealing } from './vendor-errors.ts'

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
export interface HttpProviderOptions extends VendorOptions {
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

/** A provider whose URL depends only on its options; OPTION_INVALID if it is not valid. */
export function httpProvider<Options extends VendorOptions>(
  vendor: Vendor<Options>,
  options: Options & HttpProviderOptions,
): ModelClient {
  checkBaseUrl(options.baseUrl)
  const { id = vendor.id, clock = systemClock, random = Math.random } = options
  const { maxRetries = 2, retryTimeouts = false, maxStalledBytes = MAX_STALLED_BYTES } = options
  const { fetch = globalThis.fetch } = options
  const conceal = concealing(options)
  const models = new ModelTable(vendor.models ?? [], options.modelTraits)
  const settings = vendor.settings?.(options, models)
  const refused = new RefusedData()
  const limits = { ...DEFAULT_LIMITS, ...options.timeLimits }
  const resolved = { limits, maxStalledBytes, maxRetries, retryTimeouts, fetch, clock, random }
  const provider: Provider = {
    id,
    ...(options.maxArgumentChars !== undefined && { maxArgumentChars: options.maxArgumentChars }),
    ...(settings && { fit: (request) => fitSettings(settings, request) }),
    stream(request, { onRetry, onUnknown = options.onUnknown, ...given }, signal) {
      const { maxArgumentChars = options.maxArgumentChars, ...run } = given
      const stream = new ProviderStream(signal, clock)
      const ids = { ...run, providerId: id, modelId: request.model, now: () => clock.now() }
      const ownership = vendor.ownership?.(id)
      const responseIds = ownership && responseIdsIn(request.input, ownership)
      const context = { ...ids, onUnknown, maxArgumentChars, conceal, responseIds }
      const attempt: Attempt = {
        ...resolved,
        stream,
        signal: stream.signal,
        request: new CallRequest(vendor, request, { ...options, id, models }, refused),
        createReader: () => new VendorReader(vendor.createTranslation(context), 'sse'),
        observe: (call) => options.observeCall?.({ ...run, ...call }),
        onRetry,
      }
      void new Pump(attempt).run()
      return stream
    },
  }
  return toModelClient(provider, clock)
}

/** Moves the response into the stream at the reader's pace. */
class Pump {
  readonly #attempt: Attempt
  #reader: VendorReader
  #hasStarted = false
  #hasOutput = false

  constructor(attempt: Attempt) {
    this.#attempt = attempt
    this.#reader = attempt.createReader()
  }

  /** Never rejects. */
  async run(): Promise<void> {
    const { stream, signal } = this.#attempt
    const fault = await openVendorStream(this.#attempt, this.#takeChunk).catch(unreachable)
    if (signal.aborted) return
    try {
      await this.#add(this.#reader.end(fault))
    } catch {
      // The reader has left.
    }
    stream.complete()
  }

  /** Yields to the event loop between slices. Waits only for that, or for a slow reader. */
  readonly #takeChunk = (chunk: Uint8Array): Progress | Promise<Progress> =>
    chunk.length > PART_BYTES || isSliceOver() ? this.#takeParts(chunk) : this.#takePart(chunk)

  async #takeParts(chunk: Uint8Array): Promise<Progress> {
    let arrived = 0
    for (let at = 0; at < chunk.length; at += PART_BYTES) {
      if (isSliceOver()) await nextSlice()
      const progress = await this.#takePart(chunk.subarray(at, at + PART_BYTES))
      arrived += progress.arrived
      if (progress.isOver) return { ...progress, arrived }
    }
    return { arrived, isOver: false }
  }

  #takePart(part: Uint8Array): Progress | Promise<Progress> {
    const payloads = this.#reader.feed(part)
    const arrived = payloads.length
    const refusal = this.#hasOutput ? undefined : this.#refusalIn(payloads)
    if (refusal !== undefined) return { arrived, isOver: true, refusal }
    // Not every vendor closes the connection after its response.
    const added = this.#add(payloads)
    const toProgress = (hasEnded: boolean): Progress => {
      return { arrived, isOver: hasEnded || this.#reader.fault !== undefined }
    }
    return typeof added === 'boolean' ? toProgress(added) : added.then(toProgress)
  }

  /** Some servers refuse vendor data in the stream. Before any output the call can be repeated. */
  #refusalIn(payloads: readonly StreamEventPayload[]): ErrorObject | undefined {
    const first = payloads.find(({ type }) => type !== 'response_start')
    if (first === undefined) return undefined
    this.#hasOutput = first.type !== 'usage_update' && first.type !== 'response_error'
    const failure = payloads.find((payload) => payload.type === 'response_error')
    if (this.#hasOutput || failure === undefined) return undefined
    const { error } = failure
    if (!this.#attempt.request.rebuildAfter(`${error.code} ${error.message}`)) return undefined
    this.#reader = this.#attempt.createReader()
    return error
  }

  /** A response that was begun again has started before. */
  #add(payloads: readonly StreamEventPayload[]): boolean | Promise<boolean> {
    const { stream, request } = this.#attempt
    if (payloads.every(({ type }) => type === 'item_delta')) return stream.addUntilEnd(payloads)
    const news = payloads.filter(({ type }) => type !== 'response_start' || !this.#hasStarted)
    this.#hasStarted ||= news.length > 0
    return stream.addUntilEnd(news.map((payload) => request.restore(payload)))
  }
}

type CallOption = 'maxStalledBytes' | 'maxRetries' | 'retryTimeouts' | 'fetch' | 'clock' | 'random'

/** One call to a vendor, including retries. */
interface Attempt extends Required<Pick<HttpProviderOptions, CallOption>> {
  limits: TimeLimits
  stream: ProviderStream
  signal: AbortSignal
  request: Pick<CallRequest<never>, 'build' | 'rebuildAfter' | 'restore'>
  createReader: () => VendorReader
  observe: (call: Omit<ObservedCall, keyof RunContext>) => CallObserver | undefined
  onRetry?: (() => void) | undefined
}

interface Progress {
  arrived: number
  /** Ignore the rest. */
  isOver: boolean
  /** Why the call is repeated. */
  refusal?: ErrorObject
}

type OnChunk = (chunk: Uint8Array) => Progress | Promise<Progress>

const RETRYABLE_STATUSES = new Set([408, 409, 425, 429, 500, 502, 503, 529])
const REFUSING_STATUSES = new Set([400, 422])
/** A gateway timeout: the model may have received the request. */
const GATEWAY_TIMEOUT = 504
const RETRY_BASE_MS = 500
const RETRY_MAX_MS = 8000
// A longer delay is in effect a refusal.
const MAX_RETRY_AFTER_MS = 60_000
/** Calls the vendor and passes its response on. Retries only before the first event. Returns the failure, if any. */
async function openVendorStream(
  attempt: Attempt,
  onChunk: OnChunk,
): Promise<ErrorObject | undefined> {
  const { maxRetries, clock, random } = attempt
  let tries = 0
  for (let number = 1; ; number++) {
    const call = new ProviderCall(attempt, number, onChunk)
    const fault = await call.run()
    if (fault === undefined) return undefined
    if (fault.isRefusal && !attempt.signal.aborted) {
      attempt.onRetry?.()
      continue
    }
    if (attempt.signal.aborted || call.hasArrived || !fault.isRetryable || tries >= maxRetries) {
      const { code, message, retryAfterMs } = fault
      return { code, message, ...(retryAfterMs !== undefined && { retry_after_ms: retryAfterMs }) }
    }
    const backoff = calculateRetryDelay(tries++, RETRY_BASE_MS, RETRY_MAX_MS) * (0.5 + random() / 2)
    await pause(fault.retryAfterMs ?? backoff, clock, attempt.signal)
    if (!attempt.signal.aborted) attempt.onRetry?.()
  }
}

/** One attempt. Every wait has a limit, and aborting ends it immediately. */
class ProviderCall {
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
      if (fault !== undefined) abort()
      return fault
    } catch (error) {
      this.#observer?.end(signal.aborted ? 'aborted' : 'failed')
      abort()
      return this.#faultOf(error)
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  async #talk(): Promise<CallFault | undefined> {
    const { fetch, limits } = this.#attempt
    if (isSliceOver()) await nextSlice()
    const request = this.#attempt.request.build()
    const { url } = request
    const method = 'POST'
    const accept = 'text/event-stream'
    const headers = { 'content-type': 'application/json', accept, ...request.headers }
    if (isSliceOver()) await nextSlice()
    const body = JSON.stringify(request.body)
    if (isSliceOver()) await nextSlice()
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
    return this.#read(response)
  }

  async #read(response: Response): Promise<CallFault | undefined> {
    const { limits, maxStalledBytes, clock } = this.#attempt
    /** Not while a slow reader takes a chunk. */
    let isWaiting = false
    const stall = new Stall(limits.stallMs, clock, (error) => {
      if (isWaiting) this.#interrupt(error)
    })
    let silence = this.#silence(limits.firstEventMs)
    /** Set when the rest is ignored. */
    let end: { fault?: CallFault } | undefined
    const startWait = (): void => {
      isWaiting = true
      stall.watch()
      silence.startWait()
    }
    const goesOn = ({ arrived, isOver, refusal }: Progress, bytes: number): boolean => {
      if (refusal !== undefined)
        end = { fault: { ...refusal, isRetryable: false, isRefusal: true } }
      else if (isOver) end = {}
      else if (arrived === 0) stall.add(bytes)
      else stall.end()
      if (stall.bytes > maxStalledBytes) end = { fault: junkFault(maxStalledBytes) }
      if (end !== undefined) return false
      if (arrived > 0 && !this.hasArrived) {
        this.hasArrived = true
        silence.stop()
        silence = this.#silence(limits.betweenEventsMs)
      }
      startWait()
      return true
    }
    startWait()
    try {
      const reading = readBody(response, (chunk) => {
        if (end !== undefined) return false
        isWaiting = false
        silence.endWait()
        this.#observer?.chunk(chunk)
        const progress = this.#onChunk(chunk)
        if (!(progress instanceof Promise)) return goesOn(progress, chunk.length)
        return progress.then((waited) => goesOn(waited, chunk.length))
      })
      await this.#unlessInterrupted(reading)
      if (end !== undefined) return end.fault
      return this.hasArrived ? undefined : EMPTY_ANSWER
    } finally {
      // After a timeout, a chunk may still arrive.
      end ??= {}
      silence.stop()
      stall.stop()
    }
  }

  /** One timer for all reads, because there is one read per token. */
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
      // The request could not be created: a retry would also fail.
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
    const code = vendorCode(status, body)
    return {
      code,
      message: vendorMessage(body) || response.statusText || 'no message',
      isRetryable: canRetry && isPatient && !isOutOfQuota(code),
      isRefusal: REFUSING_STATUSES.has(status) && this.#attempt.request.rebuildAfter(body),
      retryAfterMs,
    }
  }
}

const ABORTED = new DOMException('The call was aborted', 'AbortError')
