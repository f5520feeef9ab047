/** More connections than the server takes. */

import { readFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { isSliceOver, nextSlice } from '../../../../core/src/async/time-slice.ts'
import { connectionsFor, refusalsFor } from '../../../src/server/limits/port-limits.ts'
import { listen, type RefusedConnections } from '../../../src/server.ts'
import { CountingLog } from '../streams/counting-log.ts'
import { createTurn, gatewayOn } from '../streams/server.ts'
import { Wire } from '../wire.ts'

const GET = (path: string) => `GET ${path} HTTP/1.1\r\nhost: a\r\n\r\n`

async function crowdedServer(maxConnections: number, clock = fakeClock()) {
  const log = new CountingLog()
  const lease = await createTurn(log, 'turn')
  const listening = await listen(gatewayOn(log), { port: 0, maxConnections, clock })
  onTestFinished(() => listening.close())
  let seq = 0

  /** Says something in the turn, and waits until all of these have heard it. */
  async function sayTo(wires: readonly Wire[]): Promise<void> {
    seq += 1
    await appendTo(log, lease, 'processed', [{ seq, data: `{"type":"a","said":"${seq}"}` }])
    await Promise.all(wires.map((wire) => wire.until(`"said":"${seq}"`)))
  }

  return { log, clock, url: listening.url, sayTo, close: () => listening.close() }
}

/** As many connections as the system lets wait at once, up to `most`, that each request something. */
function burst(url: string, onConnect?: () => void, most = 1000): Wire[] {
  const length = Math.min(most, systemBacklog())
  return Array.from({ length }, () => {
    const wire = Wire.start(url)
    wire.socket.once('connect', () => {
      onConnect?.()
      wire.send(GET('/healthz'))
    })
    onTestFinished(() => wire.close())
    return wire
  })
}

/** 128 is the lowest default of the systems that Node runs on. */
function systemBacklog(): number {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'))
  } catch {
    return 128
  }
}

/** Holds the event loop for as long as work may, a millisecond at a time. Returns how many there were. */
function startLongWork(): () => number {
  let steps = 0
  let isOver = false
  onTestFinished(() => {
    isOver = true
  })
  const run = async () => {
    while (!isOver) {
      if (isSliceOver()) await nextSlice()
      const until = performance.now() + 1
      while (performance.now() < until);
      steps += 1
    }
  }
  void run()
  return () => steps
}

async function maxOpenStreams(url: string, count: number): Promise<Wire[]> {
  const wires: Wire[] = []
  for (let each = 0; each < count; each++) {
    const wire = await Wire.open(url)
    wire.send(GET('/xapi/turns/turn/stream'))
    await wire.until('id: 0-0')
    wires.push(wire)
  }
  return wires
}

describe('a connection above the limit', () => {
  test('gets our error response and is closed', async () => {
    const { url } = await crowdedServer(2)
    await maxOpenStreams(url, 2)
    const wire = await Wire.open(url)
    wire.send(GET('/healthz'))
    await wire.closed
    expect([wire.status, wire.code]).toEqual([503, 'CONNECTIONS_LIMITED'])
    expect(wire.header('retry-after')).toBe('1')
    expect(wire.header('connection')).toBe('close')
    expect(wire.header('content-type')).toBe('application/json')
    expect(wire.header('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
    // There is one answer, and it is no other than this.
    expect(wire.text.match(/HTTP\/1\.1/g)).toHaveLength(1)
  })

  test('gets a response that every client understands', async () => {
    const { url } = await crowdedServer(1)
    await maxOpenStreams(url, 1)
    const { status, headers } = await fetch(`${url}/healthz`)
    expect([status, headers.get('retry-after')]).toEqual([503, '1'])
  })

  test('causes no other work, whatever it requests', async () => {
    const { url, log } = await crowdedServer(1)
    await maxOpenStreams(url, 1)
    const wire = await Wire.open(url)
    const body = '{"prompt":"Hi","threadId":"new"}'
    const type = 'content-type: application/json\r\n'
    const size = `content-length: ${body.length}\r\n`
    wire.send(`POST /api/v2/threads HTTP/1.1\r\nhost: a\r\n${type}${size}\r\n${body}`)
    await wire.closed
    expect(wire.status).toBe(503)
    expect(await log.getThread('new')).toBeUndefined()
  })

  test('is closed after a second if its client does not close it', async () => {
    const { url, clock } = await crowdedServer(1)
    await maxOpenStreams(url, 1)
    const wire = await Wire.open(url)
    wire.socket.allowHalfOpen = true
    await wire.until('CONNECTIONS_LIMITED')
    expect(clock.pending()).toBeGreaterThan(0)
    const drip = setInterval(() => wire.send('x'), 10)
    await clock.advance(1000)
    await wire.closed
    clearInterval(drip)
  })

  test('does not disturb the others, and is accepted when one of them closes', async () => {
    const { url, sayTo } = await crowdedServer(3)
    const [first, ...others] = await maxOpenStreams(url, 3)
    for (let each = 0; each < 5; each++) {
      const wire = await Wire.open(url)
      await wire.until('CONNECTIONS_LIMITED')
      wire.close()
    }
    await sayTo([first as Wire, ...others])
    first?.close()
    await expect
      .poll(async () => {
        const wire = await Wire.open(url)
        wire.send(GET('/healthz'))
        await wire.until('\r\n\r\n')
        wire.close()
        return wire.status
      })
      .toBe(200)
    await sayTo(others)
  })
})

test('connections that arrive together are accepted soon, while long work runs', async () => {
  const { url } = await crowdedServer(1000)
  const wires = burst(url, undefined, 100)
  const steps = startLongWork()
  await Promise.all(wires.map((wire) => wire.until('"ok"')))
  // Node accepts one in each iteration of the event loop, which has ten steps otherwise.
  expect(steps()).toBeLessThan(5 * wires.length)
})

describe('under attack by 600 idle connections', () => {
  test('existing clients are served, and new ones when some leave', async () => {
    const { url, sayTo, clock } = await crowdedServer(20)
    const streams = await maxOpenStreams(url, 10)
    const asking = await maxOpenStreams(url, 1)
    asking[0]?.close()
    const attackers = await Promise.all(Array.from({ length: 600 }, () => Wire.open(url)))
    await sayTo(streams)
    // Nine or ten of them have found a place: as many as there were.
    await expect
      .poll(() => attackers.filter(({ text, isClosed }) => text === '' && !isClosed).length)
      .toBeLessThanOrEqual(10)
    const told = attackers.filter(({ text }) => text.includes('CONNECTIONS_LIMITED'))
    expect(told.length).toBeGreaterThan(0)
    expect(streams.some(({ isClosed }) => isClosed)).toBe(false)
    await clock.advance(1000)
    await sayTo(streams)
    for (const attacker of attackers) attacker.close()
    await Promise.all(attackers.map(({ closed }) => closed))
    await expect
      .poll(async () => {
        const wire = await Wire.open(url)
        wire.send(GET('/healthz'))
        await Promise.race([wire.closed, wire.until('"ok"')])
        wire.close()
        return wire.status
      })
      .toBe(200)
    await sayTo(streams)
  }, 30_000)
})

describe('a burst of connections', () => {
  test('is accepted without a retry of the network', async () => {
    const { url } = await crowdedServer(Infinity)
    let connected = 0
    const wires = burst(url, () => {
      connected += 1
    })
    await Promise.race(wires.map((wire) => wire.until('"ok"')))
    expect(connected).toBe(wires.length)
    await Promise.all(wires.map((wire) => wire.until('"ok"')))
  })

  test('above the limit gets a response each', async () => {
    const { url } = await crowdedServer(20)
    const wires = burst(url)
    // None of them makes room for another.
    for (const { socket } of wires) socket.allowHalfOpen = true
    await Promise.all(wires.map((wire) => Promise.race([wire.closed, wire.until('\r\n\r\n')])))
    const count = (status: number) => wires.filter((wire) => wire.status === status).length
    expect([count(200), count(503)]).toEqual([20, wires.length - 20])
  })
})

test('without a limit all connections are accepted', async () => {
  const { url } = await crowdedServer(Infinity)
  const wires = await maxOpenStreams(url, 150)
  expect(wires.every(({ status }) => status === 200)).toBe(true)
})

test('closing the server does not wait for refused connections', async () => {
  const { url, close } = await crowdedServer(1)
  const [stream] = await maxOpenStreams(url, 1)
  const wire = await Wire.open(url)
  await wire.until('CONNECTIONS_LIMITED')
  await Promise.all([close(), stream?.closed, wire.closed])
  expect([stream?.isClosed, wire.isClosed]).toEqual([true, true])
})

test('refused connections are reported once a minute with their number', async () => {
  const clock = fakeClock()
  const reports: RefusedConnections[] = []
  const listening = await listen(gatewayOn(new CountingLog()), {
    port: 0,
    maxConnections: 1,
    clock,
    onConnectionsRefused: (report) => reports.push(report),
  })
  onTestFinished(() => listening.close())
  const first = await Wire.open(listening.url)
  const refuse = async () => {
    const wire = await Wire.open(listening.url)
    await wire.closed
  }
  first.send(GET('/healthz'))
  await first.until('HTTP/1.1 200')
  await refuse()
  await refuse()
  await refuse()
  expect(reports).toEqual([{ refused: 1, maxConnections: 1 }])
  await clock.advance(60_000)
  await refuse()
  expect(reports.slice(1)).toEqual([{ refused: 3, maxConnections: 1 }])
})

test.each([
  [10_000, 1_048_576, 10_000],
  [10_000, 256, 156],
  [10_000, 50, 1],
  [Infinity, undefined, Infinity],
])('%d connections with %d open files: %d', (max, openFiles, expected) => {
  expect(connectionsFor(max, openFiles)).toBe(expected)
})

test.each([
  [10_000, 1_048_576, 4096],
  [10_000, 12_000, 1900],
  [156, 256, 100],
  [Infinity, undefined, 4096],
])('above %d connections with %d open files, refused at once: %d', (max, openFiles, expected) => {
  expect(refusalsFor(max, openFiles)).toBe(expected)
})
