import { Fifo } from './fifo.ts'

/** How long work may block the event loop. Leaves room for one more step within 20 ms. */
const SLICE_MS = 10

/** Runs a task in the next iteration of the event loop. */
const soon: (task: () => void) => unknown =
  typeof setImmediate === 'function' ? setImmediate : (task) => setTimeout(task, 0)

/**
 * Shares the event loop between long synchronous work and everything else. All work of a process together gets
 * one slice in each iteration of the loop, so that a thousand readers hold it for no longer than one. Call
 * before each step:
 *
 *     if (isSliceOver()) await nextSlice()
 */
export class TimeSlices {
  readonly #now: () => number
  readonly #soon: (task: () => void) => unknown
  readonly #waiting = new Fifo<() => void>()
  /** End of the current iteration's slice; undefined before its first step. */
  #endsAt: number | undefined

  constructor(now: () => number = () => performance.now(), run = soon) {
    this.#now = now
    this.#soon = run
  }

  readonly isOver = (): boolean => {
    if (this.#endsAt !== undefined) return this.#now() >= this.#endsAt
    this.#endsAt = this.#now() + SLICE_MS
    this.#soon(this.#begin)
    return false
  }

  /** Resolves in a later iteration of the event loop, in call order. */
  readonly next = (): Promise<void> =>
    new Promise((resolve) => {
      this.#waiting.push(resolve)
    })

  readonly #begin = (): void => {
    this.#endsAt = undefined
    if (this.#waiting.size > 0) void this.#serve()
  }

  async #serve(): Promise<void> {
    while (this.#waiting.size > 0 && !this.isOver()) {
      this.#waiting.shift()()
      // Let the caller take a step, which may use up the slice.
      await Promise.resolve()
    }
  }
}

const slices = new TimeSlices()

/** Returns whether long-running work must await `nextSlice()` before its next step. */
export const isSliceOver = slices.isOver
export const nextSlice = slices.next
