import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { ResponseEvent } from '../protocol/response.ts'
import { type Clock, systemClock } from './clock.ts'
import { Fifo } from './fifo.ts'
import { IdleTimer } from './idle-timer.ts'

/**
 *     open ──complete()──▶ completed ──╮
 *      ├─────error()─────▶ failed ─────┤ abort(), unless the buffer is drained
 *      ╰─────abort()─────▶ aborted ◀───╯
 */
type State = { phase: 'open' } | Ended | Aborted
type Ended = { phase: 'completed' } | { phase: 'failed'; error: ResponseStreamError }
type Aborted = { phase: 'aborted'; error: ResponseStreamError; wasCompleted: boolean }

const OPEN: State = { phase: 'open' }

/** A pending `next()`: the buffer was empty. */
interface Waiter<T> {
  resolve(result: IteratorResult<T, undefined>): void
  reject(error: ResponseStreamError): void
}

/** A pending `send()`: the buffer was full. */
interface Sender<T> {
  event: T
  resolve(): void
  reject(error: ResponseStreamError): void
}

interface Consumer<T> {
  take(event: T): Promise<void> | false | void
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
  isBusy: boolean
}

/** One iteration. Only one at a time holds the stream, from its first `next()` to its end. */
interface Reader {
  finished: boolean
}

const SENT = Promise.resolve()

/**
 * A bounded channel with one consumer at a time. Delivers each event once and in order.
 *
 * Invariants: a consumer waits only while the stream is open and the buffer is empty. A sender waits only
 * while the buffer is full, so an empty buffer means that nothing is left to deliver.
 */
export class ResponseStream<T = ResponseEvent> implements AsyncIterable<T> {
  readonly #capacity: number
  readonly #timer: IdleTimer
  readonly #senders = new Fifo<Sender<T>>()
  readonly #waiters = new Fifo<Waiter<T>>()
  #buffer = new Fifo<T>()
  #state: State = OPEN
  #reader: Reader | undefined
  #consumer: Consumer<T> | undefined
  #removeAbortListener: (() => void) | undefined

  constructor(abortSignal?: AbortSignal, config: Partial<ResponseStreamConfig> = {}) {
    const { maxBufferSize, eventTimeout, enableBackpressure, clock } = resolveConfig(config)
    this.#capacity = enableBackpressure ? maxBufferSize : Infinity
    this.#timer = new IdleTimer(eventTimeout, clock, () => {
      const message = `Event timeout after ${eventTimeout}ms`
      this.#finishReading(new ResponseStreamError(message, 'TIMEOUT'))
    })
    if (abortSignal) this.#follow(abortSignal)
  }

  /** Creates a completed stream of any number of events. */
  static fromEvents<T = ResponseEvent>(events: readonly T[]): ResponseStream<T> {
    const stream = new ResponseStream<T>(undefined, { maxBufferSize: Infinity })
    stream.addEvents(events)
    stream.complete()
    return stream
  }

  /** Creates a stream that fails immediately. */
  static fromError<T = ResponseEvent>(cause: unknown): ResponseStream<T> {
    const stream = new ResponseStream<T>()
    stream.error(cause)
    return stream
  }

  /** Adds an event. Throws BACKPRESSURE when the buffer is full: the producer may wait, drop or abort. */
  addEvent(event: T): void {
    this.#assertRoomFor(1)
    this.#deliver(event)
  }

  /** Adds all events, or none if it throws. */
  addEvents(events: readonly T[]): void {
    if (events.length > 0) this.#assertRoomFor(events.length)
    for (const event of events) this.#deliver(event)
  }

  /** Adds an event, waiting for room where `addEvent` throws. Waiting senders are served in order. */
  send(event: T): Promise<void> {
    if (this.#state !== OPEN) return Promise.reject(this.#refusal())
    if (this.#buffer.size < this.#capacity) {
      this.#deliver(event)
      return SENT
    }
    return new Promise((resolve, reject) => {
      this.#senders.push({ event, resolve, reject })
    })
  }

  /** Ends the stream. Buffered events and pending `send` calls are still delivered. */
  complete(): void {
    this.#end({ phase: 'completed' })
  }

  /** Like `complete()`, but iteration throws STREAM_ERROR after the last event. */
  error(cause: unknown): void {
    const error = new ResponseStreamError(explain('Stream error', cause), 'STREAM_ERROR', cause)
    this.#end({ phase: 'failed', error })
  }

  /** Discards undelivered events. The consumer and every waiting sender get ABORTED. */
  abort(): void {
    this.#abort(undefined)
  }

  getBufferSize(): number {
    return this.#buffer.size
  }

  /** Returns whether `complete()` or `error()` was called. Events may still be buffered. */
  isStreamCompleted(): boolean {
    const state = this.#state
    return state.phase === 'aborted' ? state.wasCompleted : state.phase !== 'open'
  }

  isAborted(): boolean {
    return this.#state.phase === 'aborted'
  }

  /** Starts an iteration, which continues the one before. Two at the same time throw ITERATION_ERROR. */
  [Symbol.asyncIterator](): AsyncIterableIterator<T, undefined> {
    const reader: Reader = { finished: false }
    return {
      next: () => this.#next(reader),
      return: () => {
        reader.finished = true
        if (this.#reader === reader) this.#finishReading()
        return Promise.resolve(done())
      },
      [Symbol.asyncIterator]() {
        return this
      },
    }
  }

  /**
   * Passes every event to `take` as soon as it is added, without a promise per event. While a promise that
   * `take` returned is pending, the stream buffers. Resolves at the end or when `take` returns `false`.
   * Rejects as an iteration would, or with the error that `take` throws. ITERATION_ERROR during an iteration.
   */
  consume(take: (event: T) => Promise<void> | false | void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#reader) return reject(iterationError())
      this.#reader = { finished: false }
      this.#consumer = { take, resolve, reject, isBusy: false }
      this.#drain()
    })
  }

  /** Collects every event up to the end in memory. */
  async toArray(): Promise<T[]> {
    const events: T[] = []
    try {
      for await (const event of this) events.push(event)
    } catch (cause) {
      const message = explain('Could not collect the stream', cause)
      throw new ResponseStreamError(message, 'COLLECTION_ERROR', cause)
    }
    return events
  }

  /** Reads at most `count` events and leaves the rest for the next iteration. */
  async *take(count: number): AsyncGenerator<T, void> {
    let left = wholeNumber('count', count, 0)
    if (left === 0) return
    for await (const event of this) {
      yield event
      left -= 1
      if (left === 0) return
    }
  }

  filter<S extends T>(predicate: (event: T) => event is S): AsyncGenerator<S, void>
  filter(predicate: (event: T) => boolean): AsyncGenerator<T, void>
  async *filter(predicate: (event: T) => boolean): AsyncGenerator<T, void> {
    for await (const event of this) if (predicate(event)) yield event
  }

  async *map<U>(mapper: (event: T) => U): AsyncGenerator<U, void> {
    for await (const event of this) yield mapper(event)
  }

  #next(reader: Reader): Promise<IteratorResult<T, undefined>> {
    if (this.#reader !== reader) {
      if (reader.finished) return Promise.resolve(done())
      if (this.#reader) {
        reader.finished = true
        return Promise.reject(iterationError())
      }
      this.#reader = reader
    }
    if (this.#buffer.size > 0) return Promise.resolve({ done: false, value: this.#shift() })
    const state = this.#state
    if (state.phase === 'open') return this.#wait()
    this.#finishReading()
    return state.phase === 'completed' ? Promise.resolve(done()) : Promise.reject(state.error)
  }

  #shift(): T {
    const event = this.#buffer.shift()
    if (this.#senders.size > 0) {
      const sender = this.#senders.shift()
      this.#buffer.push(sender.event)
      sender.resolve()
    } else if (this.#state !== OPEN) this.#releaseIfDrained()
    return event
  }

  #wait(): Promise<IteratorResult<T, undefined>> {
    if (this.#waiters.size === 0) this.#timer.startWait()
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject })
    })
  }

  /** Delivers buffered events, then waits or ends. */
  #drain(): void {
    const consumer = this.#consumer
    if (consumer === undefined) return
    while (!consumer.isBusy && this.#buffer.size > 0) {
      this.#handOver(consumer, this.#shift())
      if (this.#consumer !== consumer) return
    }
    if (consumer.isBusy) return
    const state = this.#state
    if (state.phase === 'open') this.#timer.startWait()
    else this.#finishReading(state.phase === 'completed' ? undefined : state.error)
  }

  #handOver(consumer: Consumer<T>, event: T): void {
    try {
      const answer = consumer.take(event)
      if (answer === undefined) return
      if (answer === false) return this.#finishReading()
      consumer.isBusy = true
      this.#timer.endWait()
      answer.then(
        () => {
          consumer.isBusy = false
          if (this.#consumer === consumer) this.#drain()
        },
        (error: unknown) => this.#fail(consumer, error),
      )
    } catch (error) {
      this.#fail(consumer, error)
    }
  }

  #fail(consumer: Consumer<T>, error: unknown): void {
    if (this.#consumer === consumer) this.#consumer = undefined
    consumer.reject(error)
    this.#finishReading()
  }

  #deliver(event: T): void {
    const consumer = this.#consumer
    if (consumer !== undefined && !consumer.isBusy && this.#buffer.size === 0) {
      this.#handOver(consumer, event)
      if (this.#consumer === consumer && !consumer.isBusy) this.#timer.startWait()
      return
    }
    if (this.#waiters.size === 0) {
      this.#buffer.push(event)
      return
    }
    this.#waiters.shift().resolve({ done: false, value: event })
    if (this.#waiters.size > 0) this.#timer.startWait()
    else this.#timer.endWait()
  }

  /** Releases the stream. Like a generator, an iteration throws once and is then done. */
  #finishReading(error?: ResponseStreamError): void {
    this.#timer.stop()
    if (this.#reader) this.#reader.finished = true
    this.#reader = undefined
    const consumer = this.#consumer
    this.#consumer = undefined
    if (error) consumer?.reject(error)
    else consumer?.resolve()
    if (error && this.#waiters.size > 0) this.#waiters.shift().reject(error)
    while (this.#waiters.size > 0) this.#waiters.shift().resolve(done())
  }

  #assertRoomFor(count: number): void {
    if (this.#state !== OPEN) throw this.#refusal()
    const { size } = this.#buffer
    if (size + count - this.#waiters.size > this.#capacity) {
      throw new ResponseStreamError(`Backpressure: ${size} events waiting`, 'BACKPRESSURE')
    }
  }

  #refusal(): ResponseStreamError {
    const state = this.#state
    const cause = 'error' in state ? state.error.cause : undefined
    return state.phase === 'aborted'
      ? new ResponseStreamError('Stream aborted', 'ABORTED', cause)
      : new ResponseStreamError('Event added after the stream ended', 'STREAM_ERROR', cause)
  }

  #end(state: Ended): void {
    if (this.#state !== OPEN) return
    this.#state = state
    this.#timer.stop()
    const error = state.phase === 'failed' ? state.error : undefined
    const isConsumed = this.#consumer?.isBusy === false
    if (this.#waiters.size > 0 || isConsumed) this.#finishReading(error)
    this.#releaseIfDrained()
  }

  #abort(reason: unknown): void {
    const wasCompleted = this.#state !== OPEN
    if (wasCompleted && this.#buffer.size === 0) return
    const error = new ResponseStreamError('Stream aborted', 'ABORTED', reason)
    this.#state = { phase: 'aborted', error, wasCompleted }
    this.#buffer = new Fifo()
    this.#timer.stop()
    while (this.#senders.size > 0) this.#senders.shift().reject(error)
    if (this.#waiters.size > 0 || this.#consumer !== undefined) this.#finishReading(error)
    this.#releaseIfDrained()
  }

  #follow(signal: AbortSignal): void {
    if (signal.aborted) {
      this.#abort(signal.reason)
      return
    }
    const abort = () => this.#abort(signal.reason)
    signal.addEventListener('abort', abort)
    this.#removeAbortListener = () => signal.removeEventListener('abort', abort)
  }

  /** A signal may outlive thousands of streams, so it must not retain a stream that can no longer be aborted. */
  #releaseIfDrained(): void {
    if (this.#buffer.size > 0) return
    this.#removeAbortListener?.()
    this.#removeAbortListener = undefined
  }
}

function iterationError(): ResponseStreamError {
  return new ResponseStreamError('The stream is already being iterated', 'ITERATION_ERROR')
}

function done(): IteratorReturnResult<undefined> {
  return { done: true, value: undefined }
}

function explain(what: string, cause: unknown): string {
  return cause instanceof Error ? `${what}: ${cause.message}` : what
}

export interface ResponseStreamConfig {
  /** Maximum number of buffered events; `Infinity` for no bound. Default 1000. */
  maxBufferSize: number
  /** How long the consumer waits for an event, in ms; 0 or `Infinity` disables the timeout. Default 30000. */
  eventTimeout: number
  /** If `false`, a full buffer grows instead of rejecting events. Default `true`. */
  enableBackpressure: boolean
  /** Clock for the timeout. Default `systemClock`. */
  clock: Clock
}

function resolveConfig({
  maxBufferSize = 1000,
  eventTimeout = 30_000,
  enableBackpressure = true,
  clock = systemClock,
}: Partial<ResponseStreamConfig>): ResponseStreamConfig {
  if (!(eventTimeout >= 0)) {
    const detail = `eventTimeout must be 0 or more, not ${eventTimeout}`
    throw new TurnstreamError('OPTION_INVALID', detail)
  }
  return {
    maxBufferSize: wholeNumber('maxBufferSize', maxBufferSize, 1),
    eventTimeout: eventTimeout === 0 ? Infinity : eventTimeout,
    enableBackpressure,
    clock,
  }
}

function wholeNumber(name: string, value: number, min: number): number {
  if (value >= min && (Number.isInteger(value) || value === Infinity)) return value
  const detail = `${name} must be an integer of at least ${min} or Infinity, not ${value}`
  throw new TurnstreamError('OPTION_INVALID', detail)
}

/** An error of a ResponseStream. `code` may be any string, so producers can use their own codes. */
export class ResponseStreamError extends TurnstreamError {
  override readonly name = 'ResponseStreamError'
  // The base class restricts `code` to our codes, and a subclass cannot widen the type.
  override readonly code: ErrorCode

  constructor(message: string, code: string = 'STREAM_ERROR', cause?: unknown) {
    super('STREAM_ERROR', message, cause === undefined ? undefined : { cause })
    this.code = code as ErrorCode
    this.message = message
  }
}
