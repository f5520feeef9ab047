/** Several threads over one connection. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { SseDecoder, type SseEvent } from '../../../../core/src/index.ts'
import { call, finishedTurn, heldTurn, startServer, type TestServer } from '../support.ts'

/** Longer than every threshold of the processor, which emits it at once. */
const LONG = 'All work and no play makes a long text. '.repeat(250)

/** Reads a stream until the test ends or the test closes it. */
async function follow(server: TestServer, query: string) {
  const leave = new AbortController()
  onTestFinished(() => leave.abort())
  const url = `${server.url}/xapi/streams?${query}`
  const { status, body } = await fetch(url, { signal: leave.signal })
  expect(status).toBe(200)
  const events: SseEvent[] = []
  let isEnded = false
  const decoder = new SseDecoder()
  const read = async () => {
    for await (const bytes of body ?? []) events.push(...decoder.feed(bytes))
    isEnded = true
  }
  read().catch(() => {})
  return {
    events,
    isEnded: () => isEnded,
    close: () => leave.abort(),
    cursor: () => decoder.lastEventId,
    /** What each frame is about. */
    frames: () =>
      events.map(({ event, data }) => {
        const { threadId, type, status, reason } = JSON.parse(data)
        return [threadId, type ?? event, status ?? reason].filter(Boolean).join(' ')
      }),
  }
}

const ends = (frames: string[]) => frames.filter((frame) => frame.includes('turn_complete'))

describe('GET /xapi/streams', () => {
  test('sends the running turns of all threads and then their next ones, each with its thread', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'one', model: 'plain/m' })
    const { call: running } = await heldTurn(server, { threadId: 'two' })
    running.say(LONG)
    const { events, frames } = await follow(server, 'threads=one&threads=two&encoding=append')
    await eventually(() => expect(events.map(({ data }) => data).join('')).toContain(LONG))
    running.say(LONG)
    running.finish()
    await finishedTurn(server, { threadId: 'one', model: 'plain/m' })
    await eventually(() =>
      expect(ends(frames()).toSorted()).toEqual([
        'one turn_complete complete',
        'two turn_complete complete',
      ]),
    )
    const append = events.find(({ event }) => event === 'append')
    expect(JSON.parse(append?.data ?? '')).toMatchObject({ threadId: 'two', at: LONG.length })
    expect(frames().filter((frame) => frame.startsWith('one turn_started'))).toHaveLength(1)
  })

  test('resumes all threads with one cursor, and starts with what is new in one that is added', async () => {
    const server = await startServer()
    for (const threadId of ['one', 'two', 'three']) {
      await finishedTurn(server, { threadId, model: 'plain/m' })
    }
    const first = await follow(server, 'threads=one&threads=two')
    await eventually(() => expect(first.cursor()).not.toBe(''))
    await finishedTurn(server, { threadId: 'one', model: 'plain/m' })
    await eventually(() => expect(ends(first.frames())).toHaveLength(1))
    first.close()
    for (const threadId of ['one', 'two', 'three']) {
      await finishedTurn(server, { threadId, model: 'plain/m' })
    }
    const from = `from=${first.cursor()}`
    const second = await follow(server, `threads=two&threads=three&threads=one&${from}`)
    await eventually(() => expect(ends(second.frames()).length).toBeGreaterThanOrEqual(2))
    await finishedTurn(server, { threadId: 'three', model: 'plain/m' })
    await eventually(() =>
      expect(new Set(ends(second.frames()))).toEqual(
        new Set(['one', 'two', 'three'].map((threadId) => `${threadId} turn_complete complete`)),
      ),
    )
    const count = (start: string) => second.frames().filter((each) => each.startsWith(start)).length
    expect([count('two turn_started'), count('three turn_started')]).toEqual([1, 1])
  })

  test('sends a cursor at most once a second, which repeats what came after it', async () => {
    const clock = fakeClock(Date.now())
    const server = await startServer({ clock })
    const { call: running } = await heldTurn(server, { threadId: 'one' })
    const { cursor, events, close } = await follow(server, 'threads=one')
    const text = () => events.map(({ data }) => data).join('')
    running.say(LONG)
    await eventually(() => expect(text()).toContain(LONG))
    const before = cursor()
    running.say('the last words')
    running.finish()
    await eventually(() => expect(text()).toContain('turn_complete'))
    expect(cursor()).toBe(before)
    close()
    const again = await follow(server, `threads=one&from=${before}`)
    await eventually(() => expect(ends(again.frames())).toHaveLength(1))
    expect(again.events.map(({ data }) => data).join('')).toContain('the last words')
  })

  test('continues each thread from its own cursor, and then sends such cursors', async () => {
    const server = await startServer()
    const turnIds: string[] = []
    for (const threadId of ['one', 'two', 'one']) {
      turnIds.push((await finishedTurn(server, { threadId, model: 'plain/m' })).turnId)
    }
    const { json } = await call(server, 'GET /xapi/threads/one?first=oldest&limit=1')
    const [{ turnId, offset }] = json.turns
    const { events, frames } = await follow(
      server,
      `threads=one&cursors=${turnId}/${offset}&threads=two&cursors=0-0`,
    )
    await eventually(() => expect(ends(frames())).toHaveLength(2))
    expect(new Set(events.map(({ data }) => JSON.parse(data).turnId))).toEqual(
      new Set([turnIds[1], turnIds[2]]),
    )
    const last = events.find(({ data }) => data.includes('turn_complete'))
    const own = JSON.parse(last?.data ?? '')
    expect(last?.id).toMatch(new RegExp(`^${own.turnId}/1-\\d+$`))
    const again = await follow(server, `threads=${own.threadId}&cursors=${last?.id}`)
    await finishedTurn(server, { threadId: own.threadId, model: 'plain/m' })
    await eventually(() => expect(ends(again.frames())).toHaveLength(1))
  })

  test('names the threads that are unknown or deleted, and ends without any', async () => {
    const server = await startServer()
    for (const threadId of ['one', 'two']) {
      await finishedTurn(server, { threadId, model: 'plain/m' })
    }
    const { frames, isEnded } = await follow(server, 'threads=one&threads=none&threads=two')
    await eventually(() => expect(frames()).toEqual(['none gone']))
    await call(server, 'DELETE /api/v2/threads/one')
    await eventually(() => expect(frames()).toEqual(['none gone', 'one gone']))
    expect(isEnded()).toBe(false)
    await call(server, 'DELETE /api/v2/threads/two')
    await eventually(() => expect(isEnded()).toBe(true))
    const { status, json } = await call(server, 'GET /xapi/streams?threads=one')
    expect([status, json.error.code]).toEqual([404, 'THREAD_UNKNOWN'])
  })

  test('tells a cursor of a deleted turn from one of this thread', async () => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'one', model: 'plain/m' })
    const { cursor, close } = await follow(server, 'threads=one')
    await eventually(() => expect(cursor()).not.toBe(''))
    close()
    await call(server, 'DELETE /api/v2/threads/one')
    await finishedTurn(server, { threadId: 'one', model: 'plain/m' })
    const { frames } = await follow(server, `threads=one&from=${cursor()}`)
    await eventually(() => expect(frames()[0]).toBe('one resync foreign'))
  })

  test.each([
    ['no thread', '', 'REQUEST_INVALID'],
    ['an empty id', 'threads=', 'REQUEST_INVALID'],
    [
      '33 threads',
      Array.from({ length: 33 }, (_, at) => `threads=h${at}`).join('&'),
      'REQUEST_INVALID',
    ],
    ['another cursor', 'threads=one&from=one/1-2', 'CURSOR_INVALID'],
    ['a cursor of all threads in place of one', 'threads=one&cursors=W10', 'CURSOR_INVALID'],
    ['fewer cursors than threads', 'threads=one&threads=two&cursors=0-0', 'CURSOR_INVALID'],
    ['more cursors than threads', 'threads=one&cursors=0-0&cursors=0-0', 'CURSOR_INVALID'],
    [
      'a cursor with a line break',
      `threads=one&from=${Buffer.from('[["one","a\\nb"]]').toString('base64url')}`,
      'CURSOR_INVALID',
    ],
    [
      'a cursor with a wrong offset',
      `threads=one&from=${Buffer.from('[["one","t","x"]]').toString('base64url')}`,
      'CURSOR_INVALID',
    ],
  ])('refuses %s', async (_name, query, code) => {
    const server = await startServer()
    await finishedTurn(server, { threadId: 'one', model: 'plain/m' })
    const { status, json } = await call(server, `GET /xapi/streams?${query}`)
    expect([status, json.error.code]).toEqual([400, code])
  })

  test('counts each of its threads as a stream of the key', async () => {
    const server = await startServer({ limits: { maxOpenStreams: 3 } })
    for (const threadId of ['one', 'two']) {
      await finishedTurn(server, { threadId, model: 'plain/m' })
    }
    const first = await follow(server, 'threads=one&threads=two&threads=one')
    const { status, json } = await call(server, 'GET /xapi/streams?threads=one&threads=two')
    expect([status, json.error.code]).toEqual([429, 'STREAMS_LIMITED'])
    first.close()
    await eventually(async () => {
      const query = 'threads=one&threads=two&threads=none'
      const { close } = await follow(server, query)
      close()
    })
  })

  test('a slow reader gets the end of every thread when it reads on', async () => {
    const server = await startServer()
    const threadIds = ['one', 'two', 'three', 'four']
    const turns = []
    for (const threadId of threadIds) turns.push(await heldTurn(server, { threadId }))
    const query = threadIds.map((threadId) => `threads=${threadId}`).join('&')
    const response = await server.gateway.app.request(`/xapi/streams?${query}&encoding=append`)
    const reader = response.body?.getReader()
    for (const turn of turns) {
      // More than is buffered for a client.
      for (let count = 0; count < 20; count++) turn.call.say(LONG)
      turn.call.finish()
    }
    const decoder = new SseDecoder()
    const ended = new Set<string>()
    while (ended.size < threadIds.length) {
      const { value } = (await reader?.read()) ?? {}
      for (const { data } of decoder.feed(value ?? new Uint8Array())) {
        const { type, threadId } = JSON.parse(data)
        if (type === 'turn_complete') ended.add(threadId)
      }
    }
    await reader?.cancel()
    expect([...ended].toSorted()).toEqual(threadIds.toSorted())
  })
})
