import { monotonicNow } from '../../async/clock.ts'
import type { Terminal } from '../terminal.ts'
import type { Journal } from './journal.ts'

const EVERY_MS = 1000

/** Time services slew by less than a millisecond in a second; more than this was set. */
const STEP_MS = 500

/** Warns when the time of day was set while the server runs. Nothing but timestamps follows it. */
export function watchClock({
  journal,
  terminal: { clock },
}: {
  readonly journal: Journal
  readonly terminal: Pick<Terminal, 'clock'>
}): () => void {
  const offset = () => clock.now() - monotonicNow(clock)
  let before = offset()
  let cancel: () => void
  const look = () => {
    const now = offset()
    const stepMs = Math.round(now - before)
    if (Math.abs(stepMs) >= STEP_MS) {
      const direction = stepMs > 0 ? 'forward' : 'back'
      journal.warn(`the system clock was set ${direction} by ${Math.abs(stepMs)} ms`)
    }
    before = now
    cancel = clock.after(EVERY_MS, look)
  }
  cancel = clock.after(EVERY_MS, look)
  return () => cancel()
}
