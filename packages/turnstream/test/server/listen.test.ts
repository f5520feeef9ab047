import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import {
  createGateway,
  type Gateway,
  type ListenOptions,
  listen,
  MemoryLog,
  Providers,
} from '../../src/server.ts'
import { HeldProvider } from './held-provider.ts'
import { call, heldTurn, sealed, startServer } from './support.ts'

function newGateway(): Gateway {
  const provider = { provider: new HeldProvider(), models: [], defaultModel: 'm' }
  return createGateway({
    log: new MemoryLog(),
    instance: 'test',
    providers: new Providers([provider]),
  })
}

describe('a port', () => {
  test.each(['127.0.0.1', '::1', 'localhost'])(
    'opens on %s, and the URL is correct',
    async (host) => {
      const server = await startServer({ host })
      expect(server.url).toMatch(
        host === '::1' ? /^http:\/\/\[::1\]:\d+$/ : /^http:\/\/[a-z0-9.]+:\d+$/,
      )
      expect((await call(server, 'GET /healthz')).status).toBe(200)
    },
  )

  const REFUSED: [name: string, options: ListenOptions, advice: string][] = [
    ['an address of another machine', { host: '203.0.113.1', port: 0 }, 'not have the address'],
    ['a name that is none', { host: 'no.such.host.invalid', port: 0 }, 'unknown host'],
    ['a number that is no port', { port: 70_000 }, 'from 0 to 65535'],
    ['a limit that is none', { port: 0, maxConnections: 0 }, 'Infinity for no limit, not 0'],
  ]

  test.each(REFUSED)('%s is OPTION_INVALID', async (_name, options, advice) => {
    const opening = listen(newGateway(), options)
    await expect(opening).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(opening).rejects.toThrow(advice)
  })

  test('closes the log that it was given, after the gateway', async () => {
    const closed: string[] = []
    const server = await listen(newGateway(), {
      port: 0,
      log: {
        close: async () => {
          closed.push(
            (await fetch(`${server.url}/healthz`).catch(() => undefined)) ? 'open' : 'closed',
          )
        },
      },
    })
    await server.close()
    await server.close()
    expect(closed).toEqual(['closed'])
  })

  test('in use is OPTION_INVALID, and its gateway is closed', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    onTestFinished(() => void other.close())
    const { port } = other.address() as AddressInfo
    const gateway = newGateway()
    let isLogClosed = false
    const log = {
      close: async () => {
        isLogClosed = true
      },
    }
    const opening = listen(gateway, { port, log })
    await expect(opening).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(opening).rejects.toThrow(
      `cannot open port ${port} on 127.0.0.1: it is already in use. Stop`,
    )
    const input = [{ type: 'message', origin: 'user', content: 'Hi' }] as const
    await expect(gateway.turns.submit({ input })).rejects.toMatchObject({ code: 'SERVER_SHUTDOWN' })
    expect(isLogClosed).toBe(true)
  })
})

describe('closing', () => {
  test('waits for running turns, lets readers see their end, then closes the port', async () => {
    const server = await startServer({ shutdownGraceMs: 60_000 })
    const { turnId, call: running } = await heldTurn(server)
    const reading = await fetch(`${server.url}/xapi/turns/${turnId}/stream`)
    const closed = server.close()
    running.say('The last words')
    running.finish()
    const text = await reading.text()
    expect(text).toContain('The last words')
    expect(text).toContain('turn_complete')
    await closed
    await expect(fetch(`${server.url}/healthz`)).rejects.toThrow('fetch failed')
  })

  test('D5 ends running turns after the grace period', async () => {
    const server = await startServer({ shutdownGraceMs: 0 })
    const { turnId } = await heldTurn(server)
    await server.close()
    await sealed(server.log, turnId)
    expect(await server.log.getTurn(turnId)).toMatchObject({
      status: 'error',
      error: { code: 'SERVER_SHUTDOWN' },
    })
  })

  test('ends endless streams', async () => {
    const server = await startServer()
    await server.log.putThread({ threadId: 'h' })
    const reading = await fetch(`${server.url}/xapi/threads/h/stream`)
    await server.close()
    expect(await reading.text()).toContain('retry: 1000')
  })

  test('does not wait for idle connections', async () => {
    const clock = fakeClock()
    const gateway = newGateway()
    const listening = await listen(gateway, { port: 0, clock })
    const { port } = new URL(listening.url)
    const unused = connect(Number(port), '127.0.0.1')
    await once(unused, 'connect')
    await fetch(`${listening.url}/healthz`)
    const ended = once(unused, 'close')
    unused.resume()
    await listening.close()
    await ended
    expect(clock.pending()).toBe(0)
  })

  test('disconnects clients that do not read, after a while', async () => {
    const clock = fakeClock()
    const gateway = newGateway()
    // An answer that never ends, as that of a reader which takes nothing would.
    const accepted = new Promise<void>((resolve) => {
      gateway.app.get('/slow', () => {
        resolve()
        return new Response(new ReadableStream())
      })
    })
    const listening = await listen(gateway, { port: 0, clock })
    const reading = fetch(`${listening.url}/slow`).then((response) => response.text())
    reading.catch(() => {})
    await accepted
    const closed = listening.close()
    await expect.poll(() => clock.pending(), { timeout: 4000 }).toBe(1)
    await clock.advance(2000)
    await closed
    await expect(reading).rejects.toThrow(TypeError)
  })

  test('may be called twice', async () => {
    const server = await startServer()
    const twice = Promise.all([server.close(), server.close(), server.gateway.close()])
    await expect(twice).resolves.toHaveLength(3)
  })
})

test('D5 orphaned turns of an earlier process are ended before the port opens', async () => {
  const log = new MemoryLog()
  await log.create({ turnId: 'turn', threadId: 'thread', owner: 'dead' }, 0)
  const server = await startServer({ log })
  const { json } = await call(server, 'GET /api/v2/runs/turn')
  expect(json).toMatchObject({ status: 'error', error: { code: 'PRODUCER_LOST' } })
})
