import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import type { StopSignal } from '@turnstream/core/internal/async/on-abort'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { offsetOf, resume } from './offsets.ts'
import type { TurnFacts } from './records.ts'
import {
  checkEpoch,
  claimed,
  hasRunOut,
  type LogState,
  leaseOf,
  turnGone,
  type WriteState,
} from './rules.ts'
import { type Block, type LogSource, tailLog, Waiters } from './tail.ts'

/** A turn of a store that decides in this process: as decided, and as visible to readers. */
export abstract class LocalTurn {
  /** Unique, even among turns with the same id. */
  abstract readonly creation: string
  abstract readonly facts: TurnFacts
  abstract readonly state: WriteState
  /** When the lease expires, in monotonic time. */
  abstract until: number
  /** As visible; undefined while nothing is stored. */
  abstract readonly visibleFacts: TurnFacts | undefined
  /** Whether it is visible and not sealed. */
  abstract readonly isOpen: boolean
  /** Woken when the turn is cancelled, claimed or deleted, or gets a keyed record. */
  readonly ownership = new Waiters()
  protected readonly waiters = { events: new Waiters(), processed: new Waiters() }
  protected gone: TurnstreamError | undefined

  abstract decide(facts: Partial<TurnFacts>, state?: WriteState): void
  protected abstract visibleLog(log: log.LogName): LogState
  protected abstract eventsAfter(seq: number): Block<log.EventRecord>
  protected abstract outputsAfter(seq: number): readonly log.OutputRecord[]

  /** Reads what readers of the log need, if it is not in memory. */
  load(_log: log.LogName): void {}

  get waiting(): number {
    return this.waiters.events.size + this.waiters.processed.size
  }

  end(reason: TurnstreamError): void {
    this.gone = reason
    this.ownership.wake()
    for (const waiters of Object.values(this.waiters)) waiters.wake()
  }

  checkThere(): void {
    if (this.gone !== undefined) throw this.refusal(this.gone)
  }

  /** A new error for every reader: its stack shows who was refused. */
  protected refusal(reason: TurnstreamError): TurnstreamError {
    return new TurnstreamError(reason.code, this.facts.turnId, { cause: reason })
  }

  source<Name extends log.LogName>(
    name: Name,
    release: () => void,
  ): LogSource<log.LogRecord<Name>> {
    return {
      resume: (cursor) => resume(cursor, this.visibleLog(name)),
      read: (after) => {
        this.checkThere()
        const block = name === 'events' ? this.eventsAfter(after) : this.#readProcessed(after)
        return block as Block<log.LogRecord> as Block<log.LogRecord<Name>>
      },
      changed: (seq, signal) => {
        const { head, sealed } = this.visibleLog(name)
        if (head !== seq || sealed || this.gone !== undefined) return undefined
        return this.waiters[name].wait(signal)
      },
      release,
    }
  }

  snapshot(): log.TurnSnapshot {
    this.checkThere()
    const { records, cursor, last } = this.#readProcessed(0)
    return { records, offset: cursor, sealed: last }
  }

  #readProcessed(after: number): Block<log.OutputRecord> {
    return this.restOf('processed', this.outputsAfter(after))
  }

  /** A block that ends with the log. */
  protected restOf<Rec extends log.LogRecord>(name: log.LogName, records: readonly Rec[]) {
    const { head, sealed, epochs } = this.visibleLog(name)
    return { records, head, cursor: offsetOf(epochs, head), last: sealed }
  }
}

export interface TurnAccess {
  checkOpen(): void
  existing(turnId: string): LocalTurn
  persist(turn: LocalTurn): Promise<void>
  waitFor<Found>(
    lease: log.Lease,
    signal: AbortSignal,
    find: (facts: TurnFacts) => Found | undefined,
  ): Promise<Found>
}

/** Leases and cancels of the turns of one tenant, for stores that decide in this process. */
export abstract class LocalLog<Turn extends LocalTurn = LocalTurn> {
  readonly #clock: Clock
  /** By id; at least those that are open or have readers. */
  protected readonly turns = new Map<string, Turn>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  protected abstract checkOpen(): void
  /** The turn as decided, or TURN_UNKNOWN or TURN_EXPIRED. */
  protected abstract existing(turnId: string): Turn
  /** The turn as decided, also if only its record is left. */
  protected abstract decided(turnId: string): Turn | undefined
  /** Resolves when what was decided about the turn is stored. */
  protected abstract persist(turn: Turn, undo?: () => void): Promise<void>
  /** Keeps a turn in memory until the returned function is called, once. */
  protected abstract hold(turn: Turn): () => void

  async claim(turnId: string, owner: string, leaseMs: number): Promise<log.Lease> {
    const turn = this.existing(turnId)
    const state = claimed(turn.state, turnId, monotonicNow(this.#clock), leaseMs)
    const { until } = turn
    turn.decide({ owner }, state)
    turn.until = state.until
    await this.persist(turn, () => {
      turn.until = until
    })
    return leaseOf(turn, state, this.#clock.now() + leaseMs)
  }

  async renew(lease: log.Lease, leaseMs: number): Promise<void> {
    const turn = this.#leased(lease)
    checkEpoch(turn.state, lease)
    turn.until = monotonicNow(this.#clock) + leaseMs
    lease.until = this.#clock.now() + leaseMs
  }

  async expired(limit: number): Promise<string[]> {
    this.checkOpen()
    return this.#orphans(limit)
  }

  #orphans(limit: number): string[] {
    const now = monotonicNow(this.#clock)
    const orphans: string[] = []
    for (const turn of this.turns.values()) {
      if (orphans.length >= limit) break
      if (turn.isOpen && hasRunOut(turn, now)) orphans.push(turn.facts.turnId)
    }
    return orphans
  }

  async requestCancel(turnId: string, reason: string): Promise<boolean> {
    const turn = this.existing(turnId)
    if (turn.state.logs.events.sealed) return false
    if (turn.facts.cancelReason === undefined) turn.decide({ cancelReason: reason })
    await this.persist(turn)
    return true
  }

  tail<Name extends log.LogName>(turnId: string, name: Name, after: string, signal: StopSignal) {
    const open = () => {
      const turn = this.#visible(turnId, name)
      return turn.source(name, this.hold(turn))
    }
    return tailLog(name, open, after, signal)
  }

  async snapshot(turnId: string): Promise<log.TurnSnapshot> {
    return this.#visible(turnId, 'processed').snapshot()
  }

  /** For readers: unstored turns do not exist. */
  #visible(turnId: string, name: log.LogName): Turn {
    const turn = this.existing(turnId)
    if (turn.visibleFacts === undefined) throw new TurnstreamError('TURN_UNKNOWN', turnId)
    turn.load(name)
    return turn
  }

  cancelled(lease: log.Lease, signal: AbortSignal): Promise<string> {
    return this.#waitFor(lease, signal, ({ cancelReason }) => cancelReason)
  }

  /** Waits until a turn visibly has what its owner waits for. */
  async #waitFor<Found>(
    lease: log.Lease,
    signal: AbortSignal,
    find: (facts: TurnFacts) => Found | undefined,
  ): Promise<Found> {
    const release = this.hold(this.#leased(lease))
    try {
      while (!signal.aborted) {
        const turn = this.#leased(lease)
        checkEpoch(turn.state, lease)
        const found = turn.visibleFacts && find(turn.visibleFacts)
        if (found !== undefined) return found
        await turn.ownership.wait(signal)
      }
    } finally {
      release()
    }
    throw new TurnstreamError('ABORTED', 'the wait was aborted')
  }

  /** The turn of the lease, which may be gone or recreated. */
  protected ownTurn({ turnId, creation }: log.Lease): Turn | undefined {
    const turn = this.decided(turnId)
    return turn?.creation === creation ? turn : undefined
  }

  /** To its owner, a deleted turn is a lost lease. */
  #leased(lease: log.Lease): Turn {
    this.checkOpen()
    const turn = this.ownTurn(lease)
    if (turn === undefined) throw turnGone(lease.turnId)
    return turn
  }

  /** The orphans of several tenants. */
  static orphansOf(logs: Iterable<readonly [string, LocalLog]>, limit: number): log.Orphan[] {
    const orphans: log.Orphan[] = []
    for (const [tenant, each] of logs) {
      const found = each.#orphans(limit - orphans.length)
      for (const turnId of found) orphans.push({ tenant, turnId })
    }
    return orphans
  }

  /** For the keyed records of the turns. */
  protected get accessToTurns(): TurnAccess {
    return {
      checkOpen: () => this.checkOpen(),
      existing: (turnId) => this.existing(turnId),
      persist: (turn) => this.persist(turn as Turn),
      waitFor: (...wait) => this.#waitFor(...wait),
    }
  }
}
