/** V14: edit, regenerate and retry. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { openEmbeddedLog } from '../../src/server.ts'
import { folderOfTest } from '../log/embedded/support.ts'
import { OpenLogs } from '../log/redis/support.ts'
import {
  call,
  finishedTurn,
  heldTurn,
  readUntil,
  sealed,
  startServer,
  type TestServer,
} from './support.ts'

const submit = (server: TestServer, body: object) => call(server, 'POST /api/v2/submit', { body })

/** A thread of finished turns with these prompts as ids. */
async function threadOf(server: TestServer, ...turnIds: string[]): Promise<void> {
  for (const turnId of turnIds) {
    await finishedTurn(server, { threadId: 'th', turnId, prompt: turnId })
  }
}

async function listedIn(server: TestServer, path: string): Promise<unknown[]> {
  const { json } = await call(server, `GET ${path}` as `GET /${string}`)
  return json.turns.map(({ turnId, replacedBy }: { turnId: string; replacedBy?: string }) =>
    replacedBy === undefined ? turnId : `${turnId}→${replacedBy}`,
  )
}

const textsIn = ({ request }: Awaited<ReturnType<typeof heldTurn>>['call']) =>
  request.input.map((item) => 'content' in item && item.content)

describe('V14 a turn that replaces another', () => {
  test('takes the place of it and of all later ones, in history and in lists', async () => {
    const server = await startServer()
    await threadOf(server, 'one', 'two', 'three')
    const { call: held, turnId } = await heldTurn(server, {
      ...{ threadId: 'th', turnId: 'again', prompt: 'Two!', replaces: 'two' },
    })
    expect(textsIn(held)).toEqual(['one', 'Hello, world.', 'Two!'])
    held.say('Yes.')
    held.finish()
    await sealed(server.log, turnId)
    expect(await listedIn(server, '/api/v2/threads/th')).toEqual(['again', 'one'])
    expect(await listedIn(server, '/xapi/threads/th')).toEqual(['one', 'again'])
    const all = ['one', 'two→again', 'three→again', 'again']
    expect(await listedIn(server, '/xapi/threads/th?replaced=true')).toEqual(all)
    const newest = await listedIn(server, '/api/v2/threads/th?replaced=true')
    expect(newest).toEqual(all.toReversed())
    expect(await listedIn(server, '/api/v2/threads/th?replaced=false')).toEqual(['again', 'one'])
    // The next turn sees the new answer only.
    const { call: next } = await heldTurn(server, { threadId: 'th', prompt: 'Four' })
    expect(textsIn(next)).toEqual(['one', 'Hello, world.', 'Two!', 'Yes.', 'Four'])
    next.finish()
    // What was replaced can still be read.
    expect((await call(server, 'GET /api/v2/runs/two')).status).toBe(200)
    expect((await call(server, 'GET /xapi/turns/two')).status).toBe(200)
  })

  test('says so in its events and snapshots, to those who follow the thread, too', async () => {
    const server = await startServer()
    await threadOf(server, 'one', 'two')
    const following = readUntil(`${server.url}/xapi/threads/th/stream`, '"replaces":"two"')
    await finishedTurn(server, { threadId: 'th', turnId: 'again', replaces: 'two' })
    expect((await following).json).toContain('"type":"turn_started","turnId":"again"')
    const run = await call(server, 'GET /api/v2/runs/again')
    expect(run.json).toMatchObject({ replaces: 'two' })
    const { json } = await call(server, 'GET /api/v2/threads/th')
    expect(json.turns[0]).toMatchObject({ turnId: 'again', replaces: 'two' })
    // Whoever comes later gets what is left.
    const late = await readUntil(`${server.url}/xapi/threads/th/stream`, '"replaces":"two"')
    expect(late.json).not.toContain('"turnId":"two"')
  })

  test('resumes the stream of a subscriber that left in a turn which was replaced', async () => {
    const server = await startServer()
    await threadOf(server, 'one', 'two')
    const url = `${server.url}/xapi/threads/th/stream`
    const { json } = await readUntil(url, '"type":"turn_complete","turnId":"two"')
    const cursor = /id: (two\/\S+)\n/.exec(json)?.[1] ?? ''
    await finishedTurn(server, { threadId: 'th', turnId: 'again', replaces: 'one' })
    const rest = await readUntil(`${url}?from=${cursor}`, '"turnId":"again"')
    expect(rest.json).toContain('"replaces":"one"')
    expect(rest.json).not.toContain('resync')
  })

  test('W7 is the same turn when it is submitted again, and a conflict with another body', async () => {
    const server = await startServer()
    await threadOf(server, 'one', 'two')
    const body = { threadId: 'th', turnId: 'again', prompt: 'Hi', replaces: 'two' }
    const ids = await finishedTurn(server, body)
    expect(await submit(server, body)).toMatchObject({ status: 202, json: ids })
    const { replaces: _replaces, ...plain } = body
    const conflict = await submit(server, plain)
    expect([conflict.status, conflict.json.error.code]).toEqual([409, 'SUBMIT_CONFLICT'])
    expect(await listedIn(server, '/xapi/threads/th')).toEqual(['one', 'again'])
  })

  test('may be submitted and streamed in one call', async () => {
    const server = await startServer()
    await threadOf(server, 'one')
    const body = { prompt: 'Hi', turnId: 'again', replaces: 'one' }
    const stream = await call(server, 'POST /xapi/threads/th/turn', { body })
    expect(stream.json).toContain('"replaces":"one"')
    expect(await listedIn(server, '/xapi/threads/th')).toEqual(['again'])
  })

  test('of two at once, one runs', async () => {
    const server = await startServer()
    await threadOf(server, 'one', 'two')
    const body = { threadId: 'th', prompt: 'Hi', providerId: 'held', replaces: 'two' }
    const both = await Promise.all(['a', 'b'].map((turnId) => submit(server, { ...body, turnId })))
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([202, 409]))
    const refused = both.find(({ status }) => status === 409)
    expect(refused?.json.error.code).toBe('THREAD_BUSY')
  })

  test('stays replaced when the new turn is deleted with its thread, and nothing is left', async () => {
    const server = await startServer()
    await threadOf(server, 'one')
    await finishedTurn(server, { threadId: 'th', turnId: 'again', replaces: 'one' })
    expect((await call(server, 'DELETE /api/v2/threads/th')).status).toBe(204)
    for (const runId of ['one', 'again']) {
      expect((await call(server, `GET /api/v2/runs/${runId}`)).status).toBe(404)
    }
  })

  test('survives a restart', async () => {
    const directory = folderOfTest()
    const open = () => openEmbeddedLog({ directory, sync: 'system' })
    const first = await startServer({ log: await open() })
    await threadOf(first, 'one', 'two')
    await finishedTurn(first, { threadId: 'th', turnId: 'again', replaces: 'two' })
    await first.close()
    await first.log.close()
    const log = await open()
    const second = await startServer({ log })
    expect(await listedIn(second, '/xapi/threads/th')).toEqual(['one', 'again'])
    await second.close()
    await log.close()
  })
})

describe('V14 over two gateways on one Redis', { tags: ['slow'] }, () => {
  let redis: Awaited<ReturnType<typeof startRedis>>
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())

  async function gateways() {
    const logs = new OpenLogs({ url: redis.url })
    onTestFinished(() => logs.close())
    const first = await startServer({ log: await logs.open() })
    return [first, await startServer({ log: await logs.open() })] as const
  }

  test('the other one lists, reads and streams what is left', async () => {
    const [one, other] = await gateways()
    await threadOf(one, 'one', 'two')
    const following = readUntil(`${other.url}/xapi/threads/th/stream`, '"replaces":"two"')
    await finishedTurn(one, { threadId: 'th', turnId: 'again', replaces: 'two' })
    expect((await following).json).toContain('"turnId":"again"')
    expect(await listedIn(other, '/xapi/threads/th')).toEqual(['one', 'again'])
    const { call: held } = await heldTurn(other, { threadId: 'th', prompt: 'Three' })
    expect(textsIn(held)).toEqual(['one', 'Hello, world.', 'Hi', 'Hello, world.', 'Three'])
    held.finish()
  })

  test('of two that replace the same turn, one runs', async () => {
    const [one, other] = await gateways()
    await threadOf(one, 'one', 'two')
    const body = { threadId: 'th', prompt: 'Hi', providerId: 'held', replaces: 'two' }
    const both = await Promise.all([
      submit(one, { ...body, turnId: 'a' }),
      submit(other, { ...body, turnId: 'b' }),
    ])
    expect(new Set(both.map(({ status }) => status))).toEqual(new Set([202, 409]))
    expect(await listedIn(one, '/xapi/threads/th')).toHaveLength(2)
    expect(await listedIn(other, '/xapi/threads/th?replaced=true')).toHaveLength(3)
  })
})

const REFUSED: Record<string, { body: object; status: number; code: string }> = {
  'a turn that does not exist': { body: { replaces: 'no' }, status: 404, code: 'TURN_UNKNOWN' },
  'a turn of another thread': { body: { replaces: 'other' }, status: 404, code: 'TURN_UNKNOWN' },
  'a turn that was replaced': { body: { replaces: 'one' }, status: 409, code: 'TURN_REPLACED' },
  'a turn of no thread': {
    body: { threadId: undefined, replaces: 'two' },
    status: 400,
    code: 'REQUEST_INVALID',
  },
  'what is no id': { body: { replaces: 'a b' }, status: 400, code: 'REQUEST_INVALID' },
  'with a misspelt field': { body: { replace: 'two' }, status: 400, code: 'REQUEST_INVALID' },
}

describe('V14 refused', () => {
  test.each(Object.entries(REFUSED))('%s', async (_name, { body, status, code }) => {
    const server = await startServer()
    await threadOf(server, 'one')
    await finishedTurn(server, { threadId: 'elsewhere', turnId: 'other' })
    await finishedTurn(server, { threadId: 'th', turnId: 'two', replaces: 'one' })
    const answer = await submit(server, { threadId: 'th', prompt: 'Hi', ...body })
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
    expect(await listedIn(server, '/xapi/threads/th?replaced=true')).toEqual(['one→two', 'two'])
    expect(server.gateway.turns.running).toBe(0)
  })

  test('a turn that runs', async () => {
    const server = await startServer()
    await threadOf(server, 'one')
    const { call: held, turnId } = await heldTurn(server, { threadId: 'th' })
    for (const replaces of ['one', turnId]) {
      const answer = await submit(server, { threadId: 'th', prompt: 'Hi', replaces })
      expect([answer.status, answer.json.error.code]).toEqual([409, 'THREAD_BUSY'])
    }
    held.finish()
  })

  test('a value of ?replaced that is neither true nor false', async () => {
    const server = await startServer()
    await threadOf(server, 'one')
    for (const path of ['/api/v2/threads/th', '/xapi/threads/th'] as const) {
      const answer = await call(server, `GET ${path}?replaced=yes`)
      expect([answer.status, answer.json.error.code]).toEqual([400, 'REQUEST_INVALID'])
    }
  })
})
