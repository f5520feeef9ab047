const waiting = new WeakMap<AbortSignal, AbortTasks>()

/**
 * Runs `task` when `signal` aborts, unless the returned function was called before. However many wait for
 * a signal, it has one listener, because adding and removing one costs more than all else that a reader
 * does for a record, and because Node takes more than ten for a leak. When nobody waits, it has none.
 */
export function onAbort(signal: AbortSignal, task: () => void): () => void {
  let tasks = waiting.get(signal)
  if (tasks === undefined) {
    tasks = new AbortTasks(signal)
    waiting.set(signal, tasks)
  }
  return tasks.add(task)
}

class AbortTasks {
  readonly #signal: AbortSignal
  readonly #tasks = new Set<() => void>()

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  add(task: () => void): () => void {
    if (this.#tasks.size === 0) this.#signal.addEventListener('abort', this.#run, { once: true })
    this.#tasks.add(task)
    return () => {
      if (this.#tasks.delete(task) && this.#tasks.size === 0) {
        this.#signal.removeEventListener('abort', this.#run)
      }
    }
  }

  readonly #run = (): void => {
    // A task may take itself or others out of the set: those are not run any more, and none is run twice.
    for (const task of this.#tasks) {
      this.#tasks.delete(task)
      task()
    }
  }
}
