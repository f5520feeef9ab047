import { ExpiryQueue } from '@turnstream/core/internal/async/expiry-queue'
import { type ExpiringValue, LocalKeyedRecords, lastExpiry, liveValues } from './keyed-records.ts'
import type { TurnAccess } from './local-log.ts'

/** Keys checked per call, so that a million expired values do not block the event loop. */
const SWEPT_PER_CALL = 100

/** A key of any tenant. It is in the queue once, until it has no values left. */
interface StoredKey {
  readonly remove: () => void
  values: readonly ExpiringValue[]
}

export class MemoryKeyedRecords extends LocalKeyedRecords {
  readonly #keys = new Map<string, StoredKey>()
  /** Shared by all tenants. */
  readonly #queue: ExpiryQueue<StoredKey>

  constructor(turns: TurnAccess, now: () => number, ofDefault?: MemoryKeyedRecords) {
    super(turns, now)
    this.#queue = ofDefault === undefined ? new ExpiryQueue<StoredKey>() : ofDefault.#queue
  }

  protected override checkOpen(): void {
    super.checkOpen()
    this.sweep()
  }

  protected override decided(key: string): readonly ExpiringValue[] {
    return this.#keys.get(key)?.values ?? []
  }

  protected override visible(key: string): readonly ExpiringValue[] {
    return this.decided(key)
  }

  protected override async replace(key: string, values: readonly ExpiringValue[]): Promise<void> {
    const stored = this.#keys.get(key)
    if (stored !== undefined) {
      // An emptied key stays until its place in the queue is reached.
      stored.values = values
      return
    }
    const added = { remove: () => this.#keys.delete(key), values }
    this.#keys.set(key, added)
    this.#queue.add(added, lastExpiry(values))
  }

  protected override async settled(): Promise<void> {}

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
    const now = this.now()
    for (let count = 0; count < SWEPT_PER_CALL; count++) {
      const stored = this.#queue.takeExpired(now)
      if (stored === undefined) return
      stored.values = liveValues(stored.values, now)
      if (stored.values.length === 0) stored.remove()
      else this.#queue.add(stored, lastExpiry(stored.values))
    }
  }
}
