import type { Entry } from '../../../../scripts/crash/journal.mjs'
import type { Ledger } from '../../../../scripts/crash/ledger.mjs'
import { ownTurn } from '../../../../scripts/crash/owner.mjs'
import { planTurn, TURNS_PER_THREAD } from '../../../../scripts/crash/plan.mjs'
import { Random } from '../../../../scripts/crash/random.mjs'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'

export const SEED = 'planted'
export const THREADS = 40

/** What processes leave behind that were stopped: turns of every fate, nothing lost. */
export async function leaveTurns(log: TurnLog, ledger: Ledger): Promise<void> {
  const options = {
    log,
    random: new Random(SEED),
    leaseMs: 30,
    note: (...entry: Entry) => ledger.take(entry),
    // Whoever stalls finds the turn as it was, or claimed by another, which the order of things decides.
    pause: () => Promise.resolve(),
  }
  const threads = Array.from({ length: THREADS }, async (_, thread) => {
    for (let index = 0; index < TURNS_PER_THREAD; index += 1) {
      const plan = planTurn(SEED, thread * TURNS_PER_THREAD + index)
      if (!(await ownTurn(plan, options))) return
    }
  })
  await Promise.all(threads)
}
