const TICK_MS = 5

/**
 * Measures how long this process holds the event loop while `work` runs: its CPU time between two ticks of a
 * timer, as a request that arrives at a random moment finds it on average, in ms. Other processes make ticks
 * late but add no CPU time.
 */
export async function meanHold(work: () => Promise<unknown>): Promise<number> {
  let total = 0
  let squares = 0
  let before = process.cpuUsage()
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(before)
    before = process.cpuUsage()
    const hold = (user + system) / 1000
    total += hold
    squares += hold ** 2
  }, TICK_MS)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  // A hold is met in proportion to its length.
  return squares / total
}
