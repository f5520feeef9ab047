import { TurnstreamError } from '../../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { formatThreadPlace, pageLimit, pageOf, parseThreadPlace } from '../paging.ts'
import type { NewThread, Page, PageOptions, ThreadRecord } from '../turn-log.ts'
import type { Environment, Write } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { TenantKeys } from './tenant-keys.ts'

interface StoredThread {
  readonly record: ThreadRecord
  /** How many turns it ever had. */
  readonly made: number
}

/** The records of a tenant's threads, and the order in which they were last used. */
export class EmbeddedThreads {
  readonly #keys: TenantKeys
  readonly #env: Environment
  readonly #commits: GroupCommit

  constructor(keys: TenantKeys, env: Environment, commits: GroupCommit) {
    this.#keys = keys
    this.#env = env
    this.#commits = commits
  }

  /** Decides a new turn of a thread, which is made if it is new; answers with the turn's ordinal. */
  addTurn(threadId: string, now: number): { ordinal: number; write: (writes: Write[]) => void } {
    const before = this.#decided(threadId)
    const { record = newThread(threadId, now), made = 0 } = before ?? {}
    const after = { record: { ...record, updatedAt: now }, made: made + 1 }
    return { ordinal: after.made, write: this.#replace(before, after) }
  }

  async put(thread: NewThread, now: number): Promise<ThreadRecord> {
    const before = this.#decided(thread.threadId)
    const { creation, createdAt } = before?.record ?? newThread(thread.threadId, now)
    const record = { ...thread, creation, createdAt, updatedAt: now }
    const write = this.#replace(before, { record, made: before?.made ?? 0 })
    await this.#commits.store(undefined, { write })
    return record
  }

  #replace(before: StoredThread | undefined, after: StoredThread): (writes: Write[]) => void {
    const { threads, recency } = this.#env.tables
    const key = this.#keys.of(after.record.threadId)
    this.#commits.stage(threads, key, JSON.stringify(after))
    return (writes) => {
      if (before !== undefined) {
        writes.push({ table: recency, key: this.#keys.recency(before.record) })
      }
      writes.push({ table: recency, key: this.#keys.recency(after.record), value: '' })
    }
  }

  get(threadId: string): ThreadRecord | undefined {
    return parseThread(this.#env.tables.threads.get(this.#keys.of(threadId)))?.record
  }

  /** What tells the thread from others with its id, as decided; undefined if there is none. */
  creationOf(threadId: string): string | undefined {
    return this.#decided(threadId)?.record.creation
  }

  list(options: PageOptions): Page<ThreadRecord> {
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseThreadPlace(options.cursor)
    const found: ThreadRecord[] = []
    const range = { ...this.#keys.newestFirst(from), limit: limit + 1, snapshot: false }
    for (const key of this.#env.tables.recency.getKeys(range)) {
      const record = Array.isArray(key) ? this.get(String(key.at(-1))) : undefined
      if (record !== undefined) found.push(record)
    }
    return pageOf(found, limit, formatThreadPlace)
  }

  async remove(threadId: string): Promise<boolean> {
    const before = this.#decided(threadId)
    if (before === undefined) return false
    const { threads, recency } = this.#env.tables
    this.#commits.stage(threads, this.#keys.of(threadId), undefined)
    const key = this.#keys.recency(before.record)
    await this.#commits.store(undefined, {
      write: (writes) => writes.push({ table: recency, key }),
    })
    return true
  }

  #decided(threadId: string): StoredThread | undefined {
    return parseThread(this.#commits.get(this.#env.tables.threads, this.#keys.of(threadId)))
  }
}

function newThread(threadId: string, now: number): ThreadRecord {
  return { threadId, creation: crypto.randomUUID(), createdAt: now, updatedAt: now }
}

function parseThread(text: string | undefined): StoredThread | undefined {
  if (text === undefined) return undefined
  const thread = parseJsonSafe(text)
  if (isRecord(thread) && isRecord(thread['record'])) {
    const { record, made } = thread as unknown as StoredThread
    // Stores of older versions have threads without one.
    return { record: { ...record, creation: record.creation ?? String(record.createdAt) }, made }
  }
  throw new TurnstreamError('STORE_CORRUPT', 'a stored thread cannot be read')
}
