import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { OpenLogs } from '../log/redis/support.ts'
import { call, finishedTurn, heldTurn, readUntil, startServer, type TestServer } from './support.ts'

const make = (server: TestServer, body: unknown) => call(server, 'POST /api/v2/threads', { body })

async function pages(server: TestServer, path: string, list: string): Promise<unknown[][]> {
  const all: unknown[][] = []
  for (let cursor: string | undefined = ''; cursor !== undefined; ) {
    const more: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const { json } = await call(server, `GET /${path}${more}`)
    all.push(json[list])
    cursor = json.nextCursor
  }
  return all
}

describe('creating a thread', () => {
  test('accepts an id, a title and metadata', async () => {
    const body = { threadId: 'thread', title: 'A', metadata: { a: [1, { b: null }] } }
    const { status, json } = await make(await startServer(), body)
    expect(status).toBe(201)
    expect(json).toMatchObject(body)
  })

  test('needs none of them, and no body', async () => {
    const server = await startServer({ generateId: () => 'made' })
    const { status, json } = await call(server, 'POST /api/v2/threads')
    expect([status, json.threadId]).toEqual([201, 'made'])
  })

  test('that exists changes nothing', async () => {
    const server = await startServer()
    const first = await make(server, { threadId: 'thread', title: 'A' })
    const second = await make(server, { threadId: 'thread', title: 'B' })
    expect(second.status).toBe(200)
    expect(second.json).toEqual(first.json)
  })

  test('stores keys with a meaning in JavaScript as plain data', async () => {
    const metadata = { constructor: 'a', prototype: { toString: 'b' }, hasOwnProperty: 'c' }
    const { status, json } = await call(await startServer(), 'POST /api/v2/threads', {
      body: { metadata },
    })
    expect([status, json.metadata]).toEqual([201, metadata])
  })
})

describe('concurrent changes of a thread', () => {
  const patch = (server: TestServer, body: unknown) =>
    call(server, 'PATCH /api/v2/threads/h', { body })

  /** With a store that takes its time to write. */
  const slowServer = async () => startServer({ log: await openLog(folderOfTest()) })

  test('create it once, and later requests get it unchanged', async () => {
    const server = await slowServer()
    const titles = ['A', 'B', 'C']
    const made = await Promise.all(titles.map((title) => make(server, { threadId: 'h', title })))
    expect(made.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 201])
    const first = made.find(({ status }) => status === 201)
    for (const { json } of made) expect(json).toEqual(first?.json)
  })

  test('to title and metadata are both stored', async () => {
    const server = await slowServer()
    await make(server, { threadId: 'h' })
    await Promise.all([patch(server, { title: 'A' }), patch(server, { metadata: { a: 1 } })])
    const { json } = await call(server, 'GET /api/v2/threads/h')
    expect([json.title, json.metadata]).toEqual(['A', { a: 1 }])
  })

  test('through two servers on one Redis are both stored', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const logs = new OpenLogs({ url: redis.url })
    onTestFinished(() => logs.close())
    const first = await startServer({ log: await logs.open() })
    const second = await startServer({ log: await logs.open() })
    await make(first, { threadId: 'h' })
    for (let round = 1; round <= 10; round++) {
      const changed = await Promise.all([
        patch(first, { title: `round ${round}` }),
        patch(second, { metadata: { round } }),
      ])
      expect(changed.map(({ status }) => status)).toEqual([200, 200])
      const { json } = await call(first, 'GET /api/v2/threads/h')
      expect([json.title, json.metadata]).toEqual([`round ${round}`, { round }])
    }
  })

  test('do not recreate it when it is deleted', async () => {
    const server = await slowServer()
    await make(server, { threadId: 'h' })
    await Promise.all([
      call(server, 'DELETE /api/v2/threads/h'),
      patch(server, { title: 'A' }),
      patch(server, { title: 'B' }),
    ])
    expect((await call(server, 'GET /api/v2/threads/h')).status).toBe(404)
  })
})

describe('listing threads', () => {
  test('is paged, newest first', async () => {
    const server = await startServer()
    for (let n = 1; n <= 5; n++) await make(server, { threadId: `t${n}` })
    const found = await pages(server, 'api/v2/threads?limit=2', 'threads')
    expect(found.map((page) => page.length)).toEqual([2, 2, 1])
    const ids = found.flat().map((thread) => (thread as { threadId: string }).threadId)
    expect(ids.toSorted()).toEqual(['t1', 't2', 't3', 't4', 't5'])
  })
})

describe('reading a thread', () => {
  test('returns its newest turns first, page by page, without internal fields', async () => {
    const server = await startServer()
    for (let n = 1; n <= 3; n++) await finishedTurn(server, { threadId: 'h', turnId: `t${n}` })
    const found = await pages(server, 'api/v2/threads/h?limit=2', 'turns')
    expect(found.map((page) => page.map((turn) => (turn as { turnId: string }).turnId))).toEqual([
      ['t3', 't2'],
      ['t1'],
    ])
    expect(found[1]?.[0]).toEqual({
      ...{ turnId: 't1', runId: 't1', threadId: 'h', ordinal: 1, status: 'complete' },
      ...{ createdAt: expect.any(Number), endedAt: expect.any(Number), finishReason: 'stop' },
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
      ...{ sealed: true, expired: false },
    })
  })

  test('includes a running turn', async () => {
    const server = await startServer()
    const { threadId, turnId } = await heldTurn(server)
    const { json } = await call(server, `GET /api/v2/threads/${threadId}`)
    expect(json.turns).toMatchObject([{ turnId, status: 'in_progress', sealed: false }])
  })
})

describe('changing a thread', () => {
  const before = { threadId: 'thread', title: 'A', metadata: { a: 1 } }
  const ROWS: [change: object, after: object][] = [
    [{ title: 'B' }, { title: 'B', metadata: { a: 1 } }],
    [{ metadata: { b: 2 } }, { title: 'A', metadata: { b: 2 } }],
    [{ title: null }, { metadata: { a: 1 } }],
    [{ metadata: null }, { title: 'A' }],
    [{ title: null, metadata: null }, {}],
  ]

  test.each(ROWS)('with %j makes it %j', async (change, after) => {
    const server = await startServer()
    await make(server, before)
    const changed = await call(server, 'PATCH /api/v2/threads/thread', { body: change })
    const { createdAt: _c, updatedAt: _u, ...rest } = changed.json
    expect(rest).toEqual({ threadId: 'thread', ...after })
    const { json } = await call(server, 'GET /api/v2/threads/thread')
    expect(json).toMatchObject(changed.json)
  })
})

describe('deleting a thread', () => {
  test('deletes its turns', async () => {
    const server = await startServer()
    const { threadId, turnId } = await finishedTurn(server)
    expect((await call(server, `DELETE /api/v2/threads/${threadId}`)).status).toBe(204)
    expect((await call(server, `GET /api/v2/threads/${threadId}`)).status).toBe(404)
    expect((await call(server, `GET /xapi/turns/${turnId}`)).status).toBe(404)
    expect((await call(server, `DELETE /api/v2/threads/${threadId}`)).status).toBe(404)
  })

  test('cancels a running turn and ends its readers', async () => {
    const server = await startServer()
    const { threadId, runId, call: running } = await heldTurn(server)
    running.say('Hello')
    const reading = readUntil(`${server.url}/api/v2/stream/${runId}`, 'this never comes')
    await readUntil(`${server.url}/api/v2/stream/${runId}`, 'Hello')
    const stopped = new Promise((resolve) => {
      running.signal.addEventListener('abort', resolve)
    })
    expect((await call(server, `DELETE /api/v2/threads/${threadId}`)).status).toBe(204)
    await stopped
    expect((await reading).json).toContain('Hello')
    await expect.poll(() => server.gateway.turns.running, { timeout: 4000 }).toBe(0)
  })
})

test.each(['GET', 'PATCH', 'DELETE'] as const)(
  '%s of an unknown thread is THREAD_UNKNOWN',
  async (method) => {
    const body = method === 'PATCH' ? { body: { title: 'A' } } : {}
    const { status, json } = await call(await startServer(), `${method} /api/v2/threads/no`, body)
    expect([status, json.error.code]).toEqual([404, 'THREAD_UNKNOWN'])
  },
)
