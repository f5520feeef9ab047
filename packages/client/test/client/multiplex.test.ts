/** Pages whose threads all use one connection. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import {
  call,
  finishedTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { PATIENCE_MS } from '../../src/client/multiplex.ts'
import { postTo } from '../../src/client/thread-streams.ts'
import { type ClientOptions, createClient } from '../../src/index.ts'
import { type ShareOptions, shareConnections } from '../../src/share.ts'
import { FakePage, TestLocks } from './support.ts'

interface TabOptions extends ClientOptions {
  readonly sharing: ShareOptions
}

/** A tab that shows a thread. */
function openTab(server: TestServer, threadId: string, { sharing, ...options }: TabOptions) {
  const streams: string[] = []
  const client = createClient({
    ...{ baseUrl: server.url, random: () => 0, share: shareConnections(sharing) },
    fetch(input, init) {
      const { pathname, search } = new URL(typeof input === 'string' ? input : '')
      if (/\/streams?$/.test(pathname)) streams.push(pathname + search)
      return fetch(input, init)
    },
    ...options,
  })
  const thread = client.thread(threadId)
  const close = thread.subscribe(() => {})
  onTestFinished(close)
  return {
    client,
    threadId,
    streams,
    close,
    ends: () => thread.getSnapshot().turns.map(({ status }) => status),
    connection: () => thread.getSnapshot().connection,
  }
}

type Tab = ReturnType<typeof openTab>

const ask = (server: TestServer, threadId: string) =>
  finishedTurn(server, { threadId, model: 'plain/m' })

/** Tabs of one browser, each with a thread of its own that has one turn. */
async function openTabs(server: TestServer, count: number, options: Partial<TabOptions> = {}) {
  const sharing = { locks: new TestLocks(), ...options.sharing }
  const threadIds = Array.from({ length: count }, (_, at) => `thread-${at}`)
  for (const threadId of threadIds) await ask(server, threadId)
  const tabs = threadIds.map((threadId) => openTab(server, threadId, { ...options, sharing }))
  await checkShows(tabs, 1)
  return tabs
}

async function checkShows(tabs: readonly Tab[], turns: number): Promise<void> {
  const complete = Array.from({ length: turns }, () => 'complete')
  await eventually(() => {
    for (const tab of tabs) {
      expect([tab.threadId, ...tab.ends()]).toEqual([tab.threadId, ...complete])
      expect(tab.connection()).toEqual({ status: 'live', cause: undefined })
    }
  })
}

async function maxOpenStreams(server: TestServer): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`)).text()
  const lines = text.matchAll(/^turnstream_stream_clients\S* (\d+)$/gm)
  return [...lines].reduce((sum, [, count]) => sum + Number(count), 0)
}

async function checkStreams(server: TestServer, count: number): Promise<void> {
  await expect.poll(() => maxOpenStreams(server)).toBe(count)
}

describe('tabs with different threads', () => {
  test('use one connection, and show what is new in each', async () => {
    const server = await startServer()
    const tabs = await openTabs(server, 5)
    await checkStreams(server, 1)
    for (const { threadId } of tabs) await ask(server, threadId)
    await checkShows(tabs, 2)
    await checkStreams(server, 1)
    expect(tabs.flatMap(({ streams }) => streams).at(-1)).toMatch(/^\/xapi\/streams\?/)
  })

  test('go on when the one with the connection is closed', async () => {
    const server = await startServer()
    const tabs = await openTabs(server, 4)
    while (tabs.length > 1) {
      const at = tabs.findIndex(({ streams }) => streams.length > 0)
      tabs.splice(at, 1)[0]?.close()
      for (const { threadId } of tabs) await ask(server, threadId)
      await checkShows(tabs, 5 - tabs.length)
      await checkStreams(server, 1)
    }
    tabs[0]?.close()
    await checkStreams(server, 0)
  })

  test('leave the connection to the others when they are hidden', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    for (const threadId of ['a', 'b']) await ask(server, threadId)
    const page = new FakePage()
    const hidden = openTab(server, 'a', { sharing, page })
    const shown = openTab(server, 'b', { sharing })
    await checkShows([shown], 1)
    page.draw()
    page.hide()
    for (const threadId of ['a', 'b']) await ask(server, threadId)
    await checkShows([shown], 2)
    expect(hidden.ends()).toEqual(['complete'])
    expect(shown.streams.at(-1)).not.toContain('threads=a')
    page.show()
    await eventually(() => {
      page.draw()
      expect(hidden.ends()).toEqual(['complete', 'complete'])
    })
    await checkStreams(server, 1)
  })

  test('go on when one of the threads is deleted, and it ends', async () => {
    const server = await startServer()
    const [deleted, ...others] = await openTabs(server, 3)
    await call(server, `DELETE /api/v2/threads/${encodeURIComponent(deleted?.threadId ?? '')}`)
    await eventually(() =>
      expect(deleted?.connection()).toMatchObject({
        status: 'ended',
        cause: { status: 404, code: 'THREAD_UNKNOWN' },
      }),
    )
    for (const { threadId } of others) await ask(server, threadId)
    await checkShows(others, 2)
    await checkStreams(server, 1)
  })

  test('go on when one of them loses turns that were replaced', async () => {
    const server = await startServer()
    const tabs = await openTabs(server, 2)
    const [tab] = tabs
    const { turnId } = await ask(server, tab?.threadId ?? '')
    await ask(server, tab?.threadId ?? '')
    await eventually(() => expect(tab?.ends()).toHaveLength(3))
    tab?.client.submit({ prompt: 'x', threadId: tab.threadId, model: 'plain/m', replaces: turnId })
    await ask(server, tabs[1]?.threadId ?? '')
    await checkShows(tabs, 2)
    await checkStreams(server, 1)
  })

  test('wait and come back together when the gateway cuts the connection', async () => {
    const server = await startServer()
    const lost: AbortController[] = []
    const tabs = await openTabs(server, 3, {
      fetch(input, init) {
        const cut = new AbortController()
        lost.push(cut)
        const signal = AbortSignal.any([cut.signal, init?.signal ?? cut.signal])
        return fetch(input, { ...init, signal })
      },
    })
    for (const cut of lost.splice(0)) cut.abort()
    for (const { threadId } of tabs) await ask(server, threadId)
    await checkShows(tabs, 2)
    await checkStreams(server, 1)
  })
})

test.each([
  ['wanted its thread', ['0-0']],
  ['wanted its thread, and left', ['0-0', '']],
])('a tab goes on after a late message of a page that %s', async (_name, cursors) => {
  const server = await startServer()
  const locks = new TestLocks()
  const tabs = await openTabs(server, 1, { sharing: { locks } })
  const name = locks.names.find((each) => each.includes('/xapi/streams')) ?? ''
  const channel = new BroadcastChannel(name)
  onTestFinished(() => channel.close())
  for (const cursor of cursors) {
    postTo(channel, { reader: 'late', threadId: tabs[0]?.threadId, cursor })
  }
  await expect.poll(() => tabs[0]?.streams.length).toBeGreaterThan(1)
  await ask(server, tabs[0]?.threadId ?? '')
  await checkShows(tabs, 2)
})

describe('a thread has a connection of its own', () => {
  test('beyond those that one stream carries', async () => {
    const server = await startServer({ limits: { submitsPerMinute: Infinity } })
    const tabs = await openTabs(server, 34)
    await checkStreams(server, 3)
    for (const { threadId } of tabs) await ask(server, threadId)
    await checkShows(tabs, 2)
  })

  test('when their ids are too long for one URL', async () => {
    const server = await startServer()
    const sharing = { locks: new TestLocks() }
    // As long as ids may be, and longer in a URL.
    const threadIds = Array.from({ length: 12 }, (_, at) => `${'ü'.repeat(120)}${at}`)
    for (const threadId of threadIds) await ask(server, threadId)
    const tabs = threadIds.map((threadId) => openTab(server, threadId, { sharing }))
    await checkShows(tabs, 1)
    const urls = tabs.flatMap(({ streams }) => streams)
    expect(Math.max(...urls.map((url) => url.length))).toBeLessThan(6200)
    expect(await maxOpenStreams(server)).toBeGreaterThan(1)
  })

  test('when the gateway refuses the stream of all', async () => {
    const server = await startServer()
    const tabs = await openTabs(server, 2, {
      fetch: (input, init) =>
        typeof input === 'string' && input.includes('/xapi/streams')
          ? Promise.resolve(Response.json({ error: {} }, { status: 404 }))
          : fetch(input, init),
    })
    await checkStreams(server, 2)
    for (const { threadId } of tabs) await ask(server, threadId)
    await checkShows(tabs, 2)
  })

  test('when the page with the connection is frozen', async () => {
    const server = await startServer()
    const locks = new TestLocks()
    const [tab] = await openTabs(server, 1, { sharing: { locks } })
    tab?.close()
    await eventually(() => expect(locks.pending).toBe(0))
    const name = locks.names.find((each) => each.includes('/xapi/streams')) ?? ''
    const thaw = new AbortController()
    const frozen = locks.request(name, thaw, () => {
      return new Promise<void>((resolve) => {
        thaw.signal.addEventListener('abort', () => resolve())
      })
    })
    const clock = fakeClock(Date.now())
    const before = locks.names.length
    const other = openTab(server, tab?.threadId ?? '', { sharing: { locks }, clock })
    await eventually(() => expect(locks.names).toHaveLength(before + 2))
    await clock.advance(PATIENCE_MS - 1)
    expect(other.streams).toEqual([])
    await clock.advance(1)
    await checkShows([other], 1)
    expect(other.streams).toEqual([expect.stringMatching(/^\/xapi\/threads\//)])
    thaw.abort()
    await frozen
  })
})
