import { BurstClock } from '../async/burst-clock.ts'
import { monotonicNow } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import { type ProcessorOptions, type ResolvedOptions, resolveOptions } from './options.ts'
import { renderEmission } from './outputs.ts'
import { type StepInput, step } from './step.ts'
import {
  createTurn,
  type Effect,
  type Emission,
  releaseItems,
  type TurnState,
} from './turn-state.ts'

interface Sink<Delivery> {
  /** Takes what is to be shown, in order. */
  readonly emit: (emissions: readonly Emission[]) => Delivery
  /** Given what `emit` answered to what was due by time. */
  readonly onTimed?: (delivery: Delivery) => void
  /** Whether what is due by time should wait, because too much waits for the sink already. */
  readonly isCrowded?: () => boolean
}

/** What all processors share: the state of a turn, its timer, and no promise. */
export class ProcessorCore<Delivery = void> {
  readonly turn: TurnState
  readonly #options: ResolvedOptions
  readonly #sink: Sink<Delivery>
  readonly #clock: BurstClock
  #cancelTimer: (() => void) | undefined

  constructor(options: ResolvedOptions, sink: Sink<Delivery>) {
    this.turn = createTurn(options)
    this.#options = options
    this.#sink = sink
    this.#clock = new BurstClock(options.clock)
  }

  /** What the sink answered, if anything is shown. */
  take(input: StepInput, now: number = this.#clock.now()): Delivery | undefined {
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

  stopTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  /** Lets go of everything. */
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
      const delivery = this.take({ type: 'timer' }, now)
      if (delivery !== undefined) this.#sink.onTimed?.(delivery)
    } catch (error) {
      this.report(error)
    }
  }
}

export interface LiveProcessorOptions
  extends Pick<ProcessorOptions, 'turnId' | 'threadId' | 'clock' | 'onError' | 'batchGradient'> {
  /** Takes each snapshot, in order, and accepts it by returning. */
  readonly onShow: (output: StreamOutput) => void
}

/** A StreamProcessor without promises, for well-formed events and a sink that takes everything at once. */
export class LiveProcessor {
  readonly #core: ProcessorCore

  constructor({ onShow, ...options }: LiveProcessorOptions) {
    const core = new ProcessorCore(resolveOptions({ ...options, onEmit: () => {} }), {
      emit: (emissions) => {
        for (const emission of emissions) {
          const output = renderEmission(core.turn.rules, emission)
          if (output !== undefined) onShow(output)
          core.take({ type: 'emitted', emission })
        }
      },
    })
    this.#core = core
  }

  take(event: StreamEvent): void {
    this.#core.take(event)
  }

  /** Shows all text of items that are not held. */
  flush(): void {
    this.#core.take({ type: 'flush' })
  }

  /** Shows nothing more. */
  release(): void {
    this.#core.release()
  }
}
