/** V14: turns that are replaced while a client follows their thread. */

import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import {
  finishedTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { createClient } from '../../src/index.ts'

/** A thread with more turns than a page has: 0 to 24. */
async function longThread(): Promise<TestServer> {
  const server = await startServer()
  for (let at = 0; at < 25; at++) await replacing(server, `${at}`)
  return server
}

function replacing(server: TestServer, turnId: string, replaces?: string) {
  const body = { threadId: 'h', turnId, model: 'plain/m' }
  return finishedTurn(server, replaces === undefined ? body : { ...body, replaces })
}

/** Opens the thread, and waits for its newest page. */
async function follow(server: TestServer, onFetch: () => void = () => {}) {
  const cuts: AbortController[] = []
  const client = createClient({
    ...{ baseUrl: server.url, random: () => 0 },
    fetch(input, init) {
      onFetch()
      const cut = new AbortController()
      cuts.push(cut)
      return fetch(input, {
        ...init,
        signal: AbortSignal.any([cut.signal, init?.signal ?? cut.signal]),
      })
    },
  })
  const thread = client.thread('h')
  const unsubscribe = thread.subscribe(() => {})
  const ids = () => thread.getSnapshot().turns.map(({ turnId }) => turnId)
  await eventually(() => {
    expect(ids()).toHaveLength(20)
    expect(thread.getSnapshot().connection.status).toBe('live')
  })
  const cut = () => {
    for (const each of cuts.splice(0)) each.abort()
  }
  return { thread, ids, unsubscribe, cut }
}

describe('V14 a turn that replaces one which the client never loaded', () => {
  test('drops all later turns, which are those that it shows', async () => {
    const server = await longThread()
    const { thread, ids, unsubscribe } = await follow(server)
    await replacing(server, 'again', '2')
    await eventually(() => expect(ids()).toEqual(['0', '1', 'again']))
    expect(thread.getSnapshot().hasOlder).toBe(false)
    unsubscribe()
  })

  test('and was itself replaced while the client was away, leaves what the gateway lists', async () => {
    const server = await longThread()
    let isOffline = false
    const { ids, cut, unsubscribe } = await follow(server, () => {
      if (isOffline) throw new TypeError('Load failed')
    })
    isOffline = true
    cut()
    await replacing(server, 'again', '20')
    await replacing(server, 'once-more', 'again')
    isOffline = false
    const left = Array.from({ length: 20 }, (_, at) => `${at}`)
    await eventually(() => expect(ids().slice(-2)).toEqual(['19', 'once-more']))
    expect(left).toEqual(expect.arrayContaining(ids().slice(0, -1)))
    unsubscribe()
  })
})
