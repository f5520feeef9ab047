import { DEFAULT_TENANT } from '@turnstream/core/internal/protocol/names'
import { ID_PATTERN } from '../records.ts'
import { RECORDS_OUTLIVE_LOGS } from '../rules.ts'

/*
 * All keys of the store. Keys of one script share a hash tag, so that they are in one Cluster slot. The text before the
 * tag names tenant and content: `codex:run:`, or `codex:<tenant>:run:` for tenants other than `default`. Ids occur only
 * inside the tag, so none can address another tenant.
 */

export type RunKeys = ReturnType<RedisKeys['run']>
export type TurnKeys = ReturnType<RedisKeys['turn']>

/** The keys of log B as most scripts take them. */
export function turnKeys({ meta, state, processed, items, values }: TurnKeys) {
  return [meta, state, processed, items, values] as const
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

  /** Log A of a turn. */
  run(runId: string) {
    const base = `${this.#prefix}:run:{${tagOf(runId)}}`
    return {
      /** `<epoch>:<head>`, with `!` once sealed: the state that an append expects. */
      state: `${base}:state`,
      /** Records since the last full chunk; once the log is sealed, all of it in chunks. */
      events: `${base}:events`,
      /** Full chunks of an open log. */
      chunks: `${base}:chunks`,
      /** The Response of the turn, once the log is sealed with one. */
      response: `${base}:response`,
      /** Owner of the run, epochs, a claim in progress, and the outcome. */
      meta: `${base}:meta`,
      /** The last epoch of a deleted log, for a while: the next log of this run starts beyond it. */
      fence: `${base}:fence`,
    } as const
  }

  /** Log B of a turn, and the turn's record. */
  turn(turnId: string) {
    const base = `${this.#prefix}:turn:{${tagOf(turnId)}}`
    return {
      /** Like the state of log A, with `@` and the creation of the turn after the head. */
      state: `${base}:state`,
      processed: `${base}:processed`,
      /** First `seq` of each key, and its entry if the payload does not contain the key. */
      items: `${base}:items`,
      meta: `${base}:meta`,
      /** The keyed records of the turn. */
      values: `${base}:approvals`,
    } as const
  }

  thread(threadId: string) {
    const record = `${this.#prefix}:thread:{${tagOf(threadId)}}`
    // Turns of the thread by ordinal; replaced turns, and the turn that took the place of each.
    return { record, turns: `${record}:turns`, replaced: `${record}:replaced` } as const
  }

  /** `<expiry>:<value>` of each value, newest last, and the result of one call, while it may be retried. */
  keyedRecord(key: string, callId: string) {
    const values = `${this.#prefix}:note:{${tagOf(key)}}`
    return { values, call: `${values}:call:${callId}` } as const
  }

  keyedRecordOfTurn(turnId: string, callId: string) {
    const { meta, values } = this.turn(turnId)
    return { meta, values, call: `${values}:call:${callId}` } as const
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

/** Client and server could disagree on the slot of an invalid id. A space makes it a tag that stores nothing. */
function tagOf(id: string): string {
  return ID_PATTERN.test(id) ? id : ` ${JSON.stringify(id)}`
}

/** Version of this layout. Since 2, turns store their creation. */
export const FORMAT = 2

/** Margin: the keys of a thread and its turns get their expiry one after another. */
const THREAD_MARGIN_MS = 60_000

export type Retention = ReturnType<typeof createRetention>

export function createRetention(logMs: number) {
  const recordMs = logMs * RECORDS_OUTLIVE_LOGS
  return {
    logMs,
    recordMs,
    /** A thread outlives the records of its turns; one without turns expires after `logMs`. */
    threadMs: recordMs + Math.min(logMs, THREAD_MARGIN_MS),
    /** Longer than any thread exists. */
    indexMs: recordMs * 4,
    /** How long the content of a turn with this `contentMs` is stored after its end. */
    contentMs: (contentMs: number | string = Infinity) => Math.min(Number(contentMs), logMs),
    /** An unclaimed open turn expires as if it had ended with its lease. */
    openMs: (leaseMs: number) => leaseMs + recordMs,
  } as const
}
