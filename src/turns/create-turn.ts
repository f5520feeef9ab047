import type { Clock } from '../async/clock.ts'
import { START } from '../log/offsets.ts'
import type { Lease, NewTurn, TurnLog } from '../log/turn-log.ts'
import { type ErrorCode, hasCode } from '../protocol/errors.ts'

/** Between the ends of the two logs of a turn lies a commit of the store; this is many of them. */
const ENDING_MS = 2000

/** A turn that was removed meanwhile keeps nobody waiting. */
const GONE: readonly ErrorCode[] = ['TURN_DELETED', 'TURN_EXPIRED', 'TURN_UNKNOWN']

/**
 * Makes a turn. Whoever has read the end of an answer in the raw events may go on at once: the thread is busy until
 * the snapshots have their end as well, and that is waited for here. THREAD_BUSY while the turn before still runs.
 */
export async function createTurn(
  log: TurnLog,
  turn: NewTurn,
  leaseMs: number,
  clock: Clock,
): Promise<Lease> {
  try {
    return await log.create(turn, leaseMs)
  } catch (error) {
    if (!hasCode(error, 'THREAD_BUSY') || !(await hasEnded(log, turn.threadId, clock))) throw error
  }
  return log.create(turn, leaseMs)
}

/** Whether the last turn of a thread has come to its end, for which it may take a moment. */
async function hasEnded(log: TurnLog, threadId: string, clock: Clock): Promise<boolean> {
  const { items } = await log.listTurns(threadId, { first: 'newest', limit: 1 })
  const [last] = items
  if (last === undefined || last.sealed) return true
  if (last.status === 'in_progress') return false
  const waiting = new AbortController()
  const stopTimer = clock.after(ENDING_MS, () => waiting.abort())
  try {
    // Only its end is of interest, which is the end of the iteration.
    for await (const _ of log.tail(last.turnId, 'processed', START, waiting.signal)) continue
    return !waiting.signal.aborted
  } catch (error) {
    if (!GONE.some((code) => hasCode(error, code))) throw error
    return true
  } finally {
    stopTimer()
  }
}
