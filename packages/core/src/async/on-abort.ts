/** The part of an AbortSignal that readers use. */
export interface StopSignal {
  readonly aborted: boolean
  addEventListener(type: 'abort', task: () => void, options?: { once: true }): void
  removeEventListener(type: 'abort', task: () => void): void
}

const waiting = new WeakMap<StopSignal, AbortTasks>()

/**
 * Runs `task` when `signal` aborts, unless the returned function is called first. All tasks of an AbortSignal
 * share one listener: adding and removing one costs more than the rest of a reader's work for a record, and
 * Node warns about more than ten. A signal without tasks has no listener.
 */
export function onAbort(signal: StopSignal, task: () => void): () => void {
  if (signal instanceof Stop) {
    signal.addEventListener('abort', task)
    return () => signal.removeEventListener('abort', task)
  }
  let tasks = waiting.get(signal)
  if (tasks === undefined) {
    tasks = new AbortTasks(signal)
    waiting.set(signal, tasks)
  }
  return tasks.add(task)
}

/** Settles as `promise` does, or rejects with the reason of `signal` when it aborts first. */
export function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) reject(signal.reason as Error)
    const forget = onAbort(signal, () => reject(signal.reason as Error))
    promise.then(resolve, reject).finally(forget)
  })
}

class AbortTasks {
  readonly #signal: StopSignal
  readonly #tasks = new Set<() => void>()

  constructor(signal: StopSignal) {
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

  readonly #run = (): void => runAll(this.#tasks)
}

/** A task may remove itself or others. Removed tasks do not run, and no task runs twice. */
function runAll(tasks: Set<() => void>): void {
  for (const task of tasks) {
    tasks.delete(task)
    task()
  }
}

/**
 * A signal that aborts with the first of several, until it is released. `AbortSignal.any` of Node 20 leaves an entry in
 * each of them, which leaks if one lives as long as the process.
 */
export function anyOf(signals: readonly StopSignal[]): { signal: StopSignal; release: () => void } {
  const stop = new Stop()
  if (signals.some(({ aborted }) => aborted)) stop.abort()
  const releases = signals.map((signal) => onAbort(signal, () => stop.abort()))
  const release = () => {
    for (const each of releases) each()
  }
  return { signal: stop, release }
}

/** An AbortController and its signal, for thousands of open streams: a pair of Node takes 1 KB. */
export class Stop implements StopSignal {
  #isAborted = false
  readonly #tasks = new Set<() => void>()

  get aborted(): boolean {
    return this.#isAborted
  }

  abort(): void {
    this.#isAborted = true
    runAll(this.#tasks)
  }

  addEventListener(_type: 'abort', task: () => void): void {
    this.#tasks.add(task)
  }

  removeEventListener(_type: 'abort', task: () => void): void {
    this.#tasks.delete(task)
  }
}
