import { onAbort } from './on-abort.ts'

/** Those who wait for something to change. Each is woken once and asks again itself. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `wake`, or when `signal` aborts. */
  wait(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => {
        this.#waiting.delete(go)
        stopListening()
        resolve()
      }
      const stopListening = onAbort(signal, go)
      this.#waiting.add(go)
    })
  }

  /** Costs as much as there are who wait: what they do then, they do later. */
  wake(): void {
    if (this.#waiting.size === 0) return
    for (const go of this.#waiting) go()
  }

  get size(): number {
    return this.#waiting.size
  }
}
