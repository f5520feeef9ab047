import { type Clock, monotonicNow } from '../async/clock.ts'

/** Before that nobody wonders, and a line that comes and goes more often cannot be read. */
const EVERY_MS = 200

/** Passes on what there is to tell, a few times in a second; what is not told is not made either. */
export function atTimes(clock: Clock, tell: (text: string) => void): (say: () => string) => void {
  let last = monotonicNow(clock)
  return (say) => {
    if (monotonicNow(clock) - last < EVERY_MS) return
    last = monotonicNow(clock)
    tell(say())
  }
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`
}
