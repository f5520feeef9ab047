/** Pages that share a connection, over real BroadcastChannels. */

import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { Random } from '../../../conformance/src/turn-log/random.ts'
import {
  finishedTurn,
  heldTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { type ClientOptions, createClient, type Live } from '../../src/index.ts'
import { type ShareOptions, shareConnections } from '../../src/share.ts'
import { FakePage, TestLocks } from './support.ts'

afterEach(() => {
  vi.unstubAllGlobals()
})

/** Longer than every threshold of the processor, which emits it at once. */
const LONG = 'All work and no play makes a long text. '.repeat(250)

interface PageOptions extends ClientOptions {
  readonly sharing?: ShareOptions
}

/** A page of the browser whose locks these are. */
function openPage(server: TestServer, { sharing, ...options }: PageOptions) {
  const requests: string[] = []
  const client = createClient({
    ...{ baseUrl: server.url, random: () => 0, share: shareConnections(sharing) },
    fetch(input, init) {
      const { pathname, search } = new URL(typeof input === 'string' ? input : '')
      requests.push(`${init?.method} ${pathname}${search}`)
      return fetch(input, init)
    },
    ...options,
  })
  return { client, requests }
}

/** A page that follows the thread `h`. */
function openThread(server: TestServer, options: PageOptions) {
  const page = openPage(server, options)
  const thread = page.client.thread('h')
  return {
    ...page,
    thread,
    ...watch(thread),
    text: () => textOf(thread.getSnapshot().turns.at(-1)),
  }
}

function watch(live: Live<unknown>) {
  const close = live.subscribe(() => {})
  onTestFinished(close)
  return { close }
}

function textOf(turn: { readonly items: readonly { readonly content: string }[] } | undefined) {
  return turn?.items[1]?.content
}

/** A network that loses submits. */
const withoutSubmits: typeof fetch = (input, init) =>
  typeof input === 'string' && input.endsWith('/submit')
    ? new Promise((_, reject) => {
        init?.signal?.addEventListener('abort', () => reject(new TypeError('Load failed')))
      })
    : fetch(input, init)

async function holdTurn(server: TestServer) {
  return heldTurn(server, { threadId: 'h' })
}

describe('two pages', () => {
  test('use one connection, and the second one gets everything so far', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    const { call } = await holdTurn(server)
    call.say(LONG)
    const first = openThread(server, { sharing })
    await eventually(() => expect(first.text()).toBe(LONG))
    const second = openThread(server, { sharing })
    await eventually(() => expect(second.text()).toBe(LONG))
    call.say(LONG)
    await eventually(() => {
      expect(second.text()).toBe(LONG + LONG)
      expect(first.text()).toBe(LONG + LONG)
    })
    expect(second.thread.getSnapshot().connection).toEqual({ status: 'live' })
    call.finish()
    await eventually(() => expect(second.thread.getSnapshot().turns[0]?.status).toBe('complete'))
    expect(second.thread.getSnapshot()).toEqual(first.thread.getSnapshot())
    expect(first.requests).toHaveLength(2)
    expect(second.requests).toEqual([])
  })

  test('continue without the first one, from the cursor of the second', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    const { call, turnId } = await holdTurn(server)
    call.say(LONG)
    const first = openThread(server, { sharing })
    await eventually(() => expect(first.text()).toBe(LONG))
    const second = openThread(server, { sharing })
    await eventually(() => expect(second.text()).toBe(LONG))
    first.close()
    call.say(LONG)
    await eventually(() => expect(second.text()).toBe(LONG + LONG))
    const cursor = encodeURIComponent(`${turnId}/1-`)
    expect(second.requests).toEqual([
      expect.stringMatching(
        new RegExp(`/xapi/streams\\?&encoding=append&threads=h&cursors=${cursor}\\d+$`),
      ),
    ])
    expect(second.thread.getSnapshot().connection).toEqual({ status: 'live' })
    // It goes on for those that come back, too.
    const third = openThread(server, { sharing })
    await eventually(() => expect(third.text()).toBe(LONG + LONG))
    expect(third.requests).toEqual([])
    call.finish()
  })

  test('a turn is stopped from the one without the connection', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    const { call, turnId } = await holdTurn(server)
    call.say(LONG)
    const pages = [openThread(server, { sharing }), openThread(server, { sharing })]
    await eventually(() => expect(pages.map(({ text }) => text())).toEqual([LONG, LONG]))
    const follower = pages.find(({ requests }) => requests.length === 0)
    await follower?.client.cancel(turnId)
    await eventually(() => {
      for (const { thread } of pages) expect(thread.getSnapshot().turns[0]?.status).toBe('aborted')
    })
    expect(follower?.requests).toEqual([`POST /api/v2/runs/${turnId}/cancel`])
  })

  test('a turn that one of them submits is shown by both', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const sharing = { locks: new TestLocks() }
    const pages = [openThread(server, { sharing }), openThread(server, { sharing })]
    await eventually(() => {
      for (const { thread } of pages) expect(thread.getSnapshot().turns).toHaveLength(1)
    })
    const follower = pages.find(({ requests }) => requests.length === 0)
    follower?.client.submit({ prompt: 'Again', threadId: 'h', model: 'plain/m' })
    expect(follower?.thread.getSnapshot().turns[1]?.items[0]?.content).toBe('Again')
    await eventually(() => {
      for (const { thread } of pages) {
        expect(thread.getSnapshot().turns[1]?.status).toBe('complete')
      }
    })
  })

  test('a turn that is not stored yet is shown by the page that submits it', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const sharing = { locks: new TestLocks() }
    const offline = { sharing, fetch: withoutSubmits }
    const first = openThread(server, offline)
    await eventually(() => expect(first.thread.getSnapshot().turns).toHaveLength(1))
    const other = first.client.submit({ prompt: 'Of the first', threadId: 'h', model: 'plain/m' })
    const second = openPage(server, offline).client
    const submitted = second.submit({ prompt: 'Of the second', threadId: 'h', model: 'plain/m' })
    const thread = second.thread('h')
    watch(thread)
    await eventually(() => expect(thread.getSnapshot().turns).toHaveLength(2))
    const texts = thread.getSnapshot().turns.map(({ items }) => items[0]?.content)
    expect(texts[1]).toBe('Of the second')
    expect(first.thread.getSnapshot().turns[1]?.items[0]?.content).toBe('Of the first')
    await Promise.all([first.client.cancel(other.turnId), second.cancel(submitted.turnId)])
    expect(thread.getSnapshot().turns[1]?.status).toBe('aborted')
  })

  test('end with the turn that they follow, and nothing is left', async () => {
    const server = await startServer()
    const locks = new TestLocks()
    const clock = fakeClock(Date.now())
    const { call, turnId } = await holdTurn(server)
    const pages = [1, 2].map(() => openPage(server, { sharing: { locks }, clock }))
    const turns = pages.map(({ client }) => client.turn(turnId))
    const ends = turns.map((turn) => turn.done())
    await eventually(() => {
      for (const turn of turns) expect(turn.getSnapshot().turn).toBeDefined()
    })
    call.say(LONG)
    call.finish()
    const [one, other] = await Promise.all(ends)
    expect(one?.turn?.items[1]?.content).toBe(LONG)
    expect(other).toEqual(one)
    // The lock may be released before the last frames are delivered: then the other page asks, and gets 204.
    expect(pages.flatMap(({ requests }) => requests).length).toBeLessThanOrEqual(2)
    await eventually(() => expect([locks.pending, clock.pending()]).toEqual([0, 0]))
  })

  test('change roles when the connection of the first one went silent', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    const clock = fakeClock(Date.now())
    const { call } = await holdTurn(server)
    call.say(LONG)
    let isStalled = false
    const stalling: typeof fetch = async (...args) => {
      const { body, status, headers } = await fetch(...args)
      const passed = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
        transform(chunk, controller) {
          if (!isStalled) controller.enqueue(chunk)
        },
      })
      return new Response(body?.pipeThrough(passed) ?? null, { status, headers })
    }
    const page = new FakePage()
    const first = openThread(server, { sharing, clock, page, fetch: stalling })
    await eventually(() => {
      page.draw()
      expect(first.text()).toBe(LONG)
    })
    // Nobody watches the connection of a hidden page, which may not be told that it is hidden.
    page.hidden = true
    const second = openThread(server, { sharing, clock })
    await eventually(() => expect(second.text()).toBe(LONG))
    isStalled = true
    call.say(LONG)
    await clock.advance(30_000)
    await eventually(async () => {
      await clock.advance(1)
      expect([first.text(), second.text()].map((text) => text === LONG + LONG)).toEqual([
        true,
        true,
      ])
    })
    expect(second.requests).toHaveLength(1)
    call.finish()
  })

  test('change roles when the page with the connection is hidden', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    const { call } = await holdTurn(server)
    call.say(LONG)
    const page = new FakePage()
    const first = openThread(server, { sharing, page })
    const firstText = () => {
      page.draw()
      return first.text()
    }
    await eventually(() => expect(firstText()).toBe(LONG))
    const second = openThread(server, { sharing })
    await eventually(() => expect(second.text()).toBe(LONG))
    page.hide()
    call.say(LONG)
    await eventually(() => expect(second.text()).toBe(LONG + LONG))
    expect(first.text()).toBe(LONG)
    page.show()
    await eventually(() => expect(firstText()).toBe(LONG + LONG))
    expect([first.requests.length, second.requests.length]).toEqual([2, 1])
    call.finish()
  })

  test('load older turns each for itself', async () => {
    const server = await startServer()
    for (let at = 0; at < 22; at++) await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const sharing = { locks: new TestLocks() }
    const pages = [openThread(server, { sharing }), openThread(server, { sharing })]
    await eventually(() => {
      for (const { thread } of pages) expect(thread.getSnapshot().turns).toHaveLength(20)
    })
    const follower = pages.find(({ requests }) => requests.length === 0)
    expect(follower?.thread.getSnapshot().hasOlder).toBe(true)
    await follower?.thread.loadOlder()
    expect(follower?.thread.getSnapshot()).toMatchObject({ hasOlder: false })
    expect(follower?.thread.getSnapshot().turns).toHaveLength(22)
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    await eventually(() => expect(follower?.thread.getSnapshot().turns).toHaveLength(23))
    // A page that comes back asks the other one, which has loaded fewer.
    follower?.close()
    await eventually(() => expect(follower?.thread.getSnapshot().connection.status).toBe('idle'))
    const before = follower?.thread.getSnapshot().turns ?? []
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    if (follower !== undefined) watch(follower.thread)
    await eventually(() => expect(follower?.thread.getSnapshot().turns).toHaveLength(24))
    const { turns, hasOlder } = follower?.thread.getSnapshot() ?? {}
    expect(hasOlder).toBe(false)
    expect(turns?.filter((turn, at) => turn === before[at])).toHaveLength(23)
    expect(follower?.requests).toHaveLength(1)
  })
})

test.each([
  ['of another place', { frames: [], from: 'elsewhere' }],
  ['that do not fit', { frames: [{ event: 'append', data: '{"itemId":"x"}', id: 'x' }] }],
])('a page that gets frames %s asks for everything, and continues', async (_name, message) => {
  const server = await startServer()
  const locks = new TestLocks()
  const { call } = await holdTurn(server)
  call.say(LONG)
  const pages = [1, 2].map(() => openThread(server, { sharing: { locks } }))
  await eventually(() => expect(pages.map(({ text }) => text())).toEqual([LONG, LONG]))
  const follower = pages.find(({ requests }) => requests.length === 0)
  const channel = new BroadcastChannel(locks.names[0] ?? '')
  onTestFinished(() => channel.close())
  const asked = new Promise<unknown>((resolve) => {
    channel.addEventListener('message', ({ data }: MessageEvent) => {
      if (data.state !== undefined) resolve(data.state.cursor)
    })
  })
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
  const post = (sent: unknown) => channel.postMessage(sent)
  post('ask')
  const from = await asked
  post({ from, ...message })
  call.say(LONG)
  await eventually(() => expect(follower?.text()).toBe(LONG + LONG))
  expect(follower?.requests).toEqual([])
  call.finish()
})

test('a late message of a page that had the connection changes nothing', async () => {
  const server = await startServer()
  await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
  const locks = new TestLocks()
  const first = openThread(server, { sharing: { locks } })
  await eventually(() => expect(first.thread.getSnapshot().turns).toHaveLength(1))
  const pages = [1, 2].map(() => openThread(server, { sharing: { locks } }))
  const counts = pages.map(() => [0])
  for (const [at, { thread }] of pages.entries()) {
    const count = () => counts[at]?.push(thread.getSnapshot().turns.length)
    onTestFinished(thread.subscribe(count))
  }
  await eventually(() => expect(counts.map((each) => each.at(-1))).toEqual([1, 1]))
  const channel = new BroadcastChannel(locks.names[0] ?? '')
  onTestFinished(() => channel.close())
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- not a window
  const post = (sent: unknown) => channel.postMessage(sent)
  const nextState = () =>
    new Promise<unknown>((resolve) => {
      channel.addEventListener('message', ({ data }: MessageEvent) => {
        if (data.state !== undefined) resolve(data)
      })
      post('ask')
    })
  const late = await nextState()
  first.close()
  await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
  await eventually(() => expect(counts.map((each) => each.at(-1))).toEqual([2, 2]))
  post(late)
  await nextState()
  await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
  await eventually(() => expect(counts.map((each) => each.at(-1))).toEqual([3, 3]))
  for (const each of counts) expect(each).toEqual(each.toSorted((a, b) => a - b))
})

describe('a page has a connection of its own', () => {
  const checkTwoStreams = async (pages: ReturnType<typeof openThread>[]) => {
    await eventually(() => {
      for (const { thread, requests } of pages) {
        expect(thread.getSnapshot().turns).toHaveLength(1)
        expect(requests).toHaveLength(2)
      }
    })
  }

  test('for another user', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const locks = new TestLocks()
    const tokens = ['secret-of-one', 'secret-of-two']
    await checkTwoStreams(tokens.map((token) => openThread(server, { sharing: { locks }, token })))
    // One for the thread, and one for all threads.
    expect(new Set(locks.names).size).toBe(2 * tokens.length)
    for (const name of locks.names) {
      expect(name).toContain(`${server.url}/xapi/`)
      expect(name).not.toContain('secret')
    }
  })

  test('but not for another token of the same user', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const sharing = { locks: new TestLocks(), key: 'user-1' }
    const pages = ['one', 'two'].map((token) => openThread(server, { sharing, token }))
    await eventually(() => {
      for (const { thread } of pages) expect(thread.getSnapshot().turns).toHaveLength(1)
    })
    expect(pages.flatMap(({ requests }) => requests)).toHaveLength(2)
  })

  test('for another gateway', async () => {
    const locks = new TestLocks()
    const servers = [await startServer(), await startServer()]
    for (const server of servers) await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    await checkTwoStreams(servers.map((server) => openThread(server, { sharing: { locks } })))
  })

  test.each(['locks', 'channels'])('without %s', async (missing) => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    if (missing === 'channels') vi.stubGlobal('BroadcastChannel', undefined)
    else vi.stubGlobal('navigator', {})
    const sharing = missing === 'channels' ? { locks: new TestLocks() } : {}
    await checkTwoStreams([openThread(server, { sharing }), openThread(server, { sharing })])
  })

  test('when it may not use locks', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const locks = { request: () => Promise.reject(new DOMException('Denied', 'SecurityError')) }
    const sharing = { locks }
    await checkTwoStreams([openThread(server, { sharing }), openThread(server, { sharing })])
  })

  test('when the page with the connection does not answer for 3 s', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    const locks = new TestLocks()
    const clock = fakeClock(Date.now())
    const page = openThread(server, { sharing: { locks }, clock })
    await eventually(() => expect(locks.names).toHaveLength(2))
    page.close()
    await eventually(() => expect(locks.pending).toBe(0))
    // A page that is frozen.
    const thaw = new AbortController()
    const frozen = locks.request(locks.names[0] ?? '', thaw, () => {
      return new Promise<void>((resolve) => {
        thaw.signal.addEventListener('abort', () => resolve())
      })
    })
    const other = openThread(server, { sharing: { locks }, clock })
    await eventually(() => expect(locks.names).toHaveLength(4))
    await clock.advance(2999)
    expect(other.requests).toEqual([])
    await clock.advance(1)
    await eventually(() => expect(other.thread.getSnapshot().turns).toHaveLength(1))
    thaw.abort()
    await frozen
    await finishedTurn(server, { threadId: 'h', model: 'plain/m' })
    await eventually(() => expect(other.thread.getSnapshot().turns).toHaveLength(2))
    expect(other.requests).toHaveLength(2)
  })
})

test.each(Array.from({ length: 12 }, (_, seed) => seed))(
  'pages that come and go end with what the gateway has, seed %i',
  async (seed) => {
    const random = new Random(seed)
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    const { call } = await holdTurn(server)
    const shrunk: string[] = []
    const open = () => {
      const page = openThread(server, { sharing })
      let before = ''
      const stop = page.thread.subscribe(() => {
        const text = page.text() ?? ''
        if (!text.startsWith(before)) shrunk.push(text)
        before = text
      })
      const close = () => {
        stop()
        page.close()
      }
      onTestFinished(close)
      return { ...page, close }
    }
    const pages = [open()]
    let said = ''
    for (let step = 0; step < 12; step++) {
      if (random.oneIn(2)) pages.push(open())
      if (pages.length > 1 && random.oneIn(2))
        pages.splice(random.below(pages.length), 1)[0]?.close()
      said += LONG
      call.say(LONG)
      if (random.oneIn(2)) await eventually(() => expect(pages[0]?.text()).toBe(said))
    }
    call.finish()
    await eventually(() => {
      for (const { thread } of pages) expect(thread.getSnapshot().turns[0]?.status).toBe('complete')
    })
    for (const { text } of pages) expect(text()).toBe(said)
    expect(shrunk).toEqual([])
  },
)
