import type { Calls } from './calls.ts'
import type { RedisKeys } from './keys.ts'
import type { LeaseIndex } from './lease-index.ts'
import { REMOVE_EVENTS, REMOVE_PROCESSED } from './scripts/turn.ts'
import type { Threads } from './threads.ts'
import type { TurnRecords } from './turn-records.ts'

interface RemovalContext {
  readonly keys: RedisKeys
  readonly calls: Calls
  readonly leases: LeaseIndex
  readonly records: TurnRecords
  readonly threads: Threads
}

/** So long the owner of a deleted turn may take to notice: many times as long as its lease lasts. */
const FENCE_MS = 60 * 60 * 1000

/** Removes turns, whatever state they are in. */
export class TurnRemoval {
  readonly #context: RemovalContext

  constructor(context: RemovalContext) {
    this.#context = context
  }

  /**
   * The run first: half a turn can be removed again. Its own slot last: until then nobody makes it anew.
   * With a creation, only the turn of that one.
   */
  async remove(turnId: string, only?: string): Promise<boolean> {
    const { keys, calls, leases, records, threads } = this.#context
    const seen = await records.processed(turnId)
    if (seen === undefined) return false
    const { creation } = seen
    if (creation !== (only ?? creation)) return false
    const { runId = turnId, threadId = '' } = seen.fields
    const run = keys.run(runId)
    const turn = keys.turn(turnId)
    const ofRun = [run.meta, run.state, run.events, run.chunks, run.response, run.fence]
    const removed = await calls.run(REMOVE_EVENTS, ofRun, [creation, FENCE_MS])
    if (removed === 0) return false // made again since
    await threads.closeTurn(threadId, turnId, true)
    await leases.remove({ tenant: keys.tenant, turnId })
    const ofTurn = [turn.meta, turn.state, turn.processed, turn.items]
    await calls.run(REMOVE_PROCESSED, ofTurn, [creation])
    return true
  }
}
