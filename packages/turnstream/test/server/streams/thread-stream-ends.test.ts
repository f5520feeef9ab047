import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { responseDone, turnComplete } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../../src/server.ts'
import { OpenLogs } from '../../log/redis/support.ts'
import { CountingLog } from './counting-log.ts'
import { UnreadableLog } from './faulty-logs.ts'
import { codeOf, get, RawClient } from './raw-client.ts'
import { createTurn, openLog, serve } from './server.ts'

const PATH = '/xapi/threads/thread/stream'

const server = await startRedis()
afterAll(() => server.stop())

const STORES = ['memory', 'embedded', 'redis'] as const

/** A store as the process has it that serves, and as another has it where there can be one. */
async function openTwice(
  store: (typeof STORES)[number],
): Promise<{ log: TurnLog; other: TurnLog }> {
  if (store !== 'redis') {
    const log = await openLog(store)
    return { log, other: log }
  }
  const logs = new OpenLogs({ url: server.url })
  onTestFinished(() => logs.close())
  return { log: await logs.open(), other: await logs.open() }
}

/** A client that the server has begun to answer. */
async function openReader(port: number): Promise<RawClient> {
  const client = await RawClient.open(port, PATH)
  await client.until(({ body }) => body.includes('retry: 1000'))
  return client
}

async function endedTurn(log: TurnLog, turnId: string): Promise<void> {
  const lease = await createTurn(log, turnId)
  await appendTo(log, lease, 'events', [{ seq: 1, data: responseDone(turnId, 1) }], { seal: true })
  await appendTo(log, lease, 'processed', [{ seq: 1, data: turnComplete(turnId) }], { seal: true })
}

function turnIdsOf({ events }: RawClient): string[] {
  return events.map(({ data }) => JSON.parse(data).turnId ?? data)
}

test('an unknown thread is THREAD_UNKNOWN', async () => {
  const { port } = await serve(new MemoryLog())
  const answer = await get(port, PATH)
  expect(answer.status).toBe(404)
  expect(codeOf(answer.body)).toBe('THREAD_UNKNOWN')
})

test('a turn deleted while it is read is announced, and the thread continues', async () => {
  const clock = fakeClock(1000)
  const log = new CountingLog()
  await createTurn(log, 'one')
  const { port, errors } = await serve(log, { clock })
  const client = await RawClient.open(port, PATH)
  await log.untilReading(1)
  await log.deleteTurn('one')
  await log.untilReading(0)
  await endedTurn(log, 'two')
  await client.untilIn(clock, ({ events }) => events.length === 2)
  expect(turnIdsOf(client)).toEqual(['{"reason":"trimmed","offset":"one/0-0"}', 'two'])
  expect(errors).toEqual([])
  client.close()
})

test('a turn with expired logs is announced, and the thread continues', async () => {
  const clock = fakeClock(1000)
  const log = new MemoryLog({ clock, retentionMs: 100 })
  await endedTurn(log, 'one')
  await clock.advance(150)
  await endedTurn(log, 'two')
  const { port } = await serve(log)
  for (const path of [PATH, `${PATH}?from=one/1-1`]) {
    const client = await RawClient.open(port, path)
    await client.until(({ events }) => events.length === 2)
    expect(turnIdsOf(client)).toEqual(['{"reason":"trimmed","offset":"one/0-0"}', 'two'])
    client.close()
  }
})

test('the stream ends when the thread is deleted', async () => {
  const clock = fakeClock(1000)
  const log = new MemoryLog()
  await endedTurn(log, 'one')
  const { port } = await serve(log, { clock })
  const client = await RawClient.open(port, PATH)
  await client.until(({ events }) => events.length === 1)
  await log.deleteThread('thread')
  await client.untilIn(clock, ({ answer }) => answer.isWhole)
  expect((await get(port, PATH)).status).toBe(404)
  client.close()
})

/** What a reader of the thread may be at when the thread is deleted. */
const MOMENTS = {
  'before its first turn': (log: TurnLog) => log.putThread({ threadId: 'thread' }),
  'while a turn runs': (log: TurnLog) => createTurn(log, 'one'),
  'after a turn': (log: TurnLog) => endedTurn(log, 'one'),
}

describe.each(Object.entries(MOMENTS))('a thread that is deleted %s', (_moment, begin) => {
  test.each(STORES)('ends its stream, whichever process deletes it (%s)', async (store) => {
    const clock = fakeClock(1000)
    const { log, other } = await openTwice(store)
    await begin(log)
    const { port, errors } = await serve(log, { clock })
    const client = await openReader(port)
    await other.deleteThread('thread')
    await client.untilIn(clock, ({ answer }) => answer.isWhole)
    expect((await get(port, PATH)).status).toBe(404)
    expect(errors).toEqual([])
    client.close()
  })

  test.each(STORES)('sends nothing of a new thread with the same id (%s)', async (store) => {
    const clock = fakeClock(1000)
    const { log, other } = await openTwice(store)
    await begin(log)
    const { port } = await serve(log, { clock })
    const client = await openReader(port)
    await other.deleteThread('thread')
    await endedTurn(other, 'one')
    await endedTurn(other, 'two')
    await client.untilIn(clock, ({ answer }) => answer.isWhole)
    expect(turnIdsOf(client)).not.toContain('two')
    client.close()
  })

  test('ends its stream immediately when it is deleted in this process', async () => {
    const log = new MemoryLog()
    await begin(log)
    const { port } = await serve(log, { clock: fakeClock(1000) })
    const client = await openReader(port)
    const path = `http://127.0.0.1:${port}/api/v2/threads/thread`
    expect((await fetch(path, { method: 'DELETE' })).status).toBe(204)
    await client.until(({ answer }) => answer.isWhole)
    client.close()
  })
})

test('a recreated thread with the same id is a different thread', async () => {
  const clock = fakeClock(1000)
  const log = new MemoryLog({ clock })
  await endedTurn(log, 'one')
  await endedTurn(log, 'two')
  const { port } = await serve(log, { clock })
  const client = await RawClient.open(port, PATH)
  await client.until(({ events }) => events.length === 2)
  await log.deleteThread('thread')
  await clock.advance(10)
  await endedTurn(log, 'new')
  await client.untilIn(clock, ({ answer }) => answer.isWhole)
  expect(turnIdsOf(client)).toEqual(['one', 'two'])
  client.close()
})

test('a turn deleted after it was read changes nothing', async () => {
  const clock = fakeClock(1000)
  const log = new MemoryLog()
  await endedTurn(log, 'one')
  await endedTurn(log, 'two')
  const { port } = await serve(log, { clock })
  const client = await RawClient.open(port, PATH)
  await client.until(({ events }) => events.length === 2)
  await log.deleteTurn('two')
  await clock.advance(1000)
  await endedTurn(log, 'three')
  await client.untilIn(clock, ({ events }) => events.length === 3)
  expect(turnIdsOf(client)).toEqual(['one', 'two', 'three'])
  client.close()
})

test('a store failure cuts the stream and is reported', async () => {
  const log = new UnreadableLog()
  await createTurn(log, 'one')
  const { port, errors } = await serve(log)
  const client = await RawClient.open(port, PATH)
  await client.closed()
  expect(client.answer.isWhole).toBe(false)
  expect(errors).toMatchObject([{ code: 'STORE_UNAVAILABLE' }])
})
