import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { delta, message } from '../../../../conformance/src/turn-log/texts.ts'
import { ANYBODY } from '../../../src/server/auth/authenticate.ts'
import { Frame } from '../../../src/server/streams/frames.ts'
import { MAX_WAITING_BYTES, WebConnection } from '../../../src/server/streams/sse-connection.ts'
import { MemoryLog } from '../../../src/server.ts'
import { streamsApp } from './context.ts'
import { CountingLog } from './counting-log.ts'
import { DIALECTS } from './dialects.ts'
import { UnreadableLog } from './faulty-logs.ts'
import { createSealed, createTurn, finishedTurn, gatewayOn } from './server.ts'
import { recordsOf } from './turns.ts'
import { readInto } from './views.ts'

const XAPI = '/xapi/turns/turn/stream'

describe('an app called as a function', () => {
  test.each(DIALECTS)('answers with $name', async (dialect) => {
    const log = new MemoryLog()
    await createSealed(log, 'turn', dialect.log, recordsOf('turn', dialect.log))
    const answer = await gatewayOn(log).app.request(dialect.pathOf('turn'))
    const view = dialect.view('turn')
    readInto(view, await answer.text())
    expect(view.seen).toEqual(dialect.expected('turn'))
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-turn-id': 'turn',
    })
    expect(answer.headers.get('x-request-id')).not.toBeNull()
  })

  test('sends heartbeats and continues with new records', async () => {
    const clock = fakeClock(1000)
    const log = new CountingLog()
    const lease = await createTurn(log, 'turn')
    const { app } = streamsApp(log, clock, 100)
    const { body } = await app.request(XAPI)
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
    expect(await reader?.read()).toMatchObject({
      value: 'retry: 1000\n: heartbeat every 100 ms\n\nid: 0-0\n\n',
    })
    await log.untilReading(1)
    await clock.advance(100)
    expect(await reader?.read()).toMatchObject({ value: ': heartbeat\n\n' })
    const data = message('turn', 'a', 'text').replace('update', 'create')
    await appendTo(log, lease, 'processed', [{ seq: 1, data }])
    expect(await reader?.read()).toMatchObject({ value: `id: 1-1\ndata: ${data}\n\n` })
    await reader?.cancel()
  })

  test('releases the log when the body is cancelled', async () => {
    const clock = fakeClock(1000)
    const log = new CountingLog()
    await createTurn(log, 'turn')
    const { app, context } = streamsApp(log, clock)
    const { body } = await app.request(XAPI)
    await log.untilReading(1)
    await body?.cancel()
    await log.untilReading(0)
    expect(context.streams.size).toBe(0)
    expect(clock.pending()).toBe(0)
  })

  test('reads no more from the log than is consumed', async () => {
    const log = new CountingLog()
    const lease = await createTurn(log, 'turn')
    const text = 'x'.repeat(10_000)
    for (let seq = 1; seq <= 100; seq++) {
      await appendTo(log, lease, 'events', [{ seq, data: delta('turn', seq, text) }])
    }
    const { app } = streamsApp(log, fakeClock(1000))
    const { body } = await app.request('/api/v2/stream/turn')
    const reader = body?.getReader()
    await reader?.read()
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
    expect(log.taken).toBeGreaterThan(0)
    expect(log.taken).toBeLessThan(20)
    let frames = 0
    for (; frames < 100; frames++) await reader?.read()
    expect(log.taken).toBe(100)
    await reader?.cancel()
  })

  test('fails when the store fails, and reports it', async () => {
    const log = new UnreadableLog()
    await createTurn(log, 'turn')
    const { app, context, errors } = streamsApp(log, fakeClock(1000))
    const answer = await app.request(XAPI)
    await expect(answer.text()).rejects.toThrow('the stream was aborted')
    expect(errors).toMatchObject([{ code: 'STORE_UNAVAILABLE' }])
    expect(context.streams.size).toBe(0)
  })

  test('ends its body when the server closes', async () => {
    const log = new CountingLog()
    await createTurn(log, 'turn')
    const { app, closing } = streamsApp(log, fakeClock(1000))
    const answer = await app.request(XAPI)
    await log.untilReading(1)
    closing.abort()
    expect(await answer.text()).toBe('retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\n')
    await log.untilReading(0)
  })

  test('answers HEAD without a body', async () => {
    const gateway = gatewayOn(await finishedTurn(new MemoryLog()))
    const answer = await gateway.app.request(XAPI, { method: 'HEAD' })
    expect(answer.status).toBe(200)
    expect(answer.body).toBeNull()
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  })
})

/** A connection that is open and has sent nothing. */
function openConnection(): WebConnection {
  const { context } = streamsApp(new MemoryLog(), fakeClock(1000))
  const { streams, limits } = context
  const slot = limits.takeStream(ANYBODY)
  const connection = new WebConnection({ streams, slot, kind: 'xapi', caller: ANYBODY })
  connection.open(undefined)
  return connection
}

describe('the body', () => {
  test('reports when it is full and when it drains', async () => {
    const connection = openConnection()
    const reader = connection.body.getReader()
    expect(connection.waitingBytes).toBe(0)
    expect(connection.send(new Frame('small'))).toBe(true)
    expect(connection.waitingBytes).toBeGreaterThan(0)
    expect(connection.send(new Frame('x'.repeat(MAX_WAITING_BYTES)))).toBe(false)
    const drained = connection.drained()
    await reader.read()
    await reader.read()
    await drained
    expect(connection.waitingBytes).toBe(0)
    connection.end()
  })

  test('releases waiting writers when the reader disconnects', async () => {
    const connection = openConnection()
    connection.send(new Frame('x'.repeat(MAX_WAITING_BYTES)))
    const drained = connection.drained()
    await connection.body.cancel()
    await drained
    expect(connection.signal.aborted).toBe(true)
  })
})

test('a connection whose reader has caught up does not block', async () => {
  const connection = openConnection()
  const reader = connection.body.getReader()
  expect(connection.send(new Frame('x'.repeat(MAX_WAITING_BYTES)))).toBe(false)
  await reader.read()
  await connection.drained()
  connection.send(new Frame('x'.repeat(MAX_WAITING_BYTES)))
  await reader.cancel()
  await connection.drained()
})
