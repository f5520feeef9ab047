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
  const [older, newer] = [dispatcherKey(1), dispatcherKey(2)]
  const wrapper = dispatcherAt(older)
  // Newer versions of Node keep an agent here, and a wrapper of it in the older place.
  const agent = dispatcherAt(newer) ?? wrapper
  if (agent === undefined) return
  const fresh = new agent.constructor()
  Reflect.set(globalThis, agent === wrapper ? older : newer, fresh)
  if (wrapper && agent !== wrapper) {
    Reflect.set(globalThis, older, new wrapper.constructor(fresh))
  }
  await agent.destroy()
}

function dispatcherKey(version: number): symbol {
  return Symbol.for(`undici.globalDispatcher.${version}`)
}

function dispatcherAt(key: symbol): Dispatcher | undefined {
  return Reflect.get(globalThis, key) as Dispatcher | undefined
}

interface Dispatcher {
  readonly constructor: new (wrapped?: Dispatcher) => Dispatcher
  destroy(): Promise<void>
}
