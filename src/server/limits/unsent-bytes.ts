import { onAbort } from '../../async/on-abort.ts'

/** Bytes that the clients of a key have not taken yet. May exceed the bound by one response or frame of any size. */
export class UnsentBytes {
  readonly #max: number
  #bytes = 0
  readonly #waiting = new Set<() => void>()

  constructor(max: number) {
    this.#max = max
  }

  get size(): number {
    return this.#bytes
  }

  get isFull(): boolean {
    return this.#bytes >= this.#max
  }

  fits(bytes: number): boolean {
    return this.#bytes === 0 || this.#bytes + bytes <= this.#max
  }

  /** Counts bytes until the returned function is called, for the first time. */
  hold(bytes: number): () => void {
    let held = bytes
    this.#bytes += held
    return () => {
      this.#bytes -= held
      held = 0
      if (!this.isFull) for (const wake of this.#waiting) wake()
    }
  }

  /** Resolves when there may be room, or when `signal` aborts. Another may take the room first. */
  room(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        stopListening()
        this.#waiting.delete(wake)
        resolve()
      }
      const stopListening = onAbort(signal, wake)
      this.#waiting.add(wake)
    })
  }
}
