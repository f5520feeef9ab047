import type { Clock } from '@turnstream/core/internal/async/clock'
import type { Lease, NewTurn, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { hasCode, isTurnMissing } from '@turnstream/core/internal/protocol/errors'
import { START } from '../log/offsets.ts'
import { newestTurn } from './thread-index.ts'

/** Between the ends of a turn's two logs lies one store commit. This is enough for many. */
const ENDING_MS = 2000

/** Creates a turn, once the snapshots of the previous one have their end too. THREAD_BUSY while that one runs. */
export async function createTurnRecord(
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

async function hasEnded(log: TurnLog, threadId: string, clock: Clock): Promise<boolean> {
  const last = await newestTurn(log, threadId)
  if (last === undefined || last.sealed) return true
  if (last.status === 'in_progress') return false
  const waiting = new AbortController()
  const stopTimer = clock.after(ENDING_MS, () => waiting.abort())
  try {
    // Only the end of the iteration matters.
    for await (const _ of log.tail(last.turnId, 'processed', START, waiting.signal)) continue
    return !waiting.signal.aborted
  } catch (error) {
    // A deleted turn does not block the thread.
    if (!isTurnMissing(error)) throw error
    return true
  } finally {
    stopTimer()
  }
}
