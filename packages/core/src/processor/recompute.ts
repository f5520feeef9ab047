import type { StreamEvent } from '../protocol/stream-event.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import { type ProcessorOptions, resolveOptions } from './options.ts'
import { renderEmission } from './outputs.ts'
import { createTurnState, type Emission, type StepInput, step, type TurnState } from './step.ts'

type Rules = Omit<ProcessorOptions, 'onEmit' | 'clock' | 'generateId'>

/**
 * Computes what a turn emits from its events alone, with no clock: the caller passes when each event arrived. The sink
 * accepts everything at once. Times are in milliseconds and must not decrease.
 */
export class OutputReplay {
  readonly #turn: TurnState
  readonly #onOutput: (output: StreamOutput, at: number) => void
  #wakeAt = Infinity

  constructor(rules: Rules, onOutput: (output: StreamOutput, at: number) => void) {
    this.#turn = createTurnState(resolveOptions({ ...rules, onEmit: () => {} }))
    this.#onOutput = onOutput
  }

  /** Emits what the timer would have emitted by `at`, then what the input causes: `flush` emits everything that is left. */
  apply(input: StreamEvent | { type: 'flush' }, at: number): void {
    while (this.#wakeAt <= at) {
      const due = this.#wakeAt
      this.#wakeAt = Infinity
      this.#step({ type: 'timer' }, due)
    }
    this.#step(input, at)
  }

  #step(input: StepInput, at: number): void {
    const emissions: Emission[] = []
    for (const effect of step(this.#turn, input, at)) {
      if (effect.do === 'wake') this.#wakeAt = effect.at
      else if (effect.do === 'sleep') this.#wakeAt = Infinity
      else if (effect.do === 'emit') emissions.push(effect.emission)
    }
    for (const emission of emissions) {
      const output = renderEmission(this.#turn.rules, emission)
      if (output !== undefined) this.#onOutput(output, at)
      this.#step({ type: 'emitted', emission }, at)
    }
  }
}
