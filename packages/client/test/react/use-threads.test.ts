import type { FC } from 'react'
import { expect, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { finishedTurn, startServer } from '../../../turnstream/test/server/support.ts'
import { type Client, createClient, type ThreadList } from '../../src/index.ts'
import type { ThreadsState } from '../../src/react.ts'
import { openReactPage } from './support.ts'

// The first test loads the libraries.
vi.setConfig({ testTimeout: 60_000 })

/** Components that show the list of a client, and what the last one to render got. */
async function showThreads(client: Client, copies = 1) {
  const page = await openReactPage('newest')
  const { createElement, StrictMode } = page.React
  let state: (ThreadsState & { submit: (prompt: string) => unknown }) | undefined
  const List: FC = () => {
    const { submit } = page.hooks.useSubmit(client)
    state = { ...page.hooks.useThreads(client), submit }
    return state.threads.map(({ threadId }) => createElement('li', { key: threadId }, threadId))
  }
  const lists = Array.from({ length: copies }, (_, key) => createElement(List, { key }))
  const mounted = page.mount(createElement(StrictMode, {}, lists))
  const current = () => {
    if (state === undefined) throw new Error('not rendered yet')
    return state
  }
  await eventually(() => expect(current().isLoading).toBe(false))
  return { page, mounted, current, shown: () => current().threads.map(({ threadId }) => threadId) }
}

test('components share a list, which is loaded once and after each submit', async () => {
  const server = await startServer()
  await finishedTurn(server, { threadId: 'a', model: 'plain/m' })
  const client = createClient({ baseUrl: server.url })
  const threads = vi.spyOn(client, 'threads')
  const { current, shown, page } = await showThreads(client, 2)
  expect(shown()).toEqual(['a'])
  expect(page.text()).toBe('aa')
  expect(threads).toHaveBeenCalledTimes(1)
  current().submit('Hi')
  await eventually(() => expect(shown()).toHaveLength(2))
  expect(shown()[1]).toBe('a')
})

test('loadMore adds the next page, and refresh loads as many as are shown', async () => {
  const server = await startServer()
  const ids = Array.from({ length: 52 }, (_, at) => `t${at}`)
  for (const threadId of ids) await finishedTurn(server, { threadId, model: 'plain/m' })
  const client = createClient({ baseUrl: server.url })
  const { current, shown } = await showThreads(client)
  expect(shown()).toEqual(ids.slice(2).toReversed())
  expect(current().hasMore).toBe(true)
  // What has moved to the first page meanwhile is not listed twice.
  await finishedTurn(server, { threadId: 't0', model: 'plain/m' })
  await Promise.all([current().loadMore(), current().loadMore()])
  await eventually(() => expect(current().hasMore).toBe(false))
  expect(shown().filter((id) => id === 't1')).toHaveLength(1)
  expect(new Set(shown()).size).toBe(shown().length)
  await current().loadMore()
  await current().refresh()
  await eventually(() => expect(shown()[0]).toBe('t0'))
  expect(shown().length).toBeGreaterThanOrEqual(51)
})

test('refresh keeps all that is shown, and what is equal keeps its identity', async () => {
  const server = await startServer()
  // More than two of the largest pages.
  const ids = Array.from({ length: 410 }, (_, at) => `t${at}`)
  for (const threadId of ids) await server.log.putThread({ threadId, title: threadId })
  const client = createClient({ baseUrl: server.url })
  const { current, shown } = await showThreads(client)
  while (current().hasMore) {
    const { length } = shown()
    await current().loadMore()
    await eventually(() => expect(shown().length).toBeGreaterThan(length))
  }
  expect(new Set(shown())).toEqual(new Set(ids))
  const before = current().threads
  await current().refresh()
  await eventually(() => expect(current().isLoading).toBe(false))
  expect(current().threads).toBe(before)
  await server.log.deleteThread('t300')
  await server.log.putThread({ threadId: 't5', title: 'Another title' })
  await current().refresh()
  await eventually(() => expect(shown()).toHaveLength(ids.length - 1))
  expect(current().hasMore).toBe(false)
  expect(current().threads[0]).toMatchObject({ threadId: 't5', title: 'Another title' })
  expect(shown()).not.toContain('t300')
  const known = new Set(before)
  expect(current().threads.filter((thread) => !known.has(thread))).toHaveLength(1)
})

test('a failed load keeps the list and says why, until the next one', async () => {
  const server = await startServer()
  await finishedTurn(server, { threadId: 'a', model: 'plain/m' })
  const client = createClient({ baseUrl: server.url })
  const { current, shown } = await showThreads(client)
  const threads = vi.spyOn(client, 'threads').mockRejectedValueOnce(new TypeError('offline'))
  await current().refresh()
  await eventually(() => expect(current().error?.message).toBe('offline'))
  expect(current().isLoading).toBe(false)
  expect(shown()).toEqual(['a'])
  threads.mockRestore()
  await current().refresh()
  await eventually(() => expect(current().error).toBeUndefined())
})

test('only the newest load counts, and nothing is loaded for a list that nobody shows', async () => {
  const server = await startServer()
  await finishedTurn(server, { threadId: 'a', model: 'plain/m' })
  const client = createClient({ baseUrl: server.url })
  const { current, shown, mounted } = await showThreads(client)
  let answer: (list: ThreadList) => void = () => {}
  const late = new Promise<ThreadList>((resolve) => {
    answer = resolve
  })
  const threads = vi.spyOn(client, 'threads').mockReturnValueOnce(late)
  const older = current().refresh()
  await current().refresh()
  answer({ threads: [] })
  await older
  await eventually(() => expect(current().isLoading).toBe(false))
  expect(shown()).toEqual(['a'])
  const { submit } = current()
  mounted.unmount()
  threads.mockClear()
  await (submit('Hi') as ReturnType<Client['submit']>).accepted()
  await Promise.resolve()
  expect(threads).not.toHaveBeenCalled()
})

test('a server renders the list as loading, without a request', async () => {
  const client = createClient()
  const threads = vi.spyOn(client, 'threads')
  const { hooks, React, renderToString } = await openReactPage('newest')
  const List: FC = () => `${hooks.useThreads(client).isLoading}`
  expect(renderToString(React.createElement(List))).toBe('true')
  expect(threads).not.toHaveBeenCalled()
})
