import { ExpiryQueue } from '@turnstream/core/internal/async/expiry-queue'
import type { AddResult, KeyedRecords, Lease } from '@turnstream/core/internal/log/turn-log'
import {
  checkKeys,
  checkTenantRecord,
  checkTurnRecord,
  type ExpiringValue,
  findValue,
  lastExpiry,
  liveValues,
  MAX_VALUES,
  withValue,
} from './keyed-records.ts'
import type { MemoryTurn } from './memory-turn.ts'

/** Keys checked per call, so that a million expired values do not block the event loop. */
const SWEPT_PER_CALL = 100

/** A key of any tenant. It is in the queue once, until it has no values left. */
interface StoredKey {
  readonly remove: () => void
  values: readonly ExpiringValue[]
}

/** The log of the tenant. */
interface Turns {
  checkOpen(): void
  existing(turnId: string): MemoryTurn
  waitFor<Found>(
    lease: Lease,
    signal: AbortSignal,
    find: (turn: MemoryTurn) => Found | undefined,
  ): Promise<Found>
}

export class MemoryKeyedRecords implements KeyedRecords {
  readonly #turns: Turns
  readonly #now: () => number
  readonly #keys = new Map<string, StoredKey>()
  /** Shared by all tenants. */
  readonly #queue: ExpiryQueue<StoredKey>

  constructor(turns: Turns, now: () => number, ofDefault?: MemoryKeyedRecords) {
    this.#turns = turns
    this.#now = now
    this.#queue = ofDefault === undefined ? new ExpiryQueue<StoredKey>() : ofDefault.#queue
  }

  async add(key: string, value: string, ttlMs: number): Promise<void> {
    this.#turns.checkOpen()
    checkTenantRecord(key, value, ttlMs)
    this.sweep()
    const now = this.#now()
    const until = now + ttlMs
    let stored = this.#keys.get(key)
    if (stored === undefined) {
      stored = { remove: () => this.#keys.delete(key), values: [] }
      this.#keys.set(key, stored)
      this.#queue.add(stored, until)
    }
    stored.values = [...liveValues(stored.values, now), [until, value] as const].slice(-MAX_VALUES)
  }

  async read(keys: readonly string[]): Promise<(string | undefined)[]> {
    this.#turns.checkOpen()
    checkKeys(keys)
    this.sweep()
    return keys.map((key) => this.#live(key).at(-1)?.[1])
  }

  async consume(key: string): Promise<string | undefined> {
    this.#turns.checkOpen()
    checkKeys([key])
    this.sweep()
    const live = this.#live(key)
    const newest = live.pop()
    const stored = this.#keys.get(key)
    // An emptied key stays until its place in the queue is reached.
    if (stored !== undefined) stored.values = live
    return newest?.[1]
  }

  async addOnce(turnId: string, key: string, value: string): Promise<AddResult> {
    checkTurnRecord(key, value)
    const turn = this.#turns.existing(turnId)
    const before = findValue(turn.values, key)
    if (before !== undefined) return { isAdded: false, value: before }
    const { state, facts } = turn
    if (state.logs.events.sealed || facts.cancelReason !== undefined) return { isAdded: false }
    turn.values = withValue(turn.values, key, value)
    turn.bytes += value.length
    turn.ownership.wake()
    return { isAdded: true, value }
  }

  async find(turnId: string, key: string): Promise<string | undefined> {
    return findValue(this.#turns.existing(turnId).values, key)
  }

  watch(lease: Lease, key: string, signal: AbortSignal): Promise<string> {
    return this.#turns.waitFor(lease, signal, ({ values }) => findValue(values, key))
  }

  get bytes(): number {
    let sum = 0
    for (const { values } of this.#keys.values())
      for (const [, value] of values) sum += value.length
    return sum
  }

  /** Keys of all tenants, including emptied ones. */
  get queued(): number {
    return this.#queue.size
  }

  sweep(): void {
    const now = this.#now()
    for (let count = 0; count < SWEPT_PER_CALL; count++) {
      const stored = this.#queue.takeExpired(now)
      if (stored === undefined) return
      stored.values = liveValues(stored.values, now)
      if (stored.values.length === 0) stored.remove()
      else this.#queue.add(stored, lastExpiry(stored.values))
    }
  }

  #live(key: string): ExpiringValue[] {
    return liveValues(this.#keys.get(key)?.values ?? [], this.#now())
  }
}
