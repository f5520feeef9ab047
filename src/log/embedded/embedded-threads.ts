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
    const { record = { threadId, createdAt: now, updatedAt: now }, made = 0 } = before ?? {}
    const after = { record: { ...record, updatedAt: now }, made: made + 1 }
    return { ordinal: after.made, write: this.#replace(before, after) }
  }

  async put(thread: NewThread, now: number): Promise<ThreadRecord> {
    const before = this.#decided(thread.threadId)
    const createdAt = before?.record.createdAt ?? now
    const record = { ...thread, createdAt, updatedAt: now }
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

  exists(threadId: string): boolean {
    return this.#decided(threadId) !== undefined
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

function parseThread(text: string | undefined): StoredThread | undefined {
  if (text === undefined) return undefined
  const thread = parseJsonSafe(text)
  if (isRecord(thread) && isRecord(thread['record'])) return thread as unknown as StoredThread
  throw new TurnstreamError('STORE_CORRUPT', 'a stored thread cannot be read')
}
