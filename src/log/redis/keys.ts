/*
 * Every key of the store. What one script touches has one hash tag, so that it is in one slot of a
 * Cluster: log A with its run, log B with its turn, a thread with the list of its turns.
 */

/** Log A of a turn. */
export interface RunKeys {
  /** `<epoch>:<head>`, with a `!` once the log is sealed: what an append has to find. */
  readonly state: string
  /** The records since the last full chunk; once the log is sealed, all of it in chunks. */
  readonly events: string
  /** The full chunks of a log that is open. */
  readonly chunks: string
  /** Whose run it is, its epochs, a claim that is under way, and how it ended. */
  readonly meta: string
}

/** Log B of a turn, and the turn's record. */
export interface TurnKeys {
  readonly state: string
  readonly processed: string
  /** For each key the `seq` with which it first appeared, and its entry if the payload does not say the key. */
  readonly items: string
  readonly meta: string
}

export interface ThreadKeys {
  readonly record: string
  /** The turns of the thread by their ordinals. */
  readonly turns: string
}

export class RedisKeys {
  readonly #prefix: string

  constructor(prefix: string) {
    this.#prefix = prefix
  }

  run(runId: string): RunKeys {
    const base = `${this.#prefix}:run:{${runId}}`
    return {
      state: `${base}:state`,
      events: `${base}:events`,
      chunks: `${base}:chunks`,
      meta: `${base}:meta`,
    }
  }

  turn(turnId: string): TurnKeys {
    const base = `${this.#prefix}:turn:{${turnId}}`
    return {
      state: `${base}:state`,
      processed: `${base}:processed`,
      items: `${base}:items`,
      meta: `${base}:meta`,
    }
  }

  thread(threadId: string): ThreadKeys {
    const record = `${this.#prefix}:thread:{${threadId}}`
    return { record, turns: `${record}:turns` }
  }

  /** Threads by the time of their last change. Only an index. */
  get threads(): string {
    return `${this.#prefix}:threads`
  }

  /** Open turns by the end of their leases. Only an index. */
  get leases(): string {
    return `${this.#prefix}:leases`
  }

  get format(): string {
    return `${this.#prefix}:format`
  }
}
