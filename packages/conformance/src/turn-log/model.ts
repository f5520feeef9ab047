import type { LogName, NewTurn } from '@turnstream/core/internal/log/turn-log'
import { type TextRecord } from './append.ts'
import { START } from './given.ts'
import { newestOf } from './texts.ts'

interface ModelRecord {
  readonly offset: string
  readonly seq: number
  readonly data: string
}

interface ModelLog {
  readonly records: ModelRecord[]
  sealed: boolean
}

export interface ModelTurn {
  readonly turnId: string
  readonly threadId: string
  readonly ordinal: number
  readonly logs: Readonly<Record<LogName, ModelLog>>
  epoch: number
  lapsed: boolean
  cancelReason: string | undefined
  replacedBy: string | undefined
  readonly values: Map<string, string>
}

/** The contract in a few lines. It keeps every record and searches, where a store must be efficient. */
export class Model {
  readonly turns = new Map<string, ModelTurn>()
  readonly #made = new Map<string, number>()

  /** `epoch` is higher than 1 where the owner of a deleted turn with the same id may still write. */
  create({ turnId, threadId, replaces }: NewTurn, epoch: number): unknown {
    if (this.turns.has(turnId)) return 'TURN_EXISTS'
    const others = this.#turnsOf(threadId)
    if (others.some((turn) => !isSealed(turn))) return 'THREAD_BUSY'
    if (replaces !== undefined) {
      const target = others.find((turn) => turn.turnId === replaces)
      if (target === undefined) return 'TURN_UNKNOWN'
      if ((target.replacedBy ?? turnId) !== turnId) return 'TURN_REPLACED'
      for (const turn of others) if (turn.ordinal >= target.ordinal) turn.replacedBy ??= turnId
    }
    const ordinal = (this.#made.get(threadId) ?? 0) + 1
    this.#made.set(threadId, ordinal)
    const logs = { events: emptyLog(), processed: emptyLog() }
    const turn = { turnId, threadId, ordinal, logs, epoch, lapsed: false }
    const open = { cancelReason: undefined, replacedBy: undefined, values: new Map() }
    this.turns.set(turnId, { ...turn, ...open })
    return leaseOf(turn)
  }

  /** The turns of a thread, replaced ones too, each with its replacement. */
  list(threadId: string): unknown {
    return this.#turnsOf(threadId).map(({ turnId, replacedBy }) => ({ turnId, replacedBy }))
  }

  #turnsOf(threadId: string): ModelTurn[] {
    return [...this.turns.values()].filter((turn) => turn.threadId === threadId)
  }

  claim(turnId: string): unknown {
    const turn = this.turns.get(turnId)
    if (turn === undefined) return 'TURN_UNKNOWN'
    if (isSealed(turn)) return 'LOG_SEALED'
    if (!turn.lapsed) return 'LEASE_HELD'
    turn.epoch += 1
    turn.lapsed = false
    return leaseOf(turn)
  }

  /** With `lapse` the lease is renewed for so short a time that it has expired afterwards. */
  renew(turnId: string, epoch: number, lapse: boolean): unknown {
    const turn = this.turns.get(turnId)
    if (turn?.epoch !== epoch) return 'LEASE_LOST'
    turn.lapsed = lapse
    return undefined
  }

  append(turnId: string, epoch: number, name: LogName, added: Added): unknown {
    const turn = this.turns.get(turnId)
    if (turn?.epoch !== epoch) return 'LEASE_LOST'
    const log = turn.logs[name]
    const head = log.records.length
    const fresh = added.records.filter(({ seq }) => seq > head)
    if (log.sealed && fresh.length > 0) return 'LOG_SEALED'
    if (fresh[0] !== undefined && fresh[0].seq !== head + 1) return 'LOG_SEQUENCE_GAP'
    log.records.push(...fresh.map(({ seq, data }) => ({ offset: `${epoch}-${seq}`, seq, data })))
    log.sealed ||= added.seal
    return undefined
  }

  requestCancel(turnId: string, reason: string): unknown {
    const turn = this.turns.get(turnId)
    if (turn === undefined) return 'TURN_UNKNOWN'
    if (turn.logs.events.sealed) return false
    turn.cancelReason ??= reason
    return true
  }

  addOnce(turnId: string, key: string, value: string): unknown {
    const turn = this.turns.get(turnId)
    if (turn === undefined) return 'TURN_UNKNOWN'
    const before = turn.values.get(key)
    if (before !== undefined) return { isAdded: false, value: before }
    if (turn.logs.events.sealed || turn.cancelReason !== undefined) return { isAdded: false }
    turn.values.set(key, value)
    return { isAdded: true, value }
  }

  /** Returns what a reader with this cursor gets now. */
  tail(turnId: string, name: LogName, cursor: string): readonly unknown[] | 'TURN_UNKNOWN' {
    const log = this.turns.get(turnId)?.logs[name]
    if (log === undefined) return 'TURN_UNKNOWN'
    const state = name === 'events' ? log.records : newestOf(log.records)
    const place = log.records.find(({ offset }) => offset === cursor)?.seq
    const after = cursor === START ? 0 : place
    const found = state
      .filter(({ seq }) => seq > (after ?? 0))
      .map(({ offset, data }) => [offset, data])
    return after === undefined ? ['foreign', ...found] : found
  }

  turn(turnId: string): unknown {
    const turn = this.turns.get(turnId)
    if (turn === undefined) return undefined
    const { ordinal, epoch, cancelReason, logs } = turn
    const status = logs.events.sealed ? 'complete' : 'in_progress'
    return { ordinal, epoch, cancelReason, status, sealed: isSealed(turn) }
  }

  /** Returns the turns that `expired` lists, in any order. */
  expired(): string[] {
    const orphans = [...this.turns.values()].filter((turn) => turn.lapsed && !isSealed(turn))
    return orphans.map(({ turnId }) => turnId).toSorted()
  }
}

export interface Added {
  readonly records: readonly TextRecord[]
  readonly seal: boolean
}

function emptyLog(): ModelLog {
  return { records: [], sealed: false }
}

function isSealed({ logs }: Pick<ModelTurn, 'logs'>): boolean {
  return logs.events.sealed && logs.processed.sealed
}

function leaseOf({ epoch, logs }: Pick<ModelTurn, 'epoch' | 'logs'>): unknown {
  const { events, processed } = logs
  return {
    epoch,
    next: { events: events.records.length + 1, processed: processed.records.length + 1 },
  }
}
