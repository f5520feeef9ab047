import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, test, vi } from 'vitest'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { ACME, guardedServer, OTHER, withKey } from '../auth/support.ts'
import { CountingLog } from '../streams/counting-log.ts'
import { codeOf, get, RawClient } from '../streams/raw-client.ts'
import { createTurn, finishedTurn, gatewayOn, type Served, serve } from '../streams/server.ts'
import { call, startServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'

const LIMIT = 3
const limits = { ...UNLIMITED, maxOpenStreams: LIMIT }

/** A server with a turn that has ended, `turn`, and one that has not, `open`. */
async function served() {
  const log = await finishedTurn(new CountingLog())
  const lease = await createTurn(log, 'open', 'thread-of-open')
  const server = await serve(log, { limits })
  return { ...server, log, lease }
}

const OPEN = '/xapi/turns/open/stream'
const PATHS = [
  OPEN,
  `${OPEN}?encoding=append`,
  '/api/v2/stream/open',
  '/xapi/threads/thread-of-open/stream',
]

async function openStream(port: number, path = OPEN): Promise<RawClient> {
  const client = await RawClient.open(port, path)
  await client.until(({ body }) => body.length > 0)
  return client
}

async function openAll(port: number): Promise<RawClient[]> {
  return await Promise.all(Array.from({ length: LIMIT }, () => openStream(port)))
}

/** Whether there is room for exactly as many streams as there may be: for all of them, and for no more. */
async function hasAllPlaces({ port }: Pick<Served, 'port'>): Promise<boolean> {
  const clients: RawClient[] = []
  for (let each = 0; each <= LIMIT; each++) {
    const client = await RawClient.open(port, OPEN)
    await client.until(({ body }) => body.length > 0)
    clients.push(client)
  }
  const statuses = clients.map(({ head }) => head?.status)
  for (const client of clients) client.close()
  await Promise.all(clients.map((client) => client.closed()))
  return statuses.join() === [...Array.from({ length: LIMIT }, () => 200), 429].join()
}

describe('the open streams of a key', () => {
  test.each(PATHS)('are refused above the limit before streaming: %s', async (path) => {
    const { port, errors } = await served()
    await openAll(port)
    const { status, headers, body } = await get(port, path)
    expect([status, codeOf(body)]).toEqual([429, 'STREAMS_LIMITED'])
    expect(headers['retry-after']).toBe('5')
    expect(headers['content-type']).toBe('application/json')
    expect(errors).toEqual([])
  })

  test('are not disturbed by a refused one', async () => {
    const { port, log, lease } = await served()
    const clients = await openAll(port)
    expect((await get(port, OPEN)).status).toBe(429)
    await appendTo(log, lease, 'processed', [{ seq: 1, data: '{"type":"x"}' }])
    await Promise.all(clients.map((client) => client.until(({ events }) => events.length === 1)))
  })

  const FREE: Record<string, (port: number) => Promise<unknown>> = {
    'a request for the head alone': async (port) => {
      const { status } = await fetch(`http://127.0.0.1:${port}${OPEN}`, { method: 'HEAD' })
      expect(status).toBe(200)
    },
    'an end that was seen': async (port) => {
      const path = '/xapi/turns/turn/stream?from=1-9999'
      expect((await get(port, path)).status).toBe(204)
    },
    'a turn that is not there': async (port) => {
      expect((await get(port, '/xapi/turns/no/stream')).status).toBe(404)
    },
    'a thread that is not there': async (port) => {
      expect((await get(port, '/xapi/threads/no/stream')).status).toBe(404)
    },
    'a cursor that is none': async (port) => {
      expect((await get(port, `${OPEN}?from=x`)).status).toBe(400)
    },
    'what is no stream': async (port) => {
      expect((await get(port, '/xapi/turns/open')).status).toBe(200)
    },
  }

  test.each(Object.entries(FREE))('do not count %s, even when all are open', async (_name, ask) => {
    const server = await served()
    const clients = await openAll(server.port)
    for (let each = 0; each < LIMIT + 1; each++) await ask(server.port)
    for (const client of clients) client.close()
    await expect.poll(() => hasAllPlaces(server)).toBe(true)
  })
})

describe('a stream releases its own slot only', () => {
  const LEAVING: Record<string, (client: RawClient) => void> = {
    'whose reader leaves quietly': (client) => client.socket.end(),
    'whose reader leaves at once': (client) => client.socket.destroy(),
    'whose reader resets the connection': (client) => client.socket.resetAndDestroy(),
  }

  test.each(Object.entries(LEAVING))('%s', async (_name, leave) => {
    const server = await served()
    for (const path of PATHS) {
      for (let each = 0; each < LIMIT; each++) {
        const client = await openStream(server.port, path)
        leave(client)
        await client.closed()
      }
      await expect.poll(() => hasAllPlaces(server)).toBe(true)
    }
    expect(server.errors).toEqual([])
  })

  test('after 300 readers that reset at random moments', async () => {
    const server = await served()
    for (let round = 0; round < 10; round++) {
      const clients = await Promise.all(
        Array.from({ length: 30 }, (_, index) =>
          RawClient.open(server.port, PATHS[index % PATHS.length] ?? OPEN),
        ),
      )
      const some = clients.filter((_, index) => index % 3 !== 0)
      await Promise.all(some.map((client) => client.changed()))
      for (const client of clients) client.socket.resetAndDestroy()
      await Promise.all(clients.map((client) => client.closed()))
    }
    await expect.poll(() => hasAllPlaces(server)).toBe(true)
    expect(server.errors).toEqual([])
  })

  test('when it ends', async () => {
    const server = await served()
    for (let each = 0; each < 3 * LIMIT; each++) {
      const { status, body } = await get(server.port, '/xapi/turns/turn/stream')
      expect([status, body.includes('turn_complete')]).toEqual([200, true])
    }
    expect(await hasAllPlaces(server)).toBe(true)
  })

  test('when its turn is deleted', async () => {
    const server = await served()
    const clients = await openAll(server.port)
    await server.log.deleteTurn('open')
    await Promise.all(clients.map((client) => client.whole()))
    await createTurn(server.log, 'open', 'again')
    await expect.poll(() => hasAllPlaces(server)).toBe(true)
  })

  test('when the store fails', async () => {
    const server = await served()
    const tail = vi.spyOn(server.log, 'tail').mockImplementation(() => {
      throw new TurnstreamError('STORE_UNAVAILABLE', 'tail')
    })
    for (let each = 0; each < 2 * LIMIT; each++) {
      const client = await RawClient.open(server.port, OPEN)
      await client.closed()
      expect(client.answer.isWhole).toBe(false)
    }
    tail.mockRestore()
    expect(server.errors).toHaveLength(2 * LIMIT)
    expect(await hasAllPlaces(server)).toBe(true)
  })

  test('when it is reset with others pipelined behind it, which wait', async () => {
    const server = await served()
    const client = await openStream(server.port)
    for (let each = 0; each < LIMIT; each++) client.ask(OPEN)
    await server.log.untilReading(1)
    client.socket.resetAndDestroy()
    await expect.poll(() => hasAllPlaces(server)).toBe(true)
  })

  test('when its headers cannot be sent, or its reader has disconnected', async () => {
    const log = await finishedTurn(new CountingLog())
    await createTurn(log, 'open', 'thread-of-open')
    const { app } = gatewayOn(log, { limits })
    for (let each = 0; each < 2 * LIMIT; each++) {
      const outgoing = new ServerResponse(new IncomingMessage(new Socket()))
      outgoing.writeHead = () => {
        throw new Error('no head')
      }
      if (each % 2 === 0) outgoing.destroy()
      const { status } = await app.request(OPEN, {}, { outgoing })
      expect(status).toBe(each % 2 === 0 ? 200 : 500)
    }
    const answers = await Promise.all(
      Array.from({ length: LIMIT + 1 }, async () => app.request(OPEN)),
    )
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429])
    for (const { body } of answers) await body?.cancel()
  })

  test('when the app is called as a function', async () => {
    const log = await finishedTurn(new CountingLog())
    await createTurn(log, 'open', 'thread-of-open')
    const { app } = gatewayOn(log, { limits })
    const ask = async () => app.request(OPEN)
    for (let round = 0; round < 3; round++) {
      const answers = await Promise.all(Array.from({ length: LIMIT }, ask))
      expect((await ask()).status).toBe(429)
      for (const { status, body } of answers) {
        expect(status).toBe(200)
        await body?.cancel()
      }
    }
  })
})

describe('a combined submit and stream', () => {
  const post = (server: Awaited<ReturnType<typeof startServer>>, fields: object = {}) =>
    call(server, 'POST /xapi/threads/thread/turn', { body: { prompt: 'Hi', ...fields } })

  test('creates no turn when its stream exceeds the limit', async () => {
    const server = await startServer({ limits: { ...limits, submitsPerMinute: 1 } })
    const port = Number(new URL(server.url).port)
    await createTurn(server.log, 'open', 'thread-of-open')
    const clients = await openAll(port)
    const { status, headers, json } = await post(server, { turnId: 'turn' })
    expect([status, json.error.code]).toEqual([429, 'STREAMS_LIMITED'])
    expect(headers.get('retry-after')).toBe('5')
    expect(await server.log.getTurn('turn')).toBeUndefined()
    expect(await server.log.getThread('thread')).toBeUndefined()
    for (const client of clients) client.close()
    // Nor was it counted as a submit.
    await expect.poll(async () => (await post(server, { turnId: 'turn' })).status).toBe(200)
  })

  const REFUSED: Record<string, object> = {
    MODEL_UNKNOWN: { providerId: 'nobody' },
    REQUEST_INVALID: { prompt: '' },
    SUBMIT_CONFLICT: { turnId: 'first', prompt: 'Ho' },
  }

  test.each(Object.entries(REFUSED))(
    'releases the slot when it is refused: %s',
    async (code, fields) => {
      const server = await startServer({ limits })
      expect((await post(server, { turnId: 'first' })).status).toBe(200)
      for (let each = 0; each < 2 * LIMIT; each++) {
        expect((await post(server, fields)).json.error.code).toBe(code)
      }
      await createTurn(server.log, 'open', 'thread-of-open')
      expect(await hasAllPlaces({ port: Number(new URL(server.url).port) })).toBe(true)
    },
  )

  test('releases the slot when the turn is gone before it is read', async () => {
    const server = await startServer({ limits })
    const getTurn = vi.spyOn(server.log, 'getTurn').mockResolvedValue(undefined)
    for (let each = 0; each < 2 * LIMIT; each++) {
      const { json } = await call(server, `POST /xapi/threads/h${each}/turn`, {
        body: { prompt: 'Hi' },
      })
      expect(json.error.code).toBe('TURN_UNKNOWN')
    }
    getTurn.mockRestore()
    await createTurn(server.log, 'open', 'thread-of-open')
    expect(await hasAllPlaces({ port: Number(new URL(server.url).port) })).toBe(true)
  })

  test('releases the slot at its end', async () => {
    const server = await startServer({ limits })
    for (let each = 0; each < 3 * LIMIT; each++) expect((await post(server)).status).toBe(200)
  })
})

test('a key with all its streams open does not affect another', async () => {
  const server = await guardedServer({ limits: { ...limits, maxOpenStreams: 1 } })
  const port = Number(new URL(server.url).port)
  for (const [tenant, key] of [
    ['acme', ACME],
    ['umbrella', OTHER],
  ] as const) {
    await createTurn(server.log.ofTenant(tenant), 'open')
    const client = await RawClient.open(port, OPEN, { headers: withKey(key) })
    await client.until(({ body }) => body.length > 0)
    expect(client.head?.status).toBe(200)
    expect((await get(port, OPEN, { headers: withKey(key) })).status).toBe(429)
  }
})
