/** Pages that share connections while they come, go and freeze, over a channel that keeps the order of each sender only. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, onTestFinished, test, vi } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { Random } from '../../../conformance/src/turn-log/random.ts'
import {
  finishedTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { currentClock } from '../../src/client/page.ts'
import { createClient } from '../../src/index.ts'
import { shareConnections } from '../../src/share.ts'
import { TestLocks } from './support.ts'

/** Runs the tasks of a page in order, and none while the page is frozen. */
class Tasks {
  isFrozen = false
  readonly #waiting: (() => void)[] = []

  run(task: () => void): void {
    if (this.isFrozen) this.#waiting.push(task)
    else task()
  }

  thaw(): void {
    this.isFrozen = false
    for (const task of this.#waiting.splice(0)) task()
  }
}

/** The page that runs. */
const running = new AsyncLocalStorage<Tasks>()

/** A BroadcastChannel whose messages take a random time, in the order of their sender. */
function fakeChannel(random: Random) {
  const open = new Set<Channel>()
  class Channel extends EventTarget {
    readonly name: string
    readonly #tasks = running.getStore() ?? new Tasks()
    readonly #deliveries = new Map<Channel, Promise<unknown>>()

    constructor(name: string) {
      super()
      this.name = name
      open.add(this)
    }

    postMessage(message: unknown): void {
      const data = structuredClone(message)
      for (const other of open) {
        if (other === this || other.name !== this.name) continue
        const delay = random.below(8)
        const passed = new Promise((resolve) => setTimeout(resolve, delay))
        const before = this.#deliveries.get(other)
        this.#deliveries.set(
          other,
          Promise.all([before, passed]).then(() => other.#deliver(data)),
        )
      }
    }

    #deliver(data: unknown): void {
      this.#tasks.run(() => {
        if (open.has(this)) this.dispatchEvent(new MessageEvent('message', { data }))
      })
    }

    close(): void {
      open.delete(this)
    }
  }
  return Channel
}

function openTab(server: TestServer, locks: TestLocks, threadId: string) {
  const tasks = new Tasks()
  const client = createClient({
    ...{ baseUrl: server.url, random: () => 0, share: shareConnections({ locks }) },
    clock: {
      now: () => currentClock.now(),
      after: (ms, task) => currentClock.after(ms, () => tasks.run(task)),
    },
    fetch: async (...args) => {
      const { body, status, headers } = await fetch(...args)
      const passed = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
        transform: (chunk, controller) =>
          new Promise((resolve) => {
            tasks.run(() => {
              controller.enqueue(chunk)
              resolve()
            })
          }),
      })
      return new Response(body?.pipeThrough(passed) ?? null, { status, headers })
    },
  })
  const thread = client.thread(threadId)
  let close: (() => void) | undefined
  const tab = {
    client,
    tasks,
    threadId,
    isOpen: () => close !== undefined,
    turnIds: () => thread.getSnapshot().turns.map(({ turnId }) => turnId),
    ends: () => thread.getSnapshot().turns.map(({ status }) => status),
    status: () => thread.getSnapshot().connection.status,
    subscribe() {
      close ??= running.run(tasks, () => thread.subscribe(() => {}))
    },
    unsubscribe() {
      tasks.thaw()
      close?.()
      close = undefined
    },
  }
  onTestFinished(() => tab.unsubscribe())
  return tab
}

const SEEDS = Array.from({ length: caseCount(50) }, (_, seed) => seed)

test.each(SEEDS)('five pages show the turns of each other, seed %i', async (seed) => {
  const random = new Random(seed)
  vi.stubGlobal('BroadcastChannel', fakeChannel(random))
  onTestFinished(() => {
    vi.unstubAllGlobals()
  })
  const server = await startServer()
  const threadIds = ['one', 'two', 'three']
  for (const threadId of threadIds) await finishedTurn(server, { threadId, model: 'plain/m' })
  const locks = new TestLocks()
  const tabs = Array.from({ length: 5 }, (_, at) =>
    openTab(server, locks, threadIds[Math.max(0, at - 2)] ?? ''),
  )
  const pick = () => tabs[random.below(tabs.length)] as (typeof tabs)[number]
  const submitted: Record<string, string[]> = { one: [], two: [], three: [] }
  for (const tab of tabs) tab.subscribe()
  for (let step = 0; step < 12; step++) {
    const tab = pick()
    const act = random.below(6)
    if (act === 0) tab.tasks.isFrozen = true
    else if (act === 1) tab.tasks.thaw()
    else if (act <= 3) tab.unsubscribe()
    else tab.subscribe()
    if (random.oneIn(3)) {
      const { threadId } = pick()
      const { turnId } = await finishedTurn(server, { threadId, model: 'plain/m' })
      submitted[threadId]?.push(turnId)
    }
    const pause = random.below(12)
    await new Promise((resolve) => setTimeout(resolve, pause))
  }
  for (const tab of tabs) {
    tab.tasks.thaw()
    tab.subscribe()
  }
  const show = () => {
    for (const tab of tabs) {
      expect(tab.turnIds().slice(1), tab.status()).toEqual(submitted[tab.threadId])
      expect(new Set(tab.ends())).toEqual(new Set(['complete']))
      expect(tab.status()).toBe('live')
    }
  }
  // Longer than a page waits for another, shorter than the heartbeat that would repair a page that missed something.
  await vi.waitFor(show, { timeout: 8000 })
})
