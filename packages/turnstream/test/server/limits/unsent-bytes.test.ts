/** Clients of a key that do not read what they are sent, on real sockets. */

import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { Caller } from '../../../src/server/auth/authenticate.ts'
import { KeyLimits } from '../../../src/server/limits/key-limits.ts'
import { UnsentBytes } from '../../../src/server/limits/unsent-bytes.ts'
import { ACME, guardedServer, OTHER } from '../auth/support.ts'
import { writeLongTurn } from '../fairness/long-turns.ts'
import type { TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'
import { Wire } from '../wire.ts'

const MB = 1024 * 1024

/** Two tenants with a turn of 16 MB each, which is more than sockets hold. */
async function bigServer(maxUnsentBytes: number): Promise<TestServer> {
  const server = await guardedServer({ limits: { ...UNLIMITED, maxUnsentBytes } })
  for (const tenant of ['acme', 'umbrella']) {
    const log = server.log.ofTenant(tenant)
    await writeLongTurn(log, { turnId: 'big', threadId: 'h', deltas: 16, text: 'x'.repeat(MB) })
    await writeLongTurn(log, { turnId: 'smaller', deltas: 2, text: 'x'.repeat(MB) })
  }
  return server
}

const PAGES = {
  'a turn': '/xapi/turns/big',
  'a page of a thread': '/xapi/threads/h',
  'a run': '/api/v2/runs/big',
}

async function request(server: TestServer, path: string, key: string): Promise<Wire> {
  const wire = await Wire.open(server.url)
  wire.send(`GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n\r\n`)
  return wire
}

/** Asks, and stops reading with the first bytes of the answer. */
async function unread(server: TestServer, path: string, key = ACME): Promise<Wire> {
  const wire = await request(server, path, key)
  await wire.until('\r\n\r\n')
  wire.socket.pause()
  return wire
}

/** Reads on until a text comes, and keeps no more than the end. */
async function readUntil({ socket, text }: Wire, wanted: string): Promise<void> {
  let end = text.slice(-1000)
  await new Promise<void>((resolve) => {
    socket.removeAllListeners('data')
    socket.on('data', (chunk: string) => {
      end = (end + chunk).slice(-chunk.length - wanted.length)
      if (end.includes(wanted)) resolve()
    })
  })
}

async function status(server: TestServer, path: string, key = ACME): Promise<string> {
  const wire = await request(server, path, key)
  await wire.until('\r\n\r\n')
  const answer = `${wire.status} ${wire.header('retry-after') ?? ''}`.trim()
  if (wire.status === 429) await wire.until('UNREAD_LIMITED')
  wire.close()
  await wire.closed
  return answer
}

describe.each(Object.entries(PAGES))('%s', (_name, path) => {
  test('is refused while earlier responses of the key are unread, but not for another key', async () => {
    const server = await bigServer(20 * MB)
    const stuck = await unread(server, path)
    expect(await status(server, path)).toBe('429 5')
    expect(await status(server, path, OTHER)).toBe('200')
    stuck.close()
    await expect.poll(() => status(server, path)).toBe('200')
    expect(server.errors).toEqual([])
  })

  test('is sent even if it alone exceeds the limit', {
    tags: ['slow'],
  }, async () => {
    const server = await bigServer(1)
    const wire = await request(server, path, ACME)
    await wire.until('\r\n\r\n')
    await readUntil(wire, ']}')
    expect(wire.status).toBe(200)
    expect(Number(wire.header('content-length'))).toBeGreaterThan(16 * MB)
    wire.close()
  })
})

test('a response with another request behind it is released with its connection', async () => {
  const server = await bigServer(20 * MB)
  const wire = await Wire.open(server.url)
  const one = `GET /xapi/turns/big HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${ACME}\r\n\r\n`
  wire.send(one + one)
  await wire.until('\r\n\r\n')
  wire.socket.pause()
  await expect.poll(() => status(server, '/xapi/turns/big')).toBe('429 5')
  wire.close()
  await expect.poll(() => status(server, '/xapi/turns/big')).toBe('200')
})

describe('a stream', () => {
  const STREAM = '/xapi/turns/big/stream'

  test.each([
    [STREAM, '"complete"'],
    ['/api/v2/stream/big', '"complete"'],
    ['/xapi/threads/h/stream', '"complete"'],
    ['/v1/responses/resp_smaller?stream=true', '[DONE]'],
    ['/v1/messages/msg_smaller?stream=true', 'message_stop'],
  ])(
    '%s waits while others of its key are unread, then continues',
    { tags: ['slow'] },
    async (path, last) => {
      const server = await bigServer(8 * MB)
      const stuck = await unread(server, STREAM)
      await expect.poll(() => status(server, '/xapi/turns/big')).toBe('429 5')
      const held = await request(server, path, ACME)
      await held.until('\r\n\r\n')
      const other = await request(server, path, OTHER)
      await readUntil(other, last)
      expect(held.text.length).toBeLessThan(MB)
      stuck.close()
      await readUntil(held, last)
      for (const wire of [held, other]) wire.close()
      expect(server.errors).toEqual([])
    },
  )
})

test('a stream of small frames does not wait for unread ones of its key', async () => {
  const server = await bigServer(8 * MB)
  const log = server.log.ofTenant('acme')
  await writeLongTurn(log, { turnId: 'small', deltas: 10 })
  const stuck = await unread(server, '/xapi/turns/big/stream')
  await expect.poll(() => status(server, '/xapi/turns/big')).toBe('429 5')
  const small = await request(server, '/xapi/turns/small/stream', ACME)
  await small.until('turn_complete')
  for (const wire of [small, stuck]) wire.close()
})

describe('the unsent bytes of a key', () => {
  const CALLER: Caller = { tenant: 'acme', key: 'one' }

  test('let the oldest of the streams that keep too much go on', () => {
    const unsent = new UnsentBytes(10)
    const streams = [{}, {}, {}] as const
    for (const stream of streams) unsent.keep(stream, 2)
    unsent.keep(streams[0], 8)
    expect(streams.map((stream) => unsent.mustWait(stream))).toEqual([false, true, true])
    unsent.forget(streams[0])
    expect(streams.map((stream) => unsent.mustWait(stream))).toEqual([false, false, false])
    const release = unsent.hold(10)
    expect(streams.map((stream) => unsent.mustWait(stream))).toEqual([true, true, true])
    release()
    expect(unsent.size).toBe(4)
  })

  test('are released once', () => {
    const unsent = new UnsentBytes(10)
    const release = unsent.hold(7)
    unsent.hold(2)
    release()
    release()
    expect(unsent.size).toBe(2)
  })

  test('admit waiting responses one after the other', async () => {
    const unsent = new UnsentBytes(10)
    const { signal } = new AbortController()
    const held: (() => void)[] = [unsent.hold(10)]
    for (let each = 0; each < 3; each++) {
      void (async () => {
        while (unsent.isFull) await unsent.room(signal)
        held.push(unsent.hold(10))
      })()
    }
    for (const count of [2, 3, 4]) {
      held.at(-1)?.()
      await new Promise((resolve) => void setImmediate(resolve))
      expect([held.length, unsent.size]).toEqual([count, 10])
    }
  })

  test('release a reader that disconnects', async () => {
    const unsent = new UnsentBytes(10)
    const reader = new AbortController()
    unsent.hold(10)
    const waits = unsent.room(reader.signal)
    reader.abort()
    await waits
    expect(unsent.isFull).toBe(true)
  })

  test('keep the key from being forgotten', async () => {
    const clock = fakeClock(1_000_000)
    const limits = new KeyLimits({ ...UNLIMITED, maxUnsentBytes: 10 }, clock)
    const release = limits.holdAnswer(CALLER, 10)
    await clock.advance(120_000)
    limits.takeStream({ tenant: 'acme', key: 'other' }).free()
    expect(limits.size).toBe(2)
    expect(() => limits.holdAnswer(CALLER, 1)).toThrow('unread')
    release()
    limits.holdAnswer(CALLER, 1)()
  })
})
