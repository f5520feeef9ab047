import { TurnstreamError } from '../protocol/errors.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { normalizeEvent, streamEventFault } from '../protocol/stream-event-guard.ts'
import type { BufferInfo } from './content-buffer.ts'
import { EmissionQueue } from './emission-queue.ts'
import { startedType } from './items.ts'
import { type ProcessorOptions, resolveOptions } from './options.ts'
import { ProcessorCore } from './processor-core.ts'
import { reportOnce } from './report.ts'
import { emissionsOf } from './step.ts'

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
   * Decides at once; resolves when the sink accepted what the event caused, so at once if it caused
   * nothing. Rejects with `EVENT_INVALID`, `PROCESSOR_OVERFLOW` or `PROCESSOR_DESTROYED`, and then
   * nothing has changed, or with `RetryExhaustedError`, and then what was given up stays due.
   */
  processEvent(event: StreamEvent): Promise<void> {
    try {
      const normalized = event?.type === 'item_delta' ? event : this.#normalize(event)
      this.#admit(normalized)
      return this.#core.take(normalized) ?? SETTLED
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
    return new Map([...this.#core.turn.items].map(([id, buffer]) => [id, buffer.toBufferInfo()]))
  }

  #normalize(event: StreamEvent): StreamEvent {
    const { turn } = this.#core
    const startedTypeOf = (itemId: string) => startedType(turn, itemId)
    const onUsageDropped = (): void => {
      const detail = `the usage of ${event.type} is malformed and was dropped`
      void this.#core.perform(reportOnce(turn, 'EVENT_INVALID', 'usage', detail))
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
    if (waiting + emissionsOf(this.#core.turn, event) > MAX_UNDELIVERED) {
      throw new TurnstreamError('PROCESSOR_OVERFLOW', `${waiting} wait for the sink`)
    }
  }

  /** Whether showing every item at once could be too much for the queue. */
  #isCrowded(): boolean {
    const { items, unsent } = this.#core.turn
    return this.#queue.size + items.size + unsent.size + 2 > MAX_UNDELIVERED
  }

  async #flush(): Promise<void> {
    if (this.#queue.size > 0) await this.#queue.drained()
    await this.#core.take({ type: 'flush' })
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

/** Who awaits the promise sees its rejection; who does not is not taken down by it. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {}) // seen by whoever awaits it, see above
  return promise
}
