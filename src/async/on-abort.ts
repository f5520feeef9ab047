const waiting = new WeakMap<AbortSignal, AbortTasks>()

/**
 * Runs `task` when `signal` aborts, unless the returned function is called first. All tasks of a signal share
 * one listener: adding and removing one costs more than the rest of a reader's work for a record, and Node
 * warns about more than ten. A signal without tasks has no listener.
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
    // A task may remove itself or others. Removed tasks do not run, and no task runs twice.
    for (const task of this.#tasks) {
      this.#tasks.delete(task)
      task()
    }
  }
}
