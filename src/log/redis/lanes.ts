import { type Clock, monotonicNow } from '../../async/clock.ts'
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

interface KeptLane {
  readonly log: LogName
  readonly epoch: number
  /** A turn that was deleted may be made again. */
  readonly creation: string
  readonly lane: Lane
  /** The period in which it was last asked for. */
  usedIn: number
}

/** A lane that nobody used for so long is forgotten; a new one begins with a chunk of its own. */
const KEEP_IDLE_MS = 60_000

/** The lanes of the turns that this process writes. */
export class Lanes {
  readonly #context: LaneContext
  /** By the id of the turn, which every token brings along as it is: a longer key would have to be made. */
  readonly #lanes = new Map<string, KeptLane[]>()
  /** Counts the times at which lanes were swept, because reading the clock costs more than finding a lane. */
  #period = 0
  #sweptAt: number

  constructor(context: LaneContext) {
    this.#context = context
    this.#sweptAt = monotonicNow(context.clock)
  }

  of(lease: Lease, log: LogName): Lane {
    const { turnId, creation, epoch } = lease
    for (const kept of this.#lanes.get(turnId) ?? NONE) {
      if (kept.log !== log || kept.epoch !== epoch || kept.creation !== creation) continue
      kept.usedIn = this.#period
      return kept.lane
    }
    this.#sweep()
    const lane = this.#make(lease, log)
    const added = { log, epoch, creation, lane, usedIn: this.#period }
    this.#lanes.set(turnId, [...(this.#lanes.get(turnId) ?? NONE), added])
    return lane
  }

  /** What came before the next append of each lane may be gone. */
  interrupt(): void {
    for (const kept of this.#lanes.values()) for (const { lane } of kept) lane.interrupt()
  }

  /** Resolves when every append that was called is settled. */
  async idle(): Promise<void> {
    const all = [...this.#lanes.values()].flat()
    await Promise.all(all.map(({ lane }) => lane.idle()))
  }

  #make(lease: Lease, log: LogName): Lane {
    const { keys, calls, batches, clock, onError, settle } = this.#context
    const { turnId, runId, creation } = lease
    const sealed = async () => {
      // What is not put in order now is found by who looks next: see `Turns.expired`, `Threads.openTurn`.
      await settle(turnId).catch(onError)
    }
    const context = { creation, calls, batches, sealed, clock }
    const writer =
      log === 'events'
        ? new EventsWriter(keys.run(runId), context)
        : new ProcessedWriter(turnId, keys.turn(turnId), context)
    return new Lane(lease, log, writer)
  }

  /** Forgets, when the time has come, what was used neither in this period nor in the one before it. */
  #sweep(): void {
    const now = monotonicNow(this.#context.clock)
    if (now - this.#sweptAt < KEEP_IDLE_MS) return
    this.#sweptAt = now
    for (const [turnId, all] of this.#lanes) {
      const kept = all.filter(({ lane, usedIn }) => !lane.isIdle || usedIn >= this.#period)
      if (kept.length === 0) this.#lanes.delete(turnId)
      else if (kept.length < all.length) this.#lanes.set(turnId, kept)
    }
    this.#period += 1
  }
}

const NONE: readonly KeptLane[] = []
