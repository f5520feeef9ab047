import { logOf } from '../log/tenants.ts'
import type { Orphan, TurnLog } from '../log/turn-log.ts'
import { endOrphan, type OrphanOptions } from './end-orphan.ts'

export interface OrphansOptions extends OrphanOptions {
  /** At most so many turns are looked at. */
  readonly limit: number
  /** Whether a turn is still run by this process, which then goes on with it. */
  readonly isRunning?: (orphan: Orphan) => boolean
  /** Told of a turn that could not be ended now; the others are ended none the less. */
  readonly onError?: (error: unknown, orphan: Orphan) => void
}

/** Ends the turns of all tenants whose lease ran out, and answers how many this call has ended. */
export async function endOrphans(log: TurnLog, options: OrphansOptions): Promise<number> {
  let ended = 0
  for (const orphan of await log.orphans(options.limit)) {
    if (options.isRunning?.(orphan)) continue
    try {
      const ending = await endOrphan(logOf(log, orphan.tenant), orphan.turnId, options)
      if (ending === 'ended') ended += 1
    } catch (error) {
      options.onError?.(error, orphan)
    }
  }
  return ended
}
