/**
 * Fails a test file that leaves a socket, server, child process or timer behind: what outlives its owner in a
 * test does so in production. Handles that do not keep the process alive are not counted.
 */
import { afterAll } from 'vitest'

const WATCHED = ['TCPSocketWrap', 'TCPServerWrap', 'ProcessWrap', 'Timeout', 'FSEvent', 'UDPWrap']

/** Handles close in the ticks after their owner let go of them. */
const SETTLE_MS = 5000

const before = count()

afterAll(async () => {
  await closeIdleFetches()
  const until = performance.now() + SETTLE_MS
  let left = leftovers()
  while (left.length > 0 && performance.now() < until) {
    // Unreferenced, so that it is not counted itself.
    await new Promise((resolve) => setTimeout(resolve, 20).unref())
    left = leftovers()
  }
  if (left.length > 0) throw new Error(`outlived the tests of this file: ${left.join(', ')}`)
}, 2 * SETTLE_MS)

function count(): Map<string, number> {
  const counts = new Map<string, number>()
  for (const type of process.getActiveResourcesInfo()) {
    counts.set(type, (counts.get(type) ?? 0) + 1)
  }
  return counts
}

function leftovers(): string[] {
  const now = count()
  return WATCHED.flatMap((type) => {
    const more = (now.get(type) ?? 0) - (before.get(type) ?? 0)
    return more > 0 ? [`${more} ${type}`] : []
  })
}

/** Closes the connections that `fetch` keeps for its next call. Later files in this process get a new pool. */
async function closeIdleFetches(): Promise<void> {
  const key = Symbol.for('undici.globalDispatcher.1')
  const dispatcher = Reflect.get(globalThis, key) as Dispatcher | undefined
  if (dispatcher === undefined) return
  Reflect.set(globalThis, key, new dispatcher.constructor())
  await dispatcher.destroy()
}

interface Dispatcher {
  readonly constructor: new () => Dispatcher
  destroy(): Promise<void>
}
