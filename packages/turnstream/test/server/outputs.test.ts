import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import { outputsOf, responseDone } from '../../../conformance/src/turn-log/texts.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import type { Lease, TurnSnapshot } from '../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../src/server.ts'
import { call, finishedTurn, heldTurn, readUntil, startServer } from './support.ts'

const DAY_MS = 24 * 60 * 60 * 1000

/** The data of the frames of a stream, as one list. */
function dataOf(stream: string): unknown[] {
  const lines = stream.split('\n').filter((line) => line.startsWith('data: {'))
  return lines.map((line) => JSON.parse(line.slice(6)) as unknown)
}

describe('W5 a turn', () => {
  test('is loaded in the format in which it is streamed', async () => {
    const server = await startServer()
    const { turnId, threadId } = await finishedTurn(server)
    const { json } = await call(server, `GET /xapi/turns/${turnId}`)
    const stream = await call(server, `GET /xapi/turns/${turnId}/stream`)
    expect(json).toEqual({
      ...{ turnId, threadId, sealed: true, offset: expect.any(String) },
      outputs: dataOf(stream.json),
    })
    expect(json.outputs.map(({ type }: { type: string }) => type)).toEqual([
      ...['turn_started', 'message', 'message', 'turn_complete'],
    ])
  })

  test('has the offset at which its stream resumes', async () => {
    const server = await startServer()
    const { turnId, call: running } = await heldTurn(server)
    running.say('first '.repeat(20))
    await readUntil(`${server.url}/xapi/turns/${turnId}/stream`, 'first')
    const { json } = await call(server, `GET /xapi/turns/${turnId}`)
    expect(json.sealed).toBe(false)
    running.finish()
    const stream = await call(server, `GET /xapi/turns/${turnId}/stream?from=${json.offset}`)
    const rest = dataOf(stream.json)
    expect(rest.map((output) => (output as { type: string }).type)).not.toContain('turn_started')
    expect(rest.at(-1)).toMatchObject({ type: 'turn_complete' })
    const over = await call(server, `GET /xapi/turns/${turnId}`)
    const end = await call(server, `GET /xapi/turns/${turnId}/stream?from=${over.json.offset}`)
    expect(end.status).toBe(204)
  })

  test('W4 unknown is TURN_UNKNOWN, and with expired logs TURN_EXPIRED', async () => {
    const clock = fakeClock(0)
    const server = await startServer({ log: new MemoryLog({ clock }) })
    const { turnId } = await finishedTurn(server)
    await clock.advance(DAY_MS)
    const gone = await call(server, `GET /xapi/turns/${turnId}`)
    expect([gone.status, gone.json.error.code]).toEqual([410, 'TURN_EXPIRED'])
    const none = await call(server, 'GET /xapi/turns/none')
    expect([none.status, none.json.error.code]).toEqual([404, 'TURN_UNKNOWN'])
  })
})

/** A thread with turns that were written past the server. */
async function writeTurn(log: MemoryLog, turnId: string, text: string): Promise<void> {
  const lease: Lease = await log.create({ turnId, threadId: 'h', owner: 'me' }, DAY_MS)
  const end = [{ seq: 1, data: responseDone(turnId, 1) }]
  await appendTo(log, lease, 'events', end, { seal: true })
  const [started, , ended] = outputsOf(turnId, 'a')
  const output = {
    ...{ type: 'message', turnId, threadId: 'h', itemId: 'a', status: 'complete' },
    ...{ content: text, origin: 'agent' },
  }
  const all = [started?.data ?? '', JSON.stringify(output), ended?.data ?? '']
  const records = all.map((data, index) => ({ seq: index + 1, data }))
  await appendTo(log, lease, 'processed', records, { seal: true })
}

const turnIds = (json: { turns: { turnId: string }[] }) => json.turns.map(({ turnId }) => turnId)

describe('W5 a thread', () => {
  test('returns its turns page by page, from either end', async () => {
    const log = new MemoryLog()
    const server = await startServer({ log })
    for (const turnId of ['t1', 't2', 't3']) await writeTurn(log, turnId, turnId)
    const first = await call(server, 'GET /xapi/threads/h?limit=2')
    expect(turnIds(first.json)).toEqual(['t1', 't2'])
    const second = await call(server, `GET /xapi/threads/h?cursor=${first.json.nextCursor}`)
    expect(turnIds(second.json)).toEqual(['t3'])
    expect(second.json).not.toHaveProperty('nextCursor')
    const newest = await call(server, 'GET /xapi/threads/h?limit=2&first=newest')
    expect(turnIds(newest.json)).toEqual(['t3', 't2'])
    const oldest = `GET /xapi/threads/h?first=newest&cursor=${newest.json.nextCursor}` as const
    expect(turnIds((await call(server, oldest)).json)).toEqual(['t1'])
  })

  test('returns each turn like a request for one turn', async () => {
    const server = await startServer()
    const { turnId, threadId } = await finishedTurn(server)
    const thread = await call(server, `GET /xapi/threads/${threadId}`)
    const turn = await call(server, `GET /xapi/turns/${turnId}`)
    expect(thread.json).toEqual({ threadId, turns: [turn.json] })
  })

  test('without turns is empty, and an unknown one is THREAD_UNKNOWN', async () => {
    const server = await startServer()
    await call(server, 'POST /api/v2/threads', { body: { threadId: 'h' } })
    expect((await call(server, 'GET /xapi/threads/h')).json).toEqual({ threadId: 'h', turns: [] })
    const none = await call(server, 'GET /xapi/threads/none')
    expect([none.status, none.json.error.code]).toEqual([404, 'THREAD_UNKNOWN'])
  })

  test('lists a turn without outputs when they have expired', async () => {
    const clock = fakeClock(0)
    const log = new MemoryLog({ clock })
    const server = await startServer({ log })
    await writeTurn(log, 't1', 'old')
    await clock.advance(DAY_MS)
    await writeTurn(log, 't2', 'new')
    const { json } = await call(server, 'GET /xapi/threads/h')
    expect(turnIds(json)).toEqual(['t1', 't2'])
    const gone = { turnId: 't1', threadId: 'h', sealed: true, offset: '0-0' }
    expect(json.turns[0]).toEqual({ ...gone, expired: true, outputs: [] })
  })

  test('ends a page that has become large and continues with the next turn', async () => {
    const log = new MemoryLog()
    const server = await startServer({ log })
    const large = 'x'.repeat(5_000_000)
    for (const turnId of ['t1', 't2', 't3']) await writeTurn(log, turnId, large)
    const first = await call(server, 'GET /xapi/threads/h')
    expect(turnIds(first.json)).toEqual(['t1', 't2'])
    const second = await call(server, `GET /xapi/threads/h?cursor=${first.json.nextCursor}`)
    expect(turnIds(second.json)).toEqual(['t3'])
    expect(second.json).not.toHaveProperty('nextCursor')
  })

  test('fails when the store fails in the middle', async () => {
    class Failing extends MemoryLog {
      override async snapshot(): Promise<never> {
        throw new TurnstreamError('STORE_UNAVAILABLE', 'away')
      }
    }
    const log = new Failing()
    const server = await startServer({ log })
    await writeTurn(log, 't1', 'text')
    const { status, json } = await call(server, 'GET /xapi/threads/h')
    expect([status, json.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
  })

  test.each([
    ['deleted', async (log: MemoryLog) => void (await log.deleteTurn('t1')), ['t2']],
    ['expired', async (_: MemoryLog, pass: () => Promise<void>) => pass(), ['t1', 't2']],
  ])('handles a turn that is %s while it is read', async (_name, happen, left) => {
    const clock = fakeClock(0)
    /** Something happens between the list of the turns and the first of them. */
    class Late extends MemoryLog {
      override async snapshot(turnId: string): Promise<TurnSnapshot> {
        if (turnId === 't1') await happen(this, () => clock.advance(DAY_MS))
        return super.snapshot(turnId)
      }
    }
    const log = new Late({ clock })
    const server = await startServer({ log })
    for (const turnId of ['t1', 't2']) await writeTurn(log, turnId, turnId)
    expect(turnIds((await call(server, 'GET /xapi/threads/h')).json)).toEqual(left)
  })
})
