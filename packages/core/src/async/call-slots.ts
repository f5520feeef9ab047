import { onAbort } from './on-abort.ts'

/** Lets at most `max` calls run at a time. Others wait in order, until their signal aborts. */
export class CallSlots {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(max: number) {
    this.#free = max
  }

  async run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await this.#turn(signal)
    try {
      return await task()
    } finally {
      this.#release()
    }
  }

  /** Resolves when another call leaves its slot to this one. */
  #turn(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = (): void => {
        forget()
        resolve()
      }
      const forget = onAbort(signal, () => {
        this.#waiting.delete(enter)
        reject(signal.reason as Error)
      })
      this.#waiting.add(enter)
    })
  }

  #release(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}
