import { TurnstreamError } from '../protocol/errors.ts'

/** Tokens between one snapshot and the next: small steps first, so that a reader sees movement. */
export const DEFAULT_BATCH_GRADIENT: readonly number[] = [
  10, 10, 10, 10, 20, 20, 20, 20, 50, 50, 50, 50, 100, 100, 200, 200, 500, 500, 500, 500, 1000,
  1000, 2000,
]

/** The steps of a gradient as cumulative thresholds; past the end the last step repeats for ever. */
export class BatchGradient {
  readonly #thresholds: readonly number[]
  readonly #lastStep: number

  /** An empty list has no threshold at all: snapshots come by time and by completion only. */
  constructor(steps: readonly number[]) {
    let total = 0
    this.#thresholds = steps.map((step, index) => {
      // Below one token a step could be too small to move the sum, and a loop would never end.
      if (!Number.isFinite(step) || step < 1) {
        throw new TurnstreamError(
          'OPTION_INVALID',
          `batchGradient[${index}] is ${step}, it must be a finite number of at least 1`,
        )
      }
      total += step
      return total
    })
    this.#lastStep = steps.at(-1) ?? Infinity
  }

  /** The number of tokens that must be exceeded at this position of the gradient. */
  threshold(index: number): number {
    const threshold = this.#thresholds[index]
    if (threshold !== undefined) return threshold
    const last = this.#thresholds.length - 1
    return last < 0 ? Infinity : (this.#thresholds[last] ?? 0) + (index - last) * this.#lastStep
  }
}
