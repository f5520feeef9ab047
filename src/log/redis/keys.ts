import { DEFAULT_TENANT } from '../../protocol/tenant.ts'
import { ID_PATTERN } from '../records.ts'
import { RECORDS_OUTLIVE_LOGS } from '../rules.ts'

/*
 * Every key of the store. What one script touches has one hash tag, so that it is in one slot of a
 * Cluster: log A with its run, log B with its turn, a thread with the list of its turns. What stands before
 * the tag says whose key it is and what it holds: `codex:run:`, and of another tenant than `default`
 * `codex:<tenant>:run:`. No name of a tenant has a colon or a brace and no id stands there, so that no id can
 * lead from one tenant to another.
 */

/** Log A of a turn. */
export interface RunKeys {
  /** `<epoch>:<head>`, with a `!` once the log is sealed: what an append has to find. */
  readonly state: string
  /** The records since the last full chunk; once the log is sealed, all of it in chunks. */
  readonly events: string
  /** The full chunks of a log that is open. */
  readonly chunks: string
  /** The Response of the turn, once the log is sealed with one. */
  readonly response: string
  /** Whose run it is, its epochs, a claim that is under way, and how it ended. */
  readonly meta: string
  /** The last epoch of a log that was deleted, for a while: the next one of this run begins beyond it. */
  readonly fence: string
}

/** Log B of a turn, and the turn's record. */
export interface TurnKeys {
  /** As that of log A, with `@` and the creation of the turn behind the head. */
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

/** The keys of a tenant, and those that all tenants share. */
export class RedisKeys {
  readonly tenant: string
  readonly #shared: string
  readonly #prefix: string

  constructor(prefix: string, tenant = DEFAULT_TENANT) {
    this.tenant = tenant
    this.#shared = prefix
    this.#prefix = tenant === DEFAULT_TENANT ? prefix : `${prefix}:${tenant}`
  }

  run(runId: string): RunKeys {
    const base = `${this.#prefix}:run:{${tagOf(runId)}}`
    return {
      state: `${base}:state`,
      events: `${base}:events`,
      chunks: `${base}:chunks`,
      response: `${base}:response`,
      meta: `${base}:meta`,
      fence: `${base}:fence`,
    }
  }

  turn(turnId: string): TurnKeys {
    const base = `${this.#prefix}:turn:{${tagOf(turnId)}}`
    return {
      state: `${base}:state`,
      processed: `${base}:processed`,
      items: `${base}:items`,
      meta: `${base}:meta`,
    }
  }

  thread(threadId: string): ThreadKeys {
    const record = `${this.#prefix}:thread:{${tagOf(threadId)}}`
    return { record, turns: `${record}:turns` }
  }

  /** Threads by the time of their last change. Only an index. */
  get threads(): string {
    return `${this.#prefix}:threads`
  }

  /** Open turns of all tenants by the end of their leases. Only an index. */
  get leases(): string {
    return `${this.#shared}:leases`
  }

  get format(): string {
    return `${this.#shared}:format`
  }
}

/**
 * Whoever asks may name what is no id: it may be empty, begin with a brace or hold half a character, and the
 * client and the server would not agree on the slot. With a space it is the tag of nothing that is stored.
 */
function tagOf(id: string): string {
  return ID_PATTERN.test(id) ? id : ` ${JSON.stringify(id)}`
}

/** The version of this layout. Since 2, turns say of which creation they are. */
export const FORMAT = 2

/** The keys of a thread and of its turns get their times one after the other. */
const THREAD_MARGIN_MS = 60_000

/** How long things are kept. */
export class Retention {
  readonly logMs: number
  readonly recordMs: number
  /** A thread with turns outlives their records; one without goes with `logMs`. */
  readonly threadMs: number
  /** Longer than any thread is there. */
  readonly indexMs: number

  constructor(retentionMs: number) {
    this.logMs = retentionMs
    this.recordMs = retentionMs * RECORDS_OUTLIVE_LOGS
    this.threadMs = this.recordMs + Math.min(retentionMs, THREAD_MARGIN_MS)
    this.indexMs = this.recordMs * 4
  }

  /** An open turn that nobody claims goes when its record would go, had it ended with its lease. */
  openMs(leaseMs: number): number {
    return leaseMs + this.recordMs
  }
}
