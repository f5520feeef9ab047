import type { Clock } from '../../async/clock.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import { RECORDS_OUTLIVE_LOGS } from '../retention.ts'
import type { AllTurns } from './all-turns.ts'
import type { EmbeddedTurn } from './embedded-turn.ts'
import type { Environment, Write } from './environment.ts'
import type { GroupCommit } from './group-commit.ts'
import type { Journal } from './journal.ts'
import { formatTurn, type StoredTurn } from './stored-turn.ts'
import type { TenantKeys } from './tenant-keys.ts'

interface Store {
  readonly env: Environment
  readonly commits: GroupCommit
  readonly journal: Journal
  readonly turns: AllTurns
}

/** So many turns are swept in one commit; then whoever else wants to store something has its turn. */
const TURNS_PER_STEP = 16

/** Takes turns of any tenant out of the store, on request and when their time is over. */
export class Removal {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** Removes everything of a turn and ends its readers. */
  async remove(turn: EmbeddedTurn, reason: TurnstreamError): Promise<void> {
    const { commits, env, journal } = this.#store
    const { keys } = turn
    const turns = this.#store.turns.of(keys.tenant)
    const stored = turn.decided
    const { turnId, runId } = stored
    turn.isDiscarded = true
    turns.remove(turn)
    commits.stage(env.tables.turns, keys.of(turnId), undefined)
    if (runId !== turnId) commits.stage(env.tables.runs, keys.of(runId), undefined)
    await commits.store(undefined, {
      write: (writes) => {
        this.#removeLogs(writes, stored)
        this.#removeIndex(writes, stored, keys)
      },
      committed: () => {
        journal.release(turn.events)
        turn.end(reason)
      },
      undo: () => {
        turn.isDiscarded = false
        if (turn.committed !== undefined) turns.restore(turn)
      },
    })
  }

  #removeLogs(writes: Write[], { number }: StoredTurn): void {
    const { chunks, processed, responses } = this.#store.env.tables
    writes.push({ table: responses, key: number })
    const range = { start: [number], end: [number + 1] }
    for (const table of [chunks, processed]) {
      for (const key of table.getKeys(range)) writes.push({ table, key })
    }
  }

  #removeIndex(writes: Write[], turn: StoredTurn, keys: TenantKeys): void {
    const { open, ended, threadTurns } = this.#store.env.tables
    const { endedAt } = turn
    writes.push({ table: open, key: turn.number })
    writes.push({ table: threadTurns, key: [keys.of(turn.threadId), turn.ordinal] })
    if (endedAt === undefined) return
    writes.push({ table: ended, key: ['logs', endedAt, keys.of(turn.turnId)] })
    writes.push({ table: ended, key: ['record', endedAt, keys.of(turn.turnId)] })
  }

  /** Clears away some of what is due; false when nothing is left. */
  async sweep(now: number, retentionMs: number): Promise<boolean> {
    const logs = this.#due('logs', now - retentionMs)
    const records = this.#due('record', now - retentionMs * RECORDS_OUTLIVE_LOGS)
    const work = [
      ...logs.map((turn) => this.#expire(turn)),
      ...records.map((turn) => this.remove(turn, new TurnstreamError('TURN_EXPIRED', ''))),
    ]
    await Promise.all(work)
    return work.length > 0
  }

  #due(kind: 'logs' | 'record', until: number): EmbeddedTurn[] {
    const { env, turns } = this.#store
    const range = { start: [kind], end: [kind, until, '\uffff'], limit: TURNS_PER_STEP }
    const due: EmbeddedTurn[] = []
    for (const key of env.tables.ended.getKeys(range)) {
      const turn = Array.isArray(key) ? turns.find(String(key[2])) : undefined
      if (turn !== undefined) due.push(turn)
    }
    return due
  }

  /** Removes the logs; the record stays. */
  async #expire(turn: EmbeddedTurn): Promise<void> {
    const { commits, env } = this.#store
    const { turnId, endedAt = 0 } = turn.decided
    const key = turn.keys.of(turnId)
    const expired = { ...turn.decided, expired: true }
    commits.stage(env.tables.turns, key, formatTurn(expired))
    await commits.store(undefined, {
      write: (writes) => {
        this.#removeLogs(writes, expired)
        writes.push({ table: env.tables.ended, key: ['logs', endedAt, key] })
        writes.push({ table: env.tables.ended, key: ['record', endedAt, key], value: '' })
      },
      committed: () => turn.end(new TurnstreamError('TURN_EXPIRED', turnId)),
    })
  }
}

/** Sweeps when the store is opened and every `everyMs` after that, one small step at a time. */
export class Sweeper {
  readonly #step: () => Promise<boolean>
  readonly #clock: Clock
  readonly #everyMs: number
  #isStopped = false
  #cancel: (() => void) | undefined
  #sweeping: Promise<void>

  constructor(step: () => Promise<boolean>, clock: Clock, everyMs: number) {
    this.#step = step
    this.#clock = clock
    this.#everyMs = everyMs
    this.#sweeping = this.#sweep()
  }

  async #sweep(): Promise<void> {
    try {
      // Each step is a commit of its own, and lets others in.
      let isMore = true
      while (isMore && !this.#isStopped) isMore = await this.#step()
    } catch {
      // The store is full, say. Whoever writes hears of it, and what is due stays due.
    }
    if (this.#isStopped) return
    this.#cancel = this.#clock.after(this.#everyMs, () => {
      this.#sweeping = this.#sweep()
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancel?.()
    await this.#sweeping
  }
}
