import type { Clock } from '../../async/clock.ts'
import type { Lease, LogName } from '../turn-log.ts'
import type { Batches } from './batches.ts'
import type { Calls } from './calls.ts'
import { EventsWriter } from './events-writer.ts'
import type { RedisKeys } from './keys.ts'
import { Lane } from './lane.ts'
import { ProcessedWriter } from './processed-writer.ts'

interface LaneContext {
  readonly keys: RedisKeys
  readonly calls: Calls
  readonly batches: Batches
  readonly clock: Clock
  readonly onError: (error: unknown) => void
  /** A log of this turn was sealed. */
  readonly settle: (turnId: string) => Promise<void>
}

/** A lane that nobody used for so long is forgotten; a new one begins with a chunk of its own. */
const KEEP_IDLE_MS = 60_000

/** The lanes of the turns that this process writes. */
export class Lanes {
  readonly #context: LaneContext
  readonly #lanes = new Map<string, { lane: Lane; usedAt: number }>()
  #sweptAt = 0

  constructor(context: LaneContext) {
    this.#context = context
  }

  of(lease: Lease, log: LogName): Lane {
    const now = this.#context.clock.now()
    const key = `${log} ${lease.epoch} ${lease.turnId}`
    const kept = this.#lanes.get(key)
    if (kept !== undefined) {
      kept.usedAt = now
      return kept.lane
    }
    this.#sweep(now)
    const lane = this.#make(lease, log)
    this.#lanes.set(key, { lane, usedAt: now })
    return lane
  }

  /** Resolves when every append that was called is settled. */
  async idle(): Promise<void> {
    await Promise.all([...this.#lanes.values()].map(({ lane }) => lane.idle()))
  }

  #make(lease: Lease, log: LogName): Lane {
    const { keys, calls, batches, clock, onError, settle } = this.#context
    const { turnId, runId } = lease
    const sealed = async () => {
      // What is not put in order now is found by who looks next: see `Turns.expired`, `Threads.openTurn`.
      await settle(turnId).catch(onError)
    }
    const context = { calls, batches, sealed, clock }
    const writer =
      log === 'events'
        ? new EventsWriter(keys.run(runId), context)
        : new ProcessedWriter(turnId, keys.turn(turnId), context)
    return new Lane(lease, log, writer)
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < KEEP_IDLE_MS / 4) return
    this.#sweptAt = now
    for (const [key, { lane, usedAt }] of this.#lanes) {
      if (lane.isIdle && now - usedAt >= KEEP_IDLE_MS) this.#lanes.delete(key)
    }
  }
}
