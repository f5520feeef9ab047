import { type Clock, monotonicNow, sleep } from '../async/clock.ts'
import { Fifo } from '../async/fifo.ts'
import { calculateRetryDelay, RetryExhaustedError } from '../async/retry.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { normalizeEvent, streamEventFault } from '../protocol/stream-event-guard.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import type { BufferInfo } from './content-buffer.ts'
import { reportOnce, startedOf } from './items.ts'
import { type ProcessorOptions, type ResolvedOptions, report, resolveOptions } from './options.ts'
import { renderEmission } from './outputs.ts'
import {
  createTurnState,
  type Effect,
  type Emission,
  emissionsOf,
  prerequisites,
  releaseItems,
  type StepInput,
  step,
  type TurnState,
} from './step.ts'

// A sink this far behind is stuck, not slow, and each pending snapshot holds the full text.
const MAX_UNDELIVERED = 1000

const SETTLED: Promise<void> = Promise.resolve()

/**
 * Turns the StreamEvents of one turn into snapshots that a user interface can render directly.
 *
 * Processes events strictly in call order, awaited or not. An unobserved rejection does not end the process.
 */
export class StreamProcessor {
  readonly #core: ProcessorCore<Promise<void>>
  readonly #queue: EmissionQueue
  #closed = false
  #destroyed: Promise<void> | undefined

  constructor(options: ProcessorOptions) {
    const resolved = resolveOptions(options)
    const core = new ProcessorCore<Promise<void>>(resolved, {
      emit: (emissions) => handled(this.#queue.push(emissions)),
      isCrowded: () => this.#isCrowded(),
      onTimed: (delivery) => {
        delivery.catch((error: unknown) => core.report(error))
      },
    })
    this.#core = core
    this.#queue = new EmissionQueue(core.turn, resolved)
  }

  /**
   * Processes an event synchronously. Resolves when the sink has accepted the snapshots that the event
   * caused. Rejects with `EVENT_INVALID`, `PROCESSOR_OVERFLOW` or `PROCESSOR_DESTROYED`, and then nothing has
   * changed, or with `RetryExhaustedError`, and then the content stays pending.
   */
  processEvent(event: StreamEvent): Promise<void> {
    try {
      const normalized = event?.type === 'item_delta' ? event : this.#normalize(event)
      this.#admit(normalized)
      return this.#core.apply(normalized) ?? SETTLED
    } catch (error) {
      return handled(Promise.reject(error))
    }
  }

  /** Waits for emissions in flight, then emits all text of items that are not held. */
  flush(): Promise<void> {
    return this.#destroyed ?? handled(this.#flush())
  }

  /** Flushes and releases everything, also if the flush fails: then it rejects. Repeated calls return one promise. */
  destroy(): Promise<void> {
    this.#closed = true
    this.#destroyed ??= handled(this.#destroy())
    return this.#destroyed
  }

  /** Returns the open items by id. */
  getBufferState(): Map<string, BufferInfo> {
    return new Map([...this.#core.turn.items].map(([id, buffer]) => [id, buffer.toBufferInfo()]))
  }

  #normalize(event: StreamEvent): StreamEvent {
    const { turn } = this.#core
    const started = (itemId: string) => startedOf(turn, itemId)
    const onUsageDropped = (): void => {
      const detail = `the usage of ${event.type} is malformed and was dropped`
      void this.#core.perform(reportOnce(turn, 'EVENT_INVALID', 'usage', detail))
    }
    return normalizeEvent(event, { started, onUsageDropped }) as StreamEvent
  }

  /** Throws, before anything changes, when the event cannot be processed. */
  #admit(event: StreamEvent): void {
    if (this.#closed) throw new TurnstreamError('PROCESSOR_DESTROYED', 'it accepts no more events')
    const fault = streamEventFault(event)
    if (fault !== undefined) throw new TurnstreamError('EVENT_INVALID', fault)
    if (this.#queue.isIdle || !this.#isCrowded()) return
    const waiting = this.#queue.size
    if (waiting + emissionsOf(this.#core.turn, event) > MAX_UNDELIVERED) {
      throw new TurnstreamError(
        'PROCESSOR_OVERFLOW',
        `${waiting} snapshots are waiting for the sink`,
      )
    }
  }

  /** Returns whether emitting every item at once could exceed the queue. */
  #isCrowded(): boolean {
    const { items, unsent } = this.#core.turn
    return this.#queue.size + items.size + unsent.size + 2 > MAX_UNDELIVERED
  }

  async #flush(): Promise<void> {
    if (this.#queue.size > 0) await this.#queue.drained()
    await this.#core.apply({ type: 'flush' })
  }

  async #destroy(): Promise<void> {
    this.#core.stopTimer()
    try {
      await this.#flush()
    } finally {
      this.#core.release()
    }
  }
}

/** Marks a promise as handled, so that an unobserved rejection does not end the process. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {}) // callers that await it still see the rejection
  return promise
}

/** The emissions of one call, which settles when all of them were accepted or failed for good. */
interface Batch {
  waiting: number
  error: RetryExhaustedError | undefined
  settle: (error: RetryExhaustedError | undefined) => void
}

interface Entry {
  emission: Emission
  batch: Batch
}

/**
 * Delivers emissions to the sink one at a time, in the order in which they were decided. An emission in
 * backoff holds back all that follow, so a reader never sees a later state first.
 */
export class EmissionQueue {
  readonly #turn: TurnState
  readonly #options: ResolvedOptions
  readonly #entries = new Fifo<Entry>()
  #delivering = false
  #last: Promise<void> = Promise.resolve()

  constructor(turn: TurnState, options: ResolvedOptions) {
    this.#turn = turn
    this.#options = options
  }

  /** The number of emissions that were neither accepted nor abandoned. */
  get size(): number {
    return this.#entries.size + Number(this.#delivering)
  }

  get isIdle(): boolean {
    return !this.#delivering
  }

  /** Resolves when all of these were accepted. Rejects, after all were tried, if one was abandoned. */
  push(emissions: readonly Emission[]): Promise<void> {
    const delivered = new Promise<void>((resolve, reject) => {
      const batch: Batch = {
        waiting: emissions.length,
        error: undefined,
        settle: (error) => (error === undefined ? resolve() : reject(error)),
      }
      for (const emission of emissions) this.#entries.push({ emission, batch })
    })
    this.#last = delivered
    if (!this.#delivering) void this.#deliverAll()
    return delivered
  }

  /** Resolves when everything queued now was accepted or abandoned. Never rejects. */
  async drained(): Promise<void> {
    await Promise.allSettled([this.#last])
  }

  async #deliverAll(): Promise<void> {
    this.#delivering = true
    while (this.#entries.size > 0) {
      const { emission, batch } = this.#entries.shift()
      const error = await this.#deliver(emission)
      batch.error ??= error
      batch.waiting--
      if (batch.waiting === 0) batch.settle(batch.error)
    }
    this.#delivering = false
  }

  async #deliver(emission: Emission): Promise<RetryExhaustedError | undefined> {
    let failure: RetryExhaustedError | undefined
    for (const needed of prerequisites(this.#turn, emission)) {
      failure = (await this.#attempt(needed)) ?? failure
      if (failure !== undefined && needed.kind === 'opening') {
        // Order before progress: nothing of a turn is emitted before its start.
        step(this.#turn, { type: 'emit_failed', emission }, monotonicNow(this.#options.clock))
        return failure
      }
    }
    return (await this.#attempt(emission)) ?? failure
  }

  /** Retries until the sink accepts or the attempts are used up, and reports the result to `step`. */
  async #attempt(emission: Emission): Promise<RetryExhaustedError | undefined> {
    const { retryAttempts, retryBaseMs, retryMaxMs, clock } = this.#options
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#offer(emission)
        break
      } catch (cause) {
        if (attempt >= retryAttempts) {
          step(this.#turn, { type: 'emit_failed', emission }, monotonicNow(clock))
          return new RetryExhaustedError(attempt + 1, cause)
        }
        await sleep(calculateRetryDelay(attempt, retryBaseMs, retryMaxMs), clock)
      }
    }
    step(this.#turn, { type: 'emitted', emission }, monotonicNow(clock))
    return undefined
  }

  #offer(emission: Emission): Promise<void> | void {
    const { turnId, onEmit, clock, generateId } = this.#options
    const output = renderEmission(this.#turn.rules, emission)
    if (output === undefined) return undefined
    emission.message ??= {
      eventId: generateId(),
      timestamp: clock.now(),
      turnId,
      payload: JSON.stringify(output),
    }
    return onEmit(emission.message, output)
  }
}

interface Sink<Delivery> {
  readonly emit: (emissions: readonly Emission[]) => Delivery
  /** Called with the result of `emit` for emissions caused by the timer. */
  readonly onTimed?: (delivery: Delivery) => void
  /** Returns whether timed emissions must wait because the sink is too far behind. */
  readonly isCrowded?: () => boolean
}

/** What all processors share: the state of a turn and its timer, without promises. */
export class ProcessorCore<Delivery = void> {
  readonly turn: TurnState
  readonly #options: ResolvedOptions
  readonly #sink: Sink<Delivery>
  readonly #clock: BurstClock
  #cancelTimer: (() => void) | undefined

  constructor(options: ResolvedOptions, sink: Sink<Delivery>, minGrowth = 0) {
    this.turn = createTurnState(options, minGrowth)
    this.#options = options
    this.#sink = sink
    this.#clock = new BurstClock(options.clock)
  }

  /** Returns the result of `emit`, if anything is emitted. */
  apply(input: StepInput, now: number = this.#clock.now()): Delivery | undefined {
    const effects = step(this.turn, input, now)
    return effects.length === 0 ? undefined : this.perform(effects)
  }

  perform(effects: readonly Effect[]): Delivery | undefined {
    const emissions: Emission[] = []
    for (const effect of effects) {
      switch (effect.do) {
        case 'emit':
          emissions.push(effect.emission)
          break
        case 'wake':
          this.#wakeAt(effect.at)
          break
        case 'sleep':
          this.stopTimer()
          break
        case 'report':
          this.report(effect.error)
          break
      }
    }
    return emissions.length === 0 ? undefined : this.#sink.emit(emissions)
  }

  report(error: unknown): void {
    const known =
      error instanceof TurnstreamError
        ? error
        : new TurnstreamError('OPTION_INVALID', 'a function in the options threw', { cause: error })
    report(this.#options.onError, known)
  }

  stopTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  release(): void {
    this.stopTimer()
    releaseItems(this.turn)
  }

  #wakeAt(at: number): void {
    const { clock } = this.#options
    this.#cancelTimer?.()
    this.#cancelTimer = clock.after(Math.max(0, at - monotonicNow(clock)), () => this.#ring())
  }

  #ring(): void {
    this.#cancelTimer = undefined
    const { clock, batchTimeoutMs } = this.#options
    const now = monotonicNow(clock)
    if (this.#sink.isCrowded?.() === true) return this.#wakeAt(now + batchTimeoutMs)
    try {
      const delivery = this.apply({ type: 'timer' }, now)
      if (delivery !== undefined) this.#sink.onTimed?.(delivery)
    } catch (error) {
      this.report(error)
    }
  }
}

export interface LiveProcessorOptions extends Omit<ProcessorOptions, 'onEmit' | 'generateId'> {
  /** Receives each snapshot in order and accepts it by returning. */
  readonly onShow: (output: StreamOutput) => void
}

/**
 * Each snapshot repeats its text, so with steps of a constant size the work for a text would grow with its square. With
 * the default gradient this applies from 64 KB on. The timer still limits how long text waits.
 */
const MIN_GROWTH = 1 / 8

/** A StreamProcessor without promises, for well-formed events and a synchronous sink. */
export class LiveProcessor {
  readonly #core: ProcessorCore

  constructor({ onShow, ...options }: LiveProcessorOptions) {
    const resolved = resolveOptions({ ...options, onEmit: () => {} })
    const emit = (emissions: readonly Emission[]): void => {
      for (const emission of emissions) {
        const output = renderEmission(core.turn.rules, emission)
        if (output !== undefined) onShow(output)
        core.apply({ type: 'emitted', emission })
      }
    }
    const core = new ProcessorCore(resolved, { emit }, MIN_GROWTH)
    this.#core = core
  }

  apply(event: StreamEvent): void {
    this.#core.apply(event)
  }

  /** Emits all text of items that are not held. */
  flush(): void {
    this.#core.apply({ type: 'flush' })
  }

  release(): void {
    this.#core.release()
  }
}

// Reading the clock costs 50 to 100 ns, as much as the rest of the work for a delta.
const BURST = 64

/**
 * A clock for very frequent reads. After 64 reads within one millisecond it returns the same time until the
 * current macrotask ends; no timer could run before that anyway. Occasional reads get the exact time.
 */
export class BurstClock {
  readonly #clock: Clock
  #time = 0
  #readings = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  now(): number {
    return this.#readings === BURST ? this.#time : this.#read()
  }

  #read(): number {
    const time = monotonicNow(this.#clock)
    this.#readings = time === this.#time ? this.#readings + 1 : 0
    this.#time = time
    if (this.#readings === BURST) {
      setTimeout(() => {
        this.#readings = 0
      }, 0)
    }
    return time
  }
}
