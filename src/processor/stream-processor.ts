import { BurstClock } from '../async/burst-clock.ts'
import { monotonicNow } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { normalizeEvent } from '../protocol/lenient-event.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { streamEventFault } from '../protocol/stream-event-guard.ts'
import type { BufferInfo } from './content-buffer.ts'
import { EmissionQueue } from './emission-queue.ts'
import { startedType } from './items.ts'
import { type ProcessorOptions, type ResolvedOptions, resolveOptions } from './options.ts'
import { reportOnce } from './report.ts'
import { emissionsOf, type StepInput, step } from './step.ts'
import {
  createTurn,
  type Effect,
  type Emission,
  releaseItems,
  type TurnState,
} from './turn-state.ts'

// A sink this far behind is not slow but stuck, and each waiting snapshot holds the whole text.
const MAX_UNDELIVERED = 1000

const SETTLED: Promise<void> = Promise.resolve()

/**
 * Turns the StreamEvents of one turn into snapshots that a user interface can bind as they are.
 *
 * Events are taken strictly in the order of the calls, awaited or not. A promise that rejects and
 * that nobody looks at does not end the process.
 */
export class StreamProcessor {
  readonly #options: ResolvedOptions
  readonly #turn: TurnState
  readonly #queue: EmissionQueue
  readonly #clock: BurstClock
  #cancelTimer: (() => void) | undefined
  #closed = false
  #destroyed: Promise<void> | undefined

  constructor(options: ProcessorOptions) {
    this.#options = resolveOptions(options)
    this.#turn = createTurn(this.#options)
    this.#queue = new EmissionQueue(this.#turn, this.#options)
    this.#clock = new BurstClock(this.#options.clock)
  }

  /**
   * Decides at once; resolves when the sink accepted what the event caused, so at once if it caused
   * nothing. Rejects with `EVENT_INVALID`, `PROCESSOR_OVERFLOW` or `PROCESSOR_DESTROYED`, and then
   * nothing has changed, or with `RetryExhaustedError`, and then what was given up stays due.
   */
  processEvent(event: StreamEvent): Promise<void> {
    try {
      const normalized = event?.type === 'item_delta' ? event : this.#normalize(event)
      this.#admit(normalized)
      return this.#take(normalized)
    } catch (error) {
      return handled(Promise.reject(error))
    }
  }

  /** Waits for what is under way, then shows all text of items that are not held. */
  flush(): Promise<void> {
    return this.#destroyed ?? handled(this.#flush())
  }

  /**
   * Flushes, then lets go of everything. Rejects when the flush fails; the timer and the buffers are
   * gone in any case. Calling it again gives the same promise.
   */
  destroy(): Promise<void> {
    this.#closed = true
    this.#destroyed ??= handled(this.#destroy())
    return this.#destroyed
  }

  /** What is open, by item id. */
  getBufferState(): Map<string, BufferInfo> {
    return new Map([...this.#turn.items].map(([id, buffer]) => [id, buffer.toBufferInfo()]))
  }

  #normalize(event: StreamEvent): StreamEvent {
    const startedTypeOf = (itemId: string) => startedType(this.#turn, itemId)
    const onUsageDropped = (): void => {
      const detail = `the usage of ${event.type} is malformed and was dropped`
      void this.#perform(reportOnce(this.#turn, 'EVENT_INVALID', 'usage', detail))
    }
    return normalizeEvent(event, { startedType: startedTypeOf, onUsageDropped }) as StreamEvent
  }

  /** Throws, before anything is changed, when the event cannot be taken. */
  #admit(event: StreamEvent): void {
    if (this.#closed) throw new TurnstreamError('PROCESSOR_DESTROYED', 'it takes no more events')
    const fault = streamEventFault(event)
    if (fault !== undefined) throw new TurnstreamError('EVENT_INVALID', fault)
    if (this.#queue.isIdle || !this.#isCrowded()) return
    const waiting = this.#queue.size
    if (waiting + emissionsOf(this.#turn, event) > MAX_UNDELIVERED) {
      throw new TurnstreamError('PROCESSOR_OVERFLOW', `${waiting} wait for the sink`)
    }
  }

  /** Whether showing every item at once could be too much for the queue. */
  #isCrowded(): boolean {
    const { items, unsent } = this.#turn
    return this.#queue.size + items.size + unsent.size + 2 > MAX_UNDELIVERED
  }

  #take(input: StepInput, now: number = this.#clock.now()): Promise<void> {
    const effects = step(this.#turn, input, now)
    return effects.length === 0 ? SETTLED : this.#perform(effects)
  }

  #perform(effects: readonly Effect[]): Promise<void> {
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
          this.#sleep()
          break
        case 'report':
          this.#report(effect.error)
          break
      }
    }
    return emissions.length === 0 ? SETTLED : handled(this.#queue.push(emissions))
  }

  #wakeAt(at: number): void {
    const { clock } = this.#options
    this.#cancelTimer?.()
    this.#cancelTimer = clock.after(Math.max(0, at - monotonicNow(clock)), () => this.#ring())
  }

  #sleep(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #ring(): void {
    this.#cancelTimer = undefined
    const { clock, batchTimeoutMs } = this.#options
    if (this.#isCrowded()) {
      this.#wakeAt(monotonicNow(clock) + batchTimeoutMs)
      return
    }
    this.#takeTimer().catch((error: unknown) => this.#report(error))
  }

  async #takeTimer(): Promise<void> {
    await this.#take({ type: 'timer' }, monotonicNow(this.#options.clock))
  }

  #report(error: unknown): void {
    try {
      this.#options.onError(
        error instanceof TurnstreamError
          ? error
          : new TurnstreamError('OPTION_INVALID', 'a function among the options threw', {
              cause: error,
            }),
      )
    } catch {
      // The one who would be told of this failure is the one who failed.
    }
  }

  async #flush(): Promise<void> {
    if (this.#queue.size > 0) await this.#queue.drained()
    await this.#take({ type: 'flush' })
  }

  async #destroy(): Promise<void> {
    this.#sleep()
    try {
      await this.#flush()
    } finally {
      releaseItems(this.#turn)
    }
  }
}

/** Who awaits the promise sees its rejection; who does not is not taken down by it. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {}) // seen by whoever awaits it, see above
  return promise
}
