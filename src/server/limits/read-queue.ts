import { Fifo } from '../../async/fifo.ts'

/** How many reads of a key run at a time. Others wait: one key needs no more to be served at full speed. */
const PARALLEL_READS = 4

/** The reads of a key: a few run, others wait in the order in which they came. */
export class ReadQueue {
  readonly #waiting = new Fifo<() => void>()
  #running = 0

  /** How many run or wait. */
  get size(): number {
    return this.#running + this.#waiting.size
  }

  async run<T>(read: () => Promise<T>): Promise<T> {
    if (this.#running < PARALLEL_READS) {
      this.#running += 1
    } else {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
    }
    try {
      return await read()
    } finally {
      // The next one takes the place.
      if (this.#waiting.size > 0) this.#waiting.shift()()
      else this.#running -= 1
    }
  }
}
