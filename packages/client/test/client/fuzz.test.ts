/**
 * A client behind a network that does everything wrong, against the gateway itself. Whatever happens, the client ends
 * with what a reader sees that loads the thread afterwards.
 */

import { deepStrictEqual, ok } from 'node:assert/strict'
import { expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { forSeeds, type Random } from '../../../conformance/src/turn-log/random.ts'
import type { Clock } from '../../../core/src/index.ts'
import {
  createGateway,
  type Gateway,
  MemoryLog,
  Providers,
} from '../../../turnstream/src/server.ts'
import { HeldProvider } from '../../../turnstream/test/server/held-provider.ts'
import { UNLIMITED } from '../../../turnstream/test/server/unlimited.ts'
import { apply, createClient, EMPTY_VIEW, type TurnView } from '../../src/index.ts'
import { FakePage } from './support.ts'

const URL = 'http://gateway'

function startGateway() {
  const held = new HeldProvider()
  const provider = { provider: held, models: ['m'], defaultModel: 'm' }
  const gateway = createGateway({
    ...{ log: new MemoryLog(), owner: 'test', limits: UNLIMITED, shutdownGraceMs: 0 },
    providers: new Providers([provider]),
  })
  return { gateway, held }
}

/** A network with a number of faults left. Without faults it is perfect, so that everything ends. */
class Network {
  faults: number
  validToken = 0
  readonly #random: Random
  readonly #gateway: Gateway
  readonly #clock: Clock

  constructor(random: Random, gateway: Gateway, clock: Clock) {
    this.#random = random
    this.#gateway = gateway
    this.#clock = clock
    this.faults = random.below(14)
  }

  /** A token that was just refreshed would be refused for good. */
  expireToken(): void {
    if (this.#isFaulty(10)) this.validToken += 1
  }

  #isFaulty(oneIn: number): boolean {
    if (this.faults === 0 || !this.#random.oneIn(oneIn)) return false
    this.faults -= 1
    return true
  }

  readonly fetch: typeof fetch = async (input, init = {}) => {
    ok(typeof input === 'string')
    if (this.#isFaulty(8)) throw new TypeError('Load failed')
    if (this.#isFaulty(10)) {
      const status = this.#random.pick([408, 429, 500, 502, 503])
      const headers = this.#random.oneIn(2) ? { 'retry-after': '2' } : {}
      return new Response('<html>busy</html>', { status, headers })
    }
    const token = new Headers(init.headers).get('authorization')
    if (token !== `Bearer ${this.validToken}`) return new Response('{}', { status: 401 })
    const response = await this.#gateway.app.request(input, init)
    // The response to something that has happened.
    if (this.#isFaulty(10)) {
      await response.body?.cancel()
      throw new TypeError('Load failed')
    }
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
    return isStream ? this.#throughProxy(response, init.signal ?? undefined) : response
  }

  /** Splits, delays, buffers, repeats and cuts. */
  #throughProxy(response: Response, signal: AbortSignal | undefined): Response {
    const reader = response.body?.getReader()
    const isBuffering = this.#isFaulty(6)
    let left = this.#isFaulty(2) ? this.#random.below(4000) : Infinity
    let buffered: Uint8Array[] = []
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        signal?.addEventListener('abort', () => {
          void reader?.cancel()
          controller.error(signal.reason)
        })
      },
      pull: async (controller) => {
        for (;;) {
          const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
          if (signal?.aborted) return
          if (!done) buffered.push(value)
          // As a proxy does that waits for more, or for the end.
          if (isBuffering && !done && buffered.length < 5) continue
          for (const chunk of buffered.splice(0)) {
            const repeated = this.#isFaulty(20) ? [chunk, chunk] : [chunk]
            for (const each of repeated.flatMap((bytes) => this.#split(bytes))) {
              controller.enqueue(each.subarray(0, Math.max(0, left)))
              left -= each.length
            }
          }
          buffered = []
          if (left <= 0) {
            void reader?.cancel()
            controller.error(new TypeError('Load failed'))
          } else if (done) controller.close()
          else if (this.#isFaulty(15)) await this.#delay()
          return
        }
      },
      cancel: () => reader?.cancel(),
    })
    return new Response(body, { headers: response.headers })
  }

  #split(bytes: Uint8Array): Uint8Array[] {
    const at = this.#random.below(bytes.length + 1)
    return [bytes.subarray(0, at), bytes.subarray(at)].filter(({ length }) => length > 0)
  }

  #delay(): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.after(this.#random.below(40_000), resolve)
    })
  }
}

/** A clock whose time of day jumps. */
function jumpingClock(clock: Clock) {
  let shift = 0
  const jumping: Clock = {
    now: () => clock.now() + shift,
    monotonic: () => clock.now(),
    after: (ms, task) => clock.after(ms, task),
  }
  return { jumping, jump: (ms: number) => (shift += ms) }
}

/** Fails when text of an open item becomes shorter. */
function checkGrowth(before: Map<string, string>, turns: readonly TurnView[]): void {
  for (const item of turns.flatMap(({ items }) => items)) {
    const known = before.get(item.itemId) ?? ''
    const isFinal = item.status === 'complete' || item.status === 'error'
    ok(isFinal || item.content.startsWith(known), `${item.itemId} went back: ${item.content}`)
    before.set(item.itemId, item.content)
  }
}

interface LoadedThread {
  readonly turns: readonly { readonly outputs: readonly Parameters<typeof apply>[1][] }[]
}

async function loadThread(gateway: Gateway, threadId: string): Promise<readonly TurnView[]> {
  const response = await gateway.app.request(`${URL}/xapi/threads/${threadId}`)
  const { turns } = (await response.json()) as LoadedThread
  return turns.flatMap(({ outputs }) => outputs).reduce(apply, EMPTY_VIEW).turns
}

/** Two turns of one thread, followed as turns and as a thread. */
async function runSchedule(random: Random, { gateway, held }: ReturnType<typeof startGateway>) {
  const clock = fakeClock(1_000_000)
  const { jumping, jump } = jumpingClock(clock)
  const page = new FakePage()
  const network = new Network(random, gateway, clock)
  const client = createClient({
    ...{ baseUrl: URL, fetch: network.fetch, clock: jumping, page, token: '0' },
    random: () => random.below(1000) / 1000,
    onAuth: () => String(network.validToken),
  })
  const threadId = `h${random.seed}`
  const texts = new Map<string, string>()
  const thread = client.thread(threadId)
  const leave = thread.subscribe(() => checkGrowth(texts, thread.getSnapshot().turns))

  const step = async () => {
    if (random.oneIn(10)) page.hidden = !page.hidden
    if (random.oneIn(8)) page.wake()
    if (random.oneIn(12)) jump(random.below(200_000) - 100_000)
    network.expireToken()
    await clock.advance(random.below(3000))
    page.draw()
  }
  const until = async (isReached: () => boolean, what: string) => {
    for (let count = 0; !isReached(); count++) {
      if (count === 3000) throw new Error(`never reached: ${what}`)
      await step()
    }
  }

  for (let at = 0; at < 2; at++) {
    const calls = held.calls.length
    const turn = client.submit({ prompt: `Prompt ${at}`, threadId, model: 'held/m' })
    const own = new Map<string, string>()
    const unsubscribe = turn.subscribe(() => {
      const { turn: view } = turn.getSnapshot()
      if (view !== undefined) checkGrowth(own, [view])
    })
    await until(() => held.calls.length > calls, 'the provider is called')
    const call = held.calls.at(-1)
    const words = random.below(12)
    for (let word = 0; word < words; word++) {
      call?.say(`${random.below(1e9)} ${'é漢😀 '.repeat(random.below(60))}`)
      if (random.oneIn(2)) await step()
    }
    call?.finish()
    page.hidden = false
    await until(() => turn.getSnapshot().connection.status === 'ended', 'the turn has ended')
    const isShown = ({ turnId, status }: TurnView) =>
      turnId === turn.turnId && status === 'complete'
    await until(() => thread.getSnapshot().turns.some(isShown), 'the thread shows the end')
    const loaded = await loadThread(gateway, threadId)
    deepStrictEqual(thread.getSnapshot().turns, loaded)
    deepStrictEqual(turn.getSnapshot().turn, loaded.at(-1))
    unsubscribe()
  }
  leave()
  await clock.advance(40_000)
  page.draw()
  deepStrictEqual([clock.pending(), page.listeners.size, page.frames.size], [0, 0, 0])
  held.calls.length = 0
  return network
}

async function fuzz(first: number, count: number): Promise<number> {
  const served = startGateway()
  let ran = 0
  await forSeeds(first, count, async (random) => {
    await runSchedule(random, served)
    ran += 1
  })
  await served.gateway.close()
  return ran
}

test('100 random schedules of cuts, delays, repeats, refusals, tokens and clock jumps', async () => {
  expect(await fuzz(1, 100)).toBe(100)
}, 60_000)

// FUZZ_SCHEDULES=10000 tries more.
const MORE = Number(process.env['FUZZ_SCHEDULES'] ?? 1000)

test(`${MORE} of them`, { tags: ['slow'], timeout: 1_800_000 }, async () => {
  for (let first = 0; first < MORE; first += 500) {
    const count = Math.min(500, MORE - first)
    expect(await fuzz(1000 + first, count)).toBe(count)
  }
})
