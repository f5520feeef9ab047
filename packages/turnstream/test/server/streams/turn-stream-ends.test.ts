import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { MemoryLog } from '../../../src/server.ts'
import { TrimmedLog, UnreadableLog } from './faulty-logs.ts'
import { codeOf, framesOf, get, RawClient } from './raw-client.ts'
import { createTurn, finishedTurn, gatewayOn, serve } from './server.ts'
import { eventsOf, recordsOf } from './turns.ts'

const V2 = '/api/v2/stream/turn'
const XAPI = '/xapi/turns/turn/stream'

describe('W4 a cursor that cannot be honoured', () => {
  test.each([
    { name: 'of another epoch', from: '4-2' },
    { name: 'at the end, but of another epoch', from: '4-8' },
  ])('$name is announced, and v2 restarts', async ({ from }) => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const [, cursor, resync, ...events] = framesOf((await get(port, `${V2}?from=${from}`)).body)
    expect(cursor).toBe(`id: ${from}\n\n`)
    expect(resync).toBe('event: resync\ndata: {"reason":"foreign","offset":"0-0"}\n\n')
    expect(events).toHaveLength(eventsOf('turn').length)
    expect(events[0]).toMatch(/^id: 1-1\n/)
  })

  test.each(['snapshot', 'append'])('xapi (%s) sends its snapshots again', async (encoding) => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const whole = framesOf((await get(port, XAPI)).body).slice(2)
    const path = `${XAPI}?encoding=${encoding}&from=4-2`
    const [, , resync, ...snapshots] = framesOf((await get(port, path)).body)
    expect(resync).toBe('event: resync\ndata: {"reason":"foreign","offset":"0-0"}\n\n')
    expect(snapshots).toEqual(whole)
  })

  test('ahead of an open turn is also announced', async () => {
    const log = new MemoryLog()
    const lease = await createTurn(log, 'turn')
    const { port } = await serve(log)
    const client = await RawClient.open(port, `${XAPI}?from=1-5`)
    await client.until(({ body }) => body.includes('event: resync'))
    const records = recordsOf('turn', 'processed')
    await appendTo(log, lease, 'processed', records, { seal: true })
    expect(framesOf(await client.whole()).at(-1)).toMatch(/^id: 1-14\n/)
    client.close()
  })

  test('in a trimmed part is announced as trimmed', async () => {
    const log = await finishedTurn(new TrimmedLog())
    const { port } = await serve(log)
    const [, , resync, ...events] = framesOf((await get(port, `${V2}?from=1-1`)).body)
    expect(resync).toBe('event: resync\ndata: {"reason":"trimmed","offset":"0-0"}\n\n')
    expect(events[0]).toMatch(/^id: 1-4\n/)
  })
})

describe('refuses', () => {
  test.each([
    { path: '/api/v2/stream/other', status: 404, code: 'TURN_UNKNOWN' },
    { path: '/xapi/turns/other/stream', status: 404, code: 'TURN_UNKNOWN' },
    { path: `${XAPI}?encoding=other`, status: 400, code: 'REQUEST_INVALID' },
    { path: `${XAPI}?encoding=`, status: 400, code: 'REQUEST_INVALID' },
    { path: '/xapi/turns/a%20b/stream', status: 400, code: 'REQUEST_INVALID' },
  ])('$path with $code', async ({ path, status, code }) => {
    const { port } = await serve(await finishedTurn(new MemoryLog()))
    const answer = await get(port, path)
    expect(answer.status).toBe(status)
    expect(codeOf(answer.body)).toBe(code)
  })

  test.each([V2, XAPI])('W4 %s of a turn with expired logs', async (path) => {
    const clock = fakeClock(1000)
    const log = await finishedTurn(new MemoryLog({ clock, retentionMs: 100 }))
    const { port } = await serve(log)
    await clock.advance(150)
    const answer = await get(port, path)
    expect(answer.status).toBe(410)
    expect(codeOf(answer.body)).toBe('TURN_EXPIRED')
  })

  test('a new stream when the server has closed', async () => {
    const gateway = gatewayOn(await finishedTurn(new MemoryLog()))
    await gateway.close()
    const answer = await gateway.app.request(XAPI)
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ error: { code: 'SERVER_SHUTDOWN' } })
  })
})

describe('a stream ends early for', () => {
  test.each([V2, XAPI])('a deleted turn: %s ends, and the turn is then unknown', async (path) => {
    const log = new MemoryLog()
    await createTurn(log, 'turn')
    const { port, errors } = await serve(log)
    const client = await RawClient.open(port, path)
    await client.until(({ body }) => body.length > 0)
    await log.deleteTurn('turn')
    await client.whole()
    expect((await get(port, path)).status).toBe(404)
    expect(errors).toEqual([])
    client.close()
  })

  test('a turn deleted while its stream opens, without an error report', async () => {
    const log = new MemoryLog()
    await createTurn(log, 'turn')
    const tail = log.tail.bind(log)
    vi.spyOn(log, 'tail').mockImplementation((...args) => {
      void log.deleteTurn('turn')
      return tail(...args)
    })
    const { port, errors } = await serve(log)
    const client = await RawClient.open(port, V2)
    await client.whole()
    expect(errors).toEqual([])
    client.close()
  })

  test('a store failure: the response is cut, and the failure is reported', async () => {
    const log = new UnreadableLog()
    await createTurn(log, 'turn')
    const { port, errors } = await serve(log)
    const client = await RawClient.open(port, XAPI)
    await client.closed()
    expect(client.head?.status).toBe(200)
    expect(client.answer.isWhole).toBe(false)
    expect(errors).toMatchObject([{ code: 'STORE_UNAVAILABLE' }])
  })

  test('an immediate store failure: the headers are already sent, so the response is cut', async () => {
    const log = new MemoryLog()
    await createTurn(log, 'turn')
    vi.spyOn(log, 'tail').mockImplementation(() => {
      throw new TurnstreamError('STORE_CLOSED', 'too late')
    })
    const { port, errors } = await serve(log)
    const client = await RawClient.open(port, XAPI)
    await client.closed()
    expect(client.body.toString()).toBe('retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\n')
    expect(client.answer.isWhole).toBe(false)
    expect(errors).toMatchObject([{ code: 'STORE_CLOSED' }])
  })

  test('a server shutdown: the response is complete, and the cursor works elsewhere', async () => {
    const log = new MemoryLog()
    const lease = await createTurn(log, 'turn')
    const { port, close } = await serve(log)
    const client = await RawClient.open(port, V2)
    await appendTo(log, lease, 'events', recordsOf('turn', 'events').slice(0, 3))
    await client.until(({ events }) => events.length === 3)
    await close()
    await client.closed()
    expect(client.answer.isWhole).toBe(true)
    const next = await serve(log)
    const resumed = await RawClient.open(next.port, V2, { headers: { 'last-event-id': '1-3' } })
    await appendTo(log, lease, 'events', recordsOf('turn', 'events').slice(3), { seal: true })
    await resumed.whole()
    expect(resumed.events.map(({ id }) => id)).toEqual(['1-4', '1-5', '1-6', '1-7', '1-8'])
    resumed.close()
  })
})

test('ids that no header can hold are URL-encoded', async () => {
  const log = new MemoryLog()
  await log.create({ turnId: 'türn/1', threadId: 'gespräch', owner: 'test' }, 60_000)
  const { port } = await serve(log)
  const client = await RawClient.open(port, `/xapi/turns/${encodeURIComponent('türn/1')}/stream`)
  await client.until(({ head }) => head !== undefined)
  expect(client.head?.headers).toMatchObject({
    'x-turn-id': 't%C3%BCrn/1',
    'x-thread-id': 'gespr%C3%A4ch',
  })
  client.close()
})
