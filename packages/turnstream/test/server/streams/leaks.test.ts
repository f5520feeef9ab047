import { getEventListeners, once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../../../../test/eventually.ts'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { message } from '../../../../conformance/src/turn-log/texts.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { streamsApp } from './context.ts'
import { CountingLog } from './counting-log.ts'
import { RawClient } from './raw-client.ts'
import { createTurn, finishedTurn } from './server.ts'

/** Serves streams with everything that they leave behind in sight. */
async function watched(clock = fakeClock(1000)) {
  const log = await finishedTurn(new CountingLog())
  const open = await createTurn(log, 'open', 'thread-of-open')
  const { app, context, space, closing, errors } = streamsApp(log, clock)
  const listener = getRequestListener((request, env) => app.fetch(request, env))
  const responses: ServerResponse[] = []
  const server = createServer((incoming, outgoing) => {
    responses.push(outgoing)
    void listener(incoming, outgoing)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { log, open, clock, context, space, closing, errors, port, responses }
}

const LEAVING: Record<string, (client: RawClient) => void> = {
  quietly: (client) => client.socket.end(),
  'at once': (client) => client.socket.destroy(),
  'with a reset': (client) => client.socket.resetAndDestroy(),
}

const PATHS = [
  '/api/v2/stream/open',
  '/xapi/turns/open/stream',
  '/xapi/turns/open/stream?encoding=append',
  '/xapi/threads/thread-of-open/stream',
  '/xapi/threads/thread/stream',
]

test.each(Object.keys(LEAVING))('a reader that disconnects %s leaks nothing', async (how) => {
  const { log, clock, context, space, closing, errors, port, responses } = await watched()
  for (const path of PATHS) {
    const client = await RawClient.open(port, path)
    await client.until(({ body }) => body.length > 0)
    LEAVING[how]?.(client)
    await client.closed()
  }
  await eventually(() => {
    expect(context.streams.size).toBe(0)
    expect(space.newTurns.size).toBe(0)
    expect(clock.pending()).toBe(0)
  })
  await log.untilReading(0)
  expect(getEventListeners(closing.signal, 'abort')).toHaveLength(1)
  expect(responses.every((response) => response.listenerCount('drain') === 0)).toBe(true)
  expect(errors).toEqual([])
})

test('a reader that disconnects before the response leaks nothing', async () => {
  const { log, context, errors, port, responses } = await watched()
  let leave: (() => Promise<unknown>) | undefined
  const getTurn = vi.spyOn(log, 'getTurn').mockImplementation(async (turnId) => {
    await leave?.()
    return await CountingLog.prototype.getTurn.call(log, turnId)
  })
  const client = await RawClient.open(port, '/healthz')
  leave = async () => {
    const [response] = responses.slice(-1)
    client.socket.resetAndDestroy()
    await once(response as ServerResponse, 'close')
  }
  client.ask('/xapi/turns/open/stream')
  await client.closed()
  await eventually(() => expect(getTurn).toHaveResolved())
  expect(context.streams.size).toBe(0)
  expect(log.reading).toBe(0)
  expect(errors).toEqual([])
})

test('pipelined requests that were never handled leak nothing', async () => {
  const { log, context, port, responses } = await watched()
  const client = await RawClient.open(port, PATHS[0] ?? '')
  for (const path of PATHS.slice(1)) client.ask(path)
  await eventually(() => expect(context.streams.size).toBe(PATHS.length))
  client.socket.resetAndDestroy()
  await eventually(() => expect(context.streams.size).toBe(0))
  await log.untilReading(0)
  expect(responses).toHaveLength(PATHS.length)
})

test('pipelined requests are answered one after the other', async () => {
  const { port, responses } = await watched()
  const warned = vi.spyOn(process, 'emitWarning')
  const client = await RawClient.open(port, '/xapi/turns/turn/stream')
  for (let each = 0; each < 15; each++) client.ask('/xapi/turns/turn/stream')
  const whole = (bytes: Buffer) => bytes.toString().split('0\r\n\r\n').length - 1
  await client.until(({ bytes }) => whole(bytes) === 16)
  const [socket] = responses.map(({ req }) => req.socket)
  expect(socket?.listenerCount('close')).toBeLessThan(10)
  expect(warned).not.toHaveBeenCalled()
  client.close()
})

test('1,000 readers leak nothing', async () => {
  const { log, open, clock, context, space, closing, port } = await watched()
  const hows = Object.values(LEAVING)
  for (let round = 0; round < 20; round++) {
    const clients = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        RawClient.open(port, PATHS[index % PATHS.length] ?? ''),
      ),
    )
    await Promise.all(clients.map((client) => client.until(({ body }) => body.length > 0)))
    const seq = round + 1
    await appendTo(log, open, 'processed', [{ seq, data: message('open', 'a', `${seq}`) }])
    for (const [index, client] of clients.entries()) hows[index % hows.length]?.(client)
    await Promise.all(clients.map((client) => client.closed()))
  }
  await eventually(() => {
    expect(context.streams.size).toBe(0)
    expect(space.newTurns.size).toBe(0)
    expect(clock.pending()).toBe(0)
  })
  await log.untilReading(0)
  expect(getEventListeners(closing.signal, 'abort')).toHaveLength(1)
}, 60_000)

test('a finished turn leaks nothing, and no timer keeps the process alive', async () => {
  const { log, context, port } = await watched()
  const real = streamsApp(log, systemClock)
  const timers = () => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length
  const before = timers()
  const answer = await real.app.request('/xapi/turns/turn/stream')
  await answer.text()
  expect(real.context.streams.size).toBe(0)
  expect(timers()).toBe(before)
  const client = await RawClient.open(port, '/xapi/turns/turn/stream')
  await client.whole()
  expect(context.streams.size).toBe(0)
  expect(log.reading).toBe(0)
  client.close()
})

test('closing the server ends every stream and leaks nothing', async () => {
  const { log, clock, context, space, closing, port } = await watched()
  const clients = await Promise.all(PATHS.map((path) => RawClient.open(port, path)))
  await Promise.all(clients.map((client) => client.until(({ body }) => body.length > 0)))
  expect(context.streams.size).toBe(PATHS.length)
  closing.abort()
  expect(context.streams.size).toBe(0)
  await Promise.all(clients.map((client) => client.whole()))
  await log.untilReading(0)
  await eventually(() => expect(space.newTurns.size).toBe(0))
  expect(clock.pending()).toBe(0)
  for (const client of clients) client.close()
})

test('100 readers of a turn share the bytes of its frames', async () => {
  const { log, open, port } = await watched()
  const clients = await Promise.all(
    Array.from({ length: 100 }, () => RawClient.open(port, '/xapi/turns/open/stream')),
  )
  await log.untilReading(100)
  await Promise.all(clients.map((client) => client.until(({ body }) => body.length > 0)))
  const made = vi.spyOn(Buffer, 'from')
  const records = ['first', 'second', 'third'].map((text) =>
    message('open', text, text).replace('update', 'create'),
  )
  for (const [index, data] of records.entries()) {
    await appendTo(log, open, 'processed', [{ seq: index + 1, data }])
    const isThere = ({ body }: RawClient) => body.includes(data)
    await Promise.all(clients.map((client) => client.until(isThere)))
  }
  const texts: unknown[] = made.mock.calls.map(([text]) => text)
  const frames = texts.filter((text) => typeof text === 'string' && text.includes('id: 1-'))
  expect(frames).toHaveLength(records.length)
  for (const client of clients) client.close()
})

test('records that become visible together are written together', async () => {
  const { log, open, port, responses } = await watched()
  const client = await RawClient.open(port, '/xapi/turns/open/stream')
  await log.untilReading(1)
  await client.until(({ body }) => body.length > 0)
  // Where time passes, other work may come between two records.
  vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  const socket = responses.at(-1)?.socket
  const written = socket?.bytesWritten ?? 0
  const uncorked = vi.spyOn(socket as NonNullable<typeof socket>, '_writev')
  const texts = Array.from({ length: 20 }, (_, index) => message('open', `${index}`, 'text'))
  const records = texts.map((data, index) => ({ seq: index + 1, data }))
  await appendTo(log, open, 'processed', records)
  await client.until(({ events }) => events.length === 20)
  expect(uncorked).toHaveBeenCalledTimes(1)
  expect(socket?.bytesWritten).toBeGreaterThan(written)
  client.close()
})
