import type * as log from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { formatThreadPlace, pageLimit, pageOf, parseOrdinal, parseThreadPlace } from '../paging.ts'
import { checkId, damagedTurn } from '../records.ts'
import { checkReplaceable, corrupt } from '../rules.ts'
import type { RedisClient, Script, ScriptArgs } from './client.ts'
import type { RedisKeys } from './keys.ts'
import { list, type Scored, scored, text, texts, unlessDamaged } from './replies.ts'
import * as scripts from './scripts/thread.ts'
import { isSealed, type TenantStore, type TurnMeta, type TurnRecords } from './turn-records.ts'

/** The threads of the log of a tenant. */
export abstract class ThreadLog {
  protected readonly store: TenantStore
  protected readonly client: RedisClient
  protected readonly keys: RedisKeys
  protected readonly records: TurnRecords

  constructor(store: TenantStore) {
    this.store = store
    this.client = store.client
    this.keys = store.keys
    this.records = store.records
  }

  abstract deleteTurn(turnId: string): Promise<boolean>

  async putThread(thread: log.NewThread, replaces?: log.Replaced): Promise<log.ThreadRecord> {
    const { threadId, title, metadata } = thread
    checkId('threadId', threadId)
    const fields: string[] = []
    if (title !== undefined) fields.push('title', title)
    if (metadata !== undefined) fields.push('metadata', JSON.stringify(metadata))
    const expected = replaces && `${replaces.creation} ${replaces.version}`
    const condition = expected === undefined ? 'any' : (expected ?? 'none')
    const args = [this.store.retention.logMs, newCreation(), condition, ...fields]
    const reply = texts(await this.#run(scripts.PUT_THREAD, threadId, args))
    const [creation, ...numbers] = reply
    if (creation === undefined) throw new TurnstreamError('THREAD_CHANGED', threadId)
    const [version = 0, createdAt = 0, updatedAt = 0] = numbers.map(Number)
    await this.#touch(threadId, updatedAt)
    const named = { ...(title !== undefined && { title }), ...(metadata && { metadata }) }
    return { threadId, ...named, creation, version, createdAt, updatedAt }
  }

  async getThread(threadId: string): Promise<log.ThreadRecord | undefined> {
    const { record } = this.keys.thread(threadId)
    const reply = await this.client.command('HMGET', record, ...THREAD_FIELDS)
    const [createdAt, updatedAt, title, metadata, creation, version] = list(reply)
    if (typeof createdAt !== 'string') return undefined
    const times = { createdAt: Number(createdAt), updatedAt: Number(updatedAt) }
    if (Number.isNaN(times.createdAt + times.updatedAt)) {
      throw corrupt(`the record of thread ${threadId} is malformed`)
    }
    const parsed = typeof metadata === 'string' ? parseJsonSafe(metadata) : undefined
    return {
      threadId,
      ...(typeof title === 'string' && { title }),
      ...(isRecord(parsed) && { metadata: parsed }),
      // Threads of older versions have neither.
      creation: typeof creation === 'string' ? creation : createdAt,
      version: Number(version),
      ...times,
    }
  }

  /** The thread at a place of the index, damaged or not. */
  #listed({ member: threadId, score }: Scored): Promise<log.ThreadRecord | undefined> {
    const times = { createdAt: score, updatedAt: score }
    const damaged = { threadId, creation: '', version: 0, ...times, damaged: true } as const
    return unlessDamaged(this.getThread(threadId), damaged)
  }

  async listThreads(options: log.PageOptions = {}): Promise<log.Page<log.ThreadRecord>> {
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseThreadPlace(options.cursor)
    const index = this.keys.threads
    const found: { place: string; record: log.ThreadRecord }[] = []
    const gone: Scored[] = []
    for (let skip = 0; found.length <= limit; skip += limit + 1) {
      const range = [from === undefined ? '+inf' : String(from.updatedAt), '-inf', 'BYSCORE', 'REV']
      const page = ['LIMIT', String(skip), String(limit + 1), 'WITHSCORES']
      const places = scored(await this.client.command('ZRANGE', index, ...range, ...page))
      const after = places.filter((each) => from === undefined || isAfter(each, from))
      const records = await Promise.all(after.map((each) => this.#listed(each)))
      for (const [at, { member, score }] of after.entries()) {
        const record = records[at]
        const place = formatThreadPlace({ updatedAt: score, threadId: member })
        if (record === undefined) gone.push({ member, score })
        else found.push({ place, record })
      }
      if (places.length <= limit) break
    }
    await Promise.all(gone.map((each) => this.#drop(each)))
    const page = pageOf(found, limit, ({ place }) => place)
    return { ...page, items: page.items.map(({ record }) => record) }
  }

  /** Number of threads; may include recently expired ones. */
  async countThreads(): Promise<number> {
    const index = this.keys.threads
    // Every call removes more entries than a caller can add before the next.
    const places = scored(await this.client.command('ZRANGE', index, '0', '15', 'WITHSCORES'))
    const records = await Promise.all(places.map((each) => this.#listed(each)))
    await Promise.all(
      places.filter((_, at) => records[at] === undefined).map((each) => this.#drop(each)),
    )
    return Number(await this.client.command('ZCARD', index))
  }

  /** Removes a deleted thread from the index, unless it was added again since. */
  async #drop({ member, score }: Scored): Promise<void> {
    await this.client.run(scripts.DROP, [this.keys.threads], [member, score])
  }

  async listTurns(threadId: string, options: log.TurnPageOptions = {}) {
    const limit = pageLimit(options)
    const { first = 'oldest', cursor, replaced } = options
    const start = first === 'newest' ? '+inf' : '-inf'
    let edge = cursor === undefined ? start : `(${parseOrdinal(cursor)}`
    const found: log.ListedTurn[] = []
    const gone: string[] = []
    for (let isEnd = false; !isEnd && found.length <= limit; ) {
      const args = [first, edge, limit + 1, replaced === true ? 1 : '']
      const reply = list(await this.#run(scripts.LIST_TURNS, threadId, args))
      isEnd = reply[0] === 1
      edge = text(reply[1])
      const places = list(reply[2]).map(texts)
      const records = await Promise.all(
        places.map(([turnId = '', ordinal]) => {
          const damaged = damagedTurn({ turnId, threadId, ordinal: Number(ordinal) })
          return unlessDamaged(this.records.get(turnId), damaged)
        }),
      )
      for (const [at, [member = '', , replacedBy]] of places.entries()) {
        const record = records[at]
        if (record === undefined) gone.push(member)
        else found.push({ ...record, ...(replacedBy && { replacedBy }) })
      }
    }
    await this.#forget(threadId, gone)
    return pageOf(found, limit, ({ ordinal }) => String(ordinal))
  }

  /** Whether the turn is still listed in the thread after its creation. Then it replaces others. */
  protected async confirmTurn(
    { turnId, threadId, replacedBy = '' }: log.NewTurn,
    { ordinal, replacesFrom }: OpenedTurn,
  ): Promise<boolean> {
    const args = [turnId, ordinal, replacesFrom, replacedBy]
    return (await this.#run(scripts.CONFIRM_TURN, threadId, args)) === 1
  }

  #run(script: Script, threadId: string, args: ScriptArgs): Promise<unknown> {
    const { record, turns, replaced } = this.keys.thread(threadId)
    return this.client.run(script, [record, turns, replaced], args)
  }

  protected async hasTurn(threadId: string, turnId: string): Promise<boolean> {
    const { turns } = this.keys.thread(threadId)
    return (await this.client.command('ZSCORE', turns, turnId)) !== null
  }

  /** Reserves the thread for a new turn: THREAD_BUSY, or TURN_UNKNOWN or TURN_REPLACED for what it replaces. */
  protected async openTurn(turn: log.NewTurn, leaseMs: number): Promise<OpenedTurn> {
    const { turnId, threadId, threadTitle = '' } = turn
    const replaces = await this.#replaced(turn)
    const keepMs = this.store.retention.threadMs + leaseMs
    let replaced = ''
    for (;;) {
      const args = [turnId, leaseMs, keepMs, replaced, newCreation(), replaces, threadTitle]
      const reply = texts(await this.#run(scripts.OPEN_TURN, threadId, args))
      const [answer, open = '', ends] = reply
      if (answer === 'unknown') checkReplaceable(turn, undefined)
      if (answer === 'replaced') checkReplaceable(turn, { replacedBy: open })
      if (answer === 'deleting')
        throw new TurnstreamError('THREAD_BUSY', `${threadId} is being deleted`)
      if (answer === 'ok') {
        const now = Number(reply[2])
        await this.#touch(threadId, now)
        return { ordinal: Number(reply[1]), now, replacesFrom: reply[3] ?? '' }
      }
      if (open === replaced || !(await this.#isLeft(open, Number(ends), Number(reply[3])))) {
        throw new TurnstreamError('THREAD_BUSY', `turn ${open}`)
      }
      replaced = open
    }
  }

  /** The turn to replace; the list may name one whose record has expired. */
  async #replaced({ turnId, threadId, replaces }: log.NewTurn): Promise<string> {
    if (replaces === undefined) return ''
    const record = replaces === turnId ? undefined : await this.records.get(replaces)
    return record?.threadId === threadId ? replaces : NO_TURN
  }

  /** Extends the thread's expiry while a turn is open. */
  protected async keepThread(threadId: string, leaseMs: number): Promise<void> {
    const keepMs = this.store.retention.threadMs + leaseMs
    await this.#run(scripts.KEEP_KEYS, threadId, [keepMs])
  }

  /** A mark is stale when its turn has ended, or was not created in time. */
  async #isLeft(turnId: string, ends: number, now: number): Promise<boolean> {
    const meta = await this.records.meta(turnId)
    return meta === undefined ? now >= ends : isSealed(meta)
  }

  protected async closeTurn({ threadId, processed }: TurnMeta, turnId: string): Promise<void> {
    const { ordinal = '', replacesFrom = '' } = processed.fields
    const args = [turnId, '', this.store.retention.threadMs, replacesFrom, ordinal]
    await this.#run(scripts.CLOSE_TURN, threadId, args)
  }

  protected async removeFromThread(threadId: string, turnId: string): Promise<void> {
    const args = [turnId, 1, this.store.retention.threadMs]
    await this.#run(scripts.CLOSE_TURN, threadId, args)
  }

  /** Removes a thread, which gets no turns meanwhile, and its turns. After a crash it has fewer turns. */
  async deleteThread(threadId: string): Promise<boolean> {
    const { record, turns } = this.keys.thread(threadId)
    let creation: string | undefined
    let mark: string = crypto.randomUUID()
    let turnIds: string[] = []
    for (;;) {
      const args = [mark, DELETION_MS, ...turnIds]
      const begun = this.#run(scripts.BEGIN_DELETION, threadId, args)
      const reply = await unlessDamaged(begun, null)
      if (reply === null) {
        // Such a record cannot hold the mark of a deletion. This begins again without it.
        await this.client.command('DEL', record)
        await this.client.command('HSET', record, 'creation', mark)
        await this.client.command('PEXPIRE', record, String(DELETION_MS))
        continue
      }
      const [found, holding] = texts(reply)
      if (found === undefined || holding === undefined) return creation !== undefined
      // Another call deleted the thread, and this is a new one.
      if (found !== (creation ?? found)) return true
      creation = found
      mark = holding
      const page = this.client.command('ZRANGE', turns, '0', String(TURNS_PER_STEP - 1))
      turnIds = texts(await unlessDamaged(page, []))
      await Promise.all(turnIds.map((turnId) => this.deleteTurn(turnId)))
      if (turnIds.length > 0) continue
      // The index first: it may name a missing thread, but must not omit an existing one.
      await this.client.command('ZREM', this.keys.threads, threadId)
      if ((await this.#run(scripts.END_DELETION, threadId, [mark])) === 1) return true
    }
  }

  async #touch(threadId: string, updatedAt: number): Promise<void> {
    const { retention } = this.store
    await this.client.run(
      scripts.INDEX,
      [this.keys.threads],
      [updatedAt, threadId, retention.indexMs],
    )
  }

  async #forget(threadId: string, turnIds: readonly string[]): Promise<void> {
    if (turnIds.length === 0) return
    await this.#run(scripts.FORGET_TURNS, threadId, turnIds)
  }
}

interface OpenedTurn {
  readonly ordinal: number
  readonly now: number
  /** The ordinal from which the turn replaces others, or ''. */
  readonly replacesFrom: string
}

/** Names no turn: ids contain no space. */
const NO_TURN = ' '

const THREAD_FIELDS = ['createdAt', 'updatedAt', 'title', 'metadata', 'creation', 'version']

/** A deletion step takes milliseconds; after this it is considered dead. */
const DELETION_MS = 5000

const TURNS_PER_STEP = 16

function newCreation(): string {
  return crypto.randomUUID().slice(0, 8)
}

/** Redis orders members by bytes, not by UTF-16 units. */
function isAfter(each: Scored, from: { updatedAt: number; threadId: string }) {
  if (each.score !== from.updatedAt) return each.score < from.updatedAt
  return Buffer.compare(Buffer.from(each.member), Buffer.from(from.threadId)) < 0
}
