import { setImmediate } from 'node:timers'

export interface LoopGaps {
  /** The longest time that the event loop was held, in ms. */
  readonly longest: number
  /** How long the work took, in ms. */
  readonly total: number
}

/** Measures for how long the event loop is held while `work` runs. */
export async function loopGaps(work: () => Promise<unknown>): Promise<LoopGaps> {
  const startedAt = performance.now()
  let last = startedAt
  let longest = 0
  let isOver = false
  const probe = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    if (!isOver) setImmediate(probe)
  }
  setImmediate(probe)
  await work()
  isOver = true
  probe()
  return { longest, total: performance.now() - startedAt }
}
