import type { TurnLog } from '../log/turn-log.ts'
import { endOrphan, type OrphanOptions } from './end-orphan.ts'

export interface OrphansOptions extends OrphanOptions {
  /** At most so many turns are looked at. */
  readonly limit: number
  /** Told of a turn that could not be ended now; the others are ended none the less. */
  readonly onError?: (error: unknown, turnId: string) => void
}

/** Ends the turns whose lease ran out, and answers how many this call has ended. */
export async function endOrphans(log: TurnLog, options: OrphansOptions): Promise<number> {
  let ended = 0
  for (const turnId of await log.expired(options.limit)) {
    try {
      if ((await endOrphan(log, turnId, options)) === 'ended') ended += 1
    } catch (error) {
      options.onError?.(error, turnId)
    }
  }
  return ended
}
