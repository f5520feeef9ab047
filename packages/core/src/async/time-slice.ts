import { Fifo } from './fifo.ts'

/** How long work may block the event loop. Leaves room for one more step within 20 ms. */
const SLICE_MS = 10

/** The same while connections wait to be accepted. */
const SHORT_SLICE_MS = 1

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
  #isShort = false

  constructor(now: () => number = () => performance.now(), run = soon) {
    this.#now = now
    this.#soon = run
  }

  readonly isOver = (): boolean => {
    if (this.#endsAt !== undefined) return this.#now() >= this.#endsAt
    this.#endsAt = this.#now() + (this.#isShort ? SHORT_SLICE_MS : SLICE_MS)
    this.#isShort = false
    this.#soon(this.#begin)
    return false
  }

  /**
   * Ends the current slice and shortens the next one. Call for each new connection: Node accepts one in each iteration of
   * the event loop, so that the last of a hundred waits for a hundred slices.
   */
  readonly shorten = (): void => {
    this.#isShort = true
    if (this.#endsAt !== undefined) this.#endsAt = -Infinity
  }

  /** Resolves in a later iteration of the event loop, in call order. */
  readonly next = (): Promise<void> =>
    new Promise((resolve) => {
      this.#waiting.push(resolve)
      // Without a slice in progress, nothing would wake it.
      this.isOver()
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

export const shortenSlices = slices.shorten
