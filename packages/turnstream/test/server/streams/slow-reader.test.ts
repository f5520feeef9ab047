import { expect, test } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import {
  delta,
  message,
  responseDone,
  turnComplete,
} from '../../../../conformance/src/turn-log/texts.ts'
import { CountingLog } from './counting-log.ts'
import { RawClient } from './raw-client.ts'
import { createTurn, serve } from './server.ts'

const MB = 1024 * 1024
/** More than the system holds for a socket that nobody reads. */
const MUCH = 40 * MB

const LAST_CHUNK = '0\r\n\r\n'

test('an xapi reader that pauses delays no one and then gets the newest state', async () => {
  const log = new CountingLog()
  const lease = await createTurn(log, 'turn')
  const { port } = await serve(log)
  const slow = await RawClient.open(port, '/xapi/turns/turn/stream')
  const quick = await RawClient.open(port, '/xapi/turns/turn/stream')
  await log.untilReading(2)
  slow.socket.pause()
  let written = 0
  let seq = 0
  while (written < MUCH) {
    seq += 1
    const data = message('turn', 'a', 'x'.repeat(seq * 10_000))
    written += data.length
    await appendTo(log, lease, 'processed', [{ seq, data }])
    await quick.until(({ received }) => received > written)
  }
  await appendTo(log, lease, 'processed', [{ seq: seq + 1, data: turnComplete('turn') }], {
    seal: true,
  })
  await quick.until((client) => client.endsWith(LAST_CHUNK))
  slow.socket.resume()
  await slow.until((client) => client.endsWith(LAST_CHUNK))
  expect(quick.received).toBeGreaterThan(MUCH)
  expect(slow.received).toBeLessThan(MUCH / 2)
  const outputs = slow.events.map(({ data }) => JSON.parse(data))
  expect(outputs.at(-1).type).toBe('turn_complete')
  expect(outputs.at(-2).content).toHaveLength(seq * 10_000)
  const lengths = outputs.slice(0, -1).map(({ content }) => content.length)
  expect(lengths).toEqual(lengths.toSorted((a, b) => a - b))
  slow.close()
  quick.close()
}, 60_000)

test('a v2 reader that pauses reads nothing from the log and then gets everything', async () => {
  const log = new CountingLog()
  const lease = await createTurn(log, 'turn')
  const { port } = await serve(log)
  const slow = await RawClient.open(port, '/api/v2/stream/turn')
  await log.untilReading(1)
  slow.socket.pause()
  const text = 'x'.repeat(40_000)
  let seq = 1
  for (; seq < MUCH / text.length; seq++) {
    await appendTo(log, lease, 'events', [{ seq, data: delta('turn', seq, text) }])
  }
  await appendTo(log, lease, 'events', [{ seq, data: responseDone('turn', seq) }], { seal: true })
  // Promise jobs are over then: who wanted to take more would have done so.
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
  expect(log.taken).toBeLessThan(seq / 2)
  slow.socket.resume()
  await slow.until((client) => client.endsWith(LAST_CHUNK))
  expect(log.taken).toBe(seq)
  const ids = slow.events.map(({ id }) => id)
  expect(ids).toEqual(Array.from({ length: seq }, (_, index) => `1-${index + 1}`))
  slow.close()
}, 60_000)

test('a reader that disconnects while behind is released', async () => {
  const log = new CountingLog()
  const lease = await createTurn(log, 'turn')
  const { port } = await serve(log)
  const slow = await RawClient.open(port, '/xapi/turns/turn/stream')
  await log.untilReading(1)
  slow.socket.pause()
  const data = message('turn', 'a', 'x'.repeat(MUCH))
  await appendTo(log, lease, 'processed', [{ seq: 1, data }])
  slow.socket.resetAndDestroy()
  await log.untilReading(0)
  expect(log.taken).toBeLessThanOrEqual(1)
})
