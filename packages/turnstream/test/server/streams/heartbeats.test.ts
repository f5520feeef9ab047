import { expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { message } from '../../../../conformance/src/turn-log/texts.ts'
import { type Clock, SseDecoder } from '../../../../core/src/index.ts'
import { parseHeartbeatAnnouncement } from '../../../../core/src/protocol/heartbeat.ts'
import { CountingLog } from './counting-log.ts'
import { RawClient } from './raw-client.ts'
import { createTurn, serve } from './server.ts'

const PATH = '/xapi/turns/turn/stream'
const BEAT = ': heartbeat\n\n'

async function servedTurn(heartbeatMs?: number) {
  const clock = fakeClock(1_000_000)
  const log = new CountingLog()
  const lease = await createTurn(log, 'turn')
  const options = heartbeatMs === undefined ? {} : { heartbeatMs }
  const { port } = await serve(log, { clock, ...options })
  let seq = 0
  return {
    ...{ clock, log, port },
    /** Writes a record, and waits until it has arrived. */
    write: async (client: RawClient): Promise<void> => {
      seq += 1
      await appendTo(log, lease, 'processed', [{ seq, data: message('turn', 'a', `text ${seq}`) }])
      await client.until(({ body }) => body.includes(`text ${seq}"`))
    },
  }
}

function beatsOf({ body }: RawClient): number {
  return body.toString().split(BEAT).length - 1
}

test('a comment is sent after every 15 s of silence', async () => {
  const { clock, log, port } = await servedTurn()
  const client = await RawClient.open(port, PATH)
  await log.untilReading(1)
  await clock.advance(15_000)
  await client.until((each) => beatsOf(each) === 1)
  await clock.advance(15_000)
  await client.until((each) => beatsOf(each) === 2)
  expect(client.body.toString()).toBe(
    `retry: 1000\n: heartbeat every 15000 ms\n\nid: 0-0\n\n${BEAT}${BEAT}`,
  )
  client.close()
})

test.each([
  [100, 100],
  [0.4, 1],
  [20_000.6, 20_001],
])('the first comment announces the interval: %d is %d ms', async (heartbeatMs, announced) => {
  const { log, port } = await servedTurn(heartbeatMs)
  const client = await RawClient.open(port, PATH)
  await log.untilReading(1)
  await client.until(({ body }) => body.includes('id: 0-0\n\n'))
  const decoded: (number | undefined)[] = []
  const onComment = (text: string) => decoded.push(parseHeartbeatAnnouncement(text))
  new SseDecoder({ onComment }).feed(client.body)
  expect(decoded).toEqual([announced])
  client.close()
})

test('a record restarts the interval', async () => {
  const { clock, log, port, write } = await servedTurn(100)
  const client = await RawClient.open(port, PATH)
  await log.untilReading(1)
  for (let round = 0; round < 5; round++) {
    await clock.advance(99)
    await write(client)
  }
  expect(beatsOf(client)).toBe(0)
  await clock.advance(100)
  await client.until((each) => beatsOf(each) === 1)
  client.close()
})

test('each connection has its own interval, with one shared timer', async () => {
  const { clock, log, port } = await servedTurn(100)
  const before = clock.pending()
  const clients: RawClient[] = []
  for (let each = 0; each < 5; each++) {
    clients.push(await RawClient.open(port, PATH))
    await log.untilReading(each + 1)
    await clock.advance(10)
  }
  expect(clock.pending()).toBe(before + 1)
  await clock.advance(50)
  // 100 ms after the first came, and 90, 80, 70, 60 after the others.
  await clients[0]?.until((each) => beatsOf(each) === 1)
  expect(clients.map(beatsOf)).toEqual([1, 0, 0, 0, 0])
  await clock.advance(40)
  for (const client of clients) await client.until((each) => beatsOf(each) === 1)
  for (const client of clients) client.close()
  await log.untilReading(0)
  expect(clock.pending()).toBe(before)
})

test('a reader that does not read gets no comments', async () => {
  const { clock, log, port, write } = await servedTurn(100)
  const other = await RawClient.open(port, PATH)
  const much = await createTurn(log, 'much', 'other')
  const stuck = await RawClient.open(port, '/xapi/turns/much/stream')
  await log.untilReading(2)
  stuck.socket.pause()
  const data = message('much', 'a', 'x'.repeat(20_000_000))
  await appendTo(log, much, 'processed', [{ seq: 1, data }])
  await write(other)
  for (let beat = 0; beat < 20; beat++) await clock.advance(100)
  await other.until((each) => beatsOf(each) === 20)
  stuck.socket.resume()
  await stuck.until(({ received }) => received > 20_000_000)
  expect(beatsOf(stuck)).toBe(0)
  for (const client of [other, stuck]) client.close()
})

test('heartbeats continue when the clock is set back', async () => {
  const clock = fakeClock(1_000_000)
  let shift = 0
  const log = new CountingLog()
  await createTurn(log, 'turn')
  const shifted: Clock = {
    now: () => clock.now() + shift,
    after: (ms, task) => clock.after(ms, task),
  }
  const { port } = await serve(log, { clock: shifted, heartbeatMs: 100 })
  const client = await RawClient.open(port, PATH)
  await log.untilReading(1)
  shift = -500_000
  await clock.advance(100)
  await client.until((each) => beatsOf(each) > 0)
  expect(beatsOf(client)).toBe(1)
  client.close()
})
