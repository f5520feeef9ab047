import type { Clock } from '../async/clock.ts'

/** Sleeps, unless it is woken by an abort. */
export function pause(ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const wake = (): void => {
      cancel()
      signal.removeEventListener('abort', wake)
      resolve()
    }
    const cancel = clock.after(ms, wake)
    if (signal.aborted) wake()
    else signal.addEventListener('abort', wake, { once: true })
  })
}
