import { vi } from 'vitest'
import { systemClock } from '../../../core/src/async/clock.ts'
import type { Terminal } from '../../src/cli/terminal.ts'
import { fakeTerminal } from './fake-terminal.ts'

/** A terminal whose waits for another connection are over as soon as they have begun. */
export function patientTerminal(input: Iterable<Uint8Array> = [], more: Partial<Terminal> = {}) {
  const waits: number[] = []
  // Delays of the client are random.
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const clock: Terminal['clock'] = {
    now: () => systemClock.now(),
    after(ms, task) {
      // A connection is silent for much longer than any wait between two of them.
      if (ms > LONGEST_WAIT_MS) return systemClock.after(ms, task)
      waits.push(ms)
      return systemClock.after(0, task)
    },
  }
  return { ...fakeTerminal(input, { clock, ...more }), waits }
}

const LONGEST_WAIT_MS = 4999
