/** Runs the tasks of one name one after the other, in the order in which they came. Those of others do not wait. */
export class OneAtATime {
  readonly #last = new Map<string, Promise<unknown>>()

  /** How many names have a task that runs or waits. */
  get size(): number {
    return this.#last.size
  }

  async run<T>(name: string, task: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name)
    // Whether the one before has failed is for whoever waits for that one.
    const done = before === undefined ? task() : before.then(task, task)
    this.#last.set(name, done)
    try {
      return await done
    } finally {
      if (this.#last.get(name) === done) this.#last.delete(name)
    }
  }
}
