import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { ID_PATTERN } from '../records.ts'
import { RECORDS_OUTLIVE_LOGS } from '../rules.ts'

/*
 * All keys of the store. Keys of one script share a hash tag, so that they are in one Cluster slot: log A with its
 * run, log B with its turn, a thread with its list of turns, the values of a key with the calls that change them. The
 * text before the tag names tenant and content: `codex:run:`, or `codex:<tenant>:run:` for tenants other than
 * `default`. Tenant names contain no colon or brace, and ids occur only inside the tag, so no id can address another
 * tenant.
 */

export interface RunKeys {
  /** `<epoch>:<head>`, with `!` once sealed: the state that an append expects. */
  readonly state: string
  /** Records since the last full chunk; once the log is sealed, all of it in chunks. */
  readonly events: string
  /** Full chunks of an open log. */
  readonly chunks: string
  /** The Response of the turn, once the log is sealed with one. */
  readonly response: string
  /** Owner of the run, epochs, a claim in progress, and the outcome. */
  readonly meta: string
  /** The last epoch of a deleted log, for a while: the next log of this run starts beyond it. */
  readonly fence: string
}

/** Log B of a turn, and the turn's record. */
export interface TurnKeys {
  /** Like the state of log A, with `@` and the creation of the turn after the head. */
  readonly state: string
  readonly processed: string
  /** First `seq` of each key, and its entry if the payload does not contain the key. */
  readonly items: string
  readonly meta: string
  readonly values: string
}

export interface ThreadKeys {
  readonly record: string
  /** Turns of the thread by ordinal. */
  readonly turns: string
  /** Replaced turns, and the turn that took the place of each. */
  readonly replaced: string
}

export interface KeyedRecordKeys {
  /** `<expiry>:<value>` of each value, newest last. */
  readonly values: string
  /** The result of one call, while it may be retried. */
  readonly call: string
}

/** Keys of a tenant, and keys shared by all tenants. */
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
      values: `${base}:approvals`,
    }
  }

  thread(threadId: string): ThreadKeys {
    const record = `${this.#prefix}:thread:{${tagOf(threadId)}}`
    return { record, turns: `${record}:turns`, replaced: `${record}:replaced` }
  }

  /** `callId` identifies one call with its retries. */
  keyedRecord(key: string, callId: string): KeyedRecordKeys {
    const values = `${this.#prefix}:note:{${tagOf(key)}}`
    return { values, call: `${values}:call:${callId}` }
  }

  keyedRecordOfTurn(turnId: string, callId: string): KeyedRecordKeys & Pick<TurnKeys, 'meta'> {
    const { meta, values } = this.turn(turnId)
    return { meta, values, call: `${values}:call:${callId}` }
  }

  /** Threads by last change. Only an index. */
  get threads(): string {
    return `${this.#prefix}:threads`
  }

  /** Open turns of all tenants by lease expiry. Only an index. */
  get leases(): string {
    return `${this.#shared}:leases`
  }

  get format(): string {
    return `${this.#shared}:format`
  }
}

/**
 * A requested id may be invalid: empty, starting with a brace, or with a lone surrogate. Client and server would then
 * disagree on the slot. A space makes it a tag under which nothing is stored.
 */
function tagOf(id: string): string {
  return ID_PATTERN.test(id) ? id : ` ${JSON.stringify(id)}`
}

/** Version of this layout. Since 2, turns store their creation. */
export const FORMAT = 2

/** Margin: the keys of a thread and its turns get their expiry one after another. */
const THREAD_MARGIN_MS = 60_000

export class Retention {
  readonly logMs: number
  readonly recordMs: number
  /** A thread outlives the records of its turns; one without turns expires after `logMs`. */
  readonly threadMs: number
  /** Longer than any thread exists. */
  readonly indexMs: number

  constructor(retentionMs: number) {
    this.logMs = retentionMs
    this.recordMs = retentionMs * RECORDS_OUTLIVE_LOGS
    this.threadMs = this.recordMs + Math.min(retentionMs, THREAD_MARGIN_MS)
    this.indexMs = this.recordMs * 4
  }

  /** How long the content of a turn with this `contentMs` is stored after its end. */
  contentMs(contentMs: number | string = Infinity): number {
    return Math.min(Number(contentMs), this.logMs)
  }

  /** An unclaimed open turn expires as if it had ended with its lease. */
  openMs(leaseMs: number): number {
    return leaseMs + this.recordMs
  }
}
