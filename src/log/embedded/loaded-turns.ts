import type { Clock } from '../../async/clock.ts'
import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { pageLimit, pageOf, parseOrdinal } from '../paging.ts'
import { hasRunOut, isSealed } from '../rules.ts'
import type { Orphan, Page, TurnPageOptions, TurnRecord } from '../turn-log.ts'
import { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Write } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import {
  parseKey,
  parseTurn,
  remains,
  type StoredTurn,
  TenantKeys,
  turnRecord,
} from './stored-turn.ts'

/**
 * The turns of a tenant in memory: all that are open, and those that somebody reads, once each. By their ids
 * as every token brings them along: a key of the store would have to be made for each.
 */
export class LoadedTurns {
  readonly keys: TenantKeys
  readonly #env: Environment
  readonly #commits: GroupCommit
  readonly #damaged: ReadonlySet<string>
  readonly #turns = new Map<string, EmbeddedTurn>()
  /** The open turn of a thread, as decided. */
  readonly #openOfThread = new Map<string, EmbeddedTurn>()

  constructor(
    keys: TenantKeys,
    env: Environment,
    commits: GroupCommit,
    damaged: ReadonlySet<string>,
  ) {
    this.keys = keys
    this.#env = env
    this.#commits = commits
    this.#damaged = damaged
  }

  add(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    this.#turns.set(turnId, turn)
    this.#openOfThread.set(threadId, turn)
  }

  remove(turn: EmbeddedTurn): void {
    const { turnId, threadId } = turn.facts
    if (this.#turns.get(turnId) === turn) this.#turns.delete(turnId)
    if (this.#openOfThread.get(threadId) === turn) this.#openOfThread.delete(threadId)
  }

  /** Takes a turn back that was removed. */
  restore(turn: EmbeddedTurn): void {
    if (turn.isSealed) this.#turns.set(turn.facts.turnId, turn)
    else this.add(turn)
    this.forgetIdle(turn)
  }

  values(): Iterable<EmbeddedTurn> {
    return this.#turns.values()
  }

  /** The turn as decided, from the store if need be; undefined if there is none. */
  find(turnId: string): EmbeddedTurn | undefined {
    const loaded = this.#turns.get(turnId)
    if (loaded !== undefined) return loaded
    const text = this.#commits.get(this.#env.tables.turns, this.#key(turnId))
    return text === undefined ? undefined : EmbeddedTurn.load(parseTurn(text), this.keys)
  }

  /** The turn as readers may see it. */
  stored(turnId: string): StoredTurn | undefined {
    const loaded = this.#turns.get(turnId)?.committed
    if (loaded !== undefined) return loaded
    const text = this.#env.tables.turns.get(this.#key(turnId))
    return text === undefined ? undefined : parseTurn(text)
  }

  /** STORE_CORRUPT for a turn that is known to be damaged. */
  #key(turnId: string): string {
    const key = this.keys.of(turnId)
    if (!this.#damaged.has(key)) return key
    throw new TurnstreamError('STORE_CORRUPT', `turn ${turnId} is damaged`)
  }

  /** Keeps a turn in memory while somebody uses it. */
  hold(turn: EmbeddedTurn): () => void {
    const { turnId } = turn.facts
    if (!this.#turns.has(turnId)) this.#turns.set(turnId, turn)
    const release = turn.hold()
    return () => {
      release()
      this.forgetIdle(turn)
    }
  }

  /** A turn that ended stays only while it is read. */
  forgetIdle(turn: EmbeddedTurn): void {
    if (turn.isIdle) this.remove(turn)
  }

  openOf(threadId: string): EmbeddedTurn | undefined {
    const turn = this.#openOfThread.get(threadId)
    return turn?.isSealed === false ? turn : undefined
  }

  /** Throws THREAD_BUSY while a turn of the thread is open. */
  checkFree(threadId: string): void {
    const open = this.openOf(threadId)
    if (open !== undefined) throw new TurnstreamError('THREAD_BUSY', `turn ${open.facts.turnId}`)
  }

  /** The turns that nobody writes to any more. */
  orphans(now: number, limit: number): string[] {
    const orphans: string[] = []
    for (const turn of this.#turns.values()) {
      if (orphans.length >= limit) break
      const { committed } = turn
      const isOpen = committed !== undefined && !isSealed(committed.state)
      if (isOpen && hasRunOut(turn.state, now)) orphans.push(turn.facts.turnId)
    }
    return orphans
  }
}

/** In the table `store`: [DAMAGED, key of the turn] to nothing. */
export const DAMAGED = 'damaged'
const DAMAGED_RANGE = { start: [DAMAGED, ''], end: [DAMAGED, '\uffff'] }

/** The turns in memory of every tenant, also of one that nobody has asked for since the store was opened. */
export class AllTurns {
  readonly #env: Environment
  readonly #commits: GroupCommit
  readonly #tenants = new Map<string, LoadedTurns>()
  /** The keys of turns that were open when a part of them was damaged. */
  readonly #damaged = new Set<string>()

  constructor(env: Environment, commits: GroupCommit) {
    this.#env = env
    this.#commits = commits
    for (const { key } of env.tables.store.getRange(DAMAGED_RANGE)) {
      if (Array.isArray(key)) this.#damaged.add(String(key[1]))
    }
  }

  /** From now on, the turn is STORE_CORRUPT. It stays so, since nothing else may tell that it has lost events. */
  markDamaged(turn: EmbeddedTurn, writes: Write[]): void {
    const key = turn.keys.of(turn.facts.turnId)
    this.#damaged.add(key)
    const { open, store } = this.#env.tables
    writes.push({ table: open, key: turn.facts.number })
    writes.push({ table: store, key: [DAMAGED, key], value: '' })
  }

  of(tenant: string): LoadedTurns {
    const known = this.#tenants.get(tenant)
    if (known !== undefined) return known
    const made = new LoadedTurns(new TenantKeys(tenant), this.#env, this.#commits, this.#damaged)
    this.#tenants.set(tenant, made)
    return made
  }

  /** The turn under a key of the store. */
  find(key: string): EmbeddedTurn | undefined {
    const { tenant, id } = parseKey(key)
    return this.of(tenant).find(id)
  }

  *values(): Iterable<EmbeddedTurn> {
    for (const turns of this.#tenants.values()) yield* turns.values()
  }

  /** The turns that nobody writes to any more. */
  orphans(now: number, limit: number): Orphan[] {
    const orphans: Orphan[] = []
    for (const [tenant, turns] of this.#tenants) {
      const found = turns.orphans(now, limit - orphans.length)
      for (const turnId of found) orphans.push({ tenant, turnId })
    }
    return orphans
  }
}

interface Store {
  readonly env: Environment
  readonly clock: Clock
  readonly retentionMs: number
}

/** The records of a tenant's turns as they are stored, without what is older than they are kept. */
export class TurnRecords {
  readonly #store: Store
  readonly #turns: LoadedTurns

  constructor(store: Store, turns: LoadedTurns) {
    this.#store = store
    this.#turns = turns
  }

  get(turnId: string): TurnRecord | undefined {
    const turn = this.#turns.stored(turnId)
    return turn === undefined || this.remains(turn) === 'nothing' ? undefined : this.recordOf(turn)
  }

  response(turnId: string): string | undefined {
    const turn = this.#turns.stored(turnId)
    if (turn === undefined || this.remains(turn) !== 'all') return undefined
    return this.#store.env.tables.responses.get(turn.number)
  }

  /** Only where a run has another id than its turn is there an entry for it. */
  ofRun(runId: string): TurnRecord | undefined {
    const turnId = this.#store.env.tables.runs.get(this.#turns.keys.of(runId))
    const record = this.get(turnId ?? runId)
    return record?.runId === runId ? record : undefined
  }

  list(threadId: string, options: TurnPageOptions): Page<TurnRecord> {
    const limit = pageLimit(options)
    const from = options.cursor === undefined ? undefined : parseOrdinal(options.cursor)
    const found: TurnRecord[] = []
    for (const turnId of this.#ids(threadId, options.first === 'newest', from)) {
      const record = this.get(turnId)
      if (record !== undefined) found.push(record)
      if (found.length > limit) break
    }
    return pageOf(found, limit, ({ ordinal }) => String(ordinal))
  }

  /** The ids of all turns of a thread. */
  idsOf(threadId: string): Iterable<string> {
    return this.#ids(threadId, false, undefined)
  }

  /** The same, with the error in the place of an id that is damaged. */
  *readableIds(threadId: string): Generator<string | TurnstreamError> {
    const key = this.#turns.keys.of(threadId)
    const { threadTurns } = this.#store.env.tables
    // All at once: a cursor of LMDB must not stay open while turns are read.
    const places = [...threadTurns.getKeys({ start: [key, 0], end: [key, Infinity] })]
    for (const place of places) {
      try {
        yield threadTurns.get(place) ?? ''
      } catch (error) {
        if (!hasCode(error, 'STORE_CORRUPT')) throw error
        yield error
      }
    }
  }

  *#ids(threadId: string, isReverse: boolean, from: number | undefined): Generator<string> {
    const key = this.#turns.keys.of(threadId)
    const oldest = [key, 0]
    const newest = [key, Infinity]
    const end = isReverse ? oldest : newest
    const start = from === undefined ? (isReverse ? newest : oldest) : [key, from]
    const range = { start, end, reverse: isReverse, exclusiveStart: true }
    for (const { value } of this.#store.env.tables.threadTurns.getRange(range)) yield value
  }

  /** Whether anything is left of the turns of a thread, as decided. */
  hasAny(threadId: string): boolean {
    if (this.#turns.openOf(threadId) !== undefined) return true
    for (const turnId of this.idsOf(threadId)) {
      try {
        if (this.get(turnId) !== undefined) return true
      } catch {
        // What cannot be read is there, until the sweeper removes it.
        return true
      }
    }
    return false
  }

  recordOf(turn: StoredTurn): TurnRecord {
    return turnRecord(turn, this.remains(turn) !== 'all')
  }

  remains(turn: StoredTurn) {
    return remains(turn, this.#store.clock.now(), this.#store.retentionMs)
  }
}
