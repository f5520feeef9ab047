// @module-tag slow
/** A thousand connections that send a byte now and then, and never a whole request. */
import { describe, expect, test } from 'vitest'
import { collectGarbage } from '../../../core/test/async/support.ts'
import { RawClient } from './streams/raw-client.ts'
import { call, heldTurn, startServer, type TestServer } from './support.ts'
import { Wire } from './wire.ts'

const SOCKETS = 1000
const DRIP_MS = 100
const HEADERS_MS = 2500
const REQUEST_MS = 3000

const POST = 'POST /api/v2/submit HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n'

/** What a slow one begins with, and what it then sends one character of again and again. */
const KINDS: readonly (readonly [begin: string, drip: string])[] = [
  ['GET /healthz HTTP/1.1\r\nhost: a\r\nx-slow: ', 'y'],
  ['GET /', 'z'],
  [`${POST}content-length: 100000\r\n\r\n{"prompt":"`, 'p'],
  [`${POST}transfer-encoding: chunked\r\n\r\nffff\r\n{"prompt":"`, 'p'],
]

/** Both ends of every connection are here: without room for them the test could only fail in riddles. */
function checkOpenFiles(): void {
  const report = process.report.getReport() as unknown as {
    userLimits: { open_files: { soft: number | string } }
  }
  const { soft } = report.userLimits.open_files
  const needed = 2 * SOCKETS + 500
  if (soft === 'unlimited' || Number(soft) >= needed) return
  throw new Error(`this test opens ${needed} files, and ${soft} are allowed: raise "ulimit -n"`)
}

async function openSlow(url: string): Promise<Wire[]> {
  const wires: Wire[] = []
  for (let opened = 0; opened < SOCKETS; opened += 50) {
    const some = await Promise.all(Array.from({ length: 50 }, () => Wire.open(url)))
    wires.push(...some)
  }
  return wires
}

/** Sends a little on each until the server has closed all of them. */
async function attack(wires: readonly Wire[]): Promise<void> {
  const kindOf = (index: number) => KINDS[index % KINDS.length] ?? ['', '']
  for (const [index, wire] of wires.entries()) wire.send(kindOf(index)[0])
  const timer = setInterval(() => {
    for (const [index, wire] of wires.entries()) if (wire.text === '') wire.send(kindOf(index)[1])
  }, DRIP_MS)
  await Promise.all(wires.map(({ closed }) => closed))
  clearInterval(timer)
}

/** What people do: submit a turn, read its stream to the end, load it, delete it. How long that took, in ms. */
async function useIt(server: TestServer): Promise<number> {
  const startedAt = performance.now()
  const submitted = await call(server, 'POST /api/v2/submit', { body: { prompt: 'Hi' } })
  expect(submitted.status).toBe(202)
  const { turnId, runId, threadId } = submitted.json
  const stream = await call(server, `GET /xapi/turns/${turnId}/stream`)
  expect(stream.json).toContain('turn_complete')
  const run = await call(server, `GET /api/v2/runs/${runId}`)
  expect(run.json.status).toBe('complete')
  // Else the store would grow by as many turns as the machine is fast.
  const deleted = await call(server, `DELETE /api/v2/threads/${threadId}`)
  expect(deleted.status).toBe(204)
  return performance.now() - startedAt
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((each) => each === 'TCPSocketWrap').length
}

async function heapMb(): Promise<number> {
  await collectGarbage()
  await collectGarbage()
  return process.memoryUsage().heapUsed / 2 ** 20
}

/** One attack, while people use the server. */
async function attackWhileUsed(server: TestServer): Promise<{ slow: Wire[]; tookMs: number[] }> {
  const slow = await openSlow(server.url)
  let isOver = false
  const attacked = attack(slow).then(() => {
    isOver = true
  })
  const tookMs: number[] = []
  while (!isOver) {
    const ms = await useIt(server)
    // What was done when most of them had gone shows nothing.
    if (slow.filter(({ isClosed }) => !isClosed).length > SOCKETS / 2) tookMs.push(ms)
  }
  await attacked
  return { slow, tookMs }
}

describe(`${SOCKETS} slow connections`, () => {
  test('get 408 while others are served, and leave nothing behind', async () => {
    checkOpenFiles()
    const server = await startServer({
      port: { headersTimeoutMs: HEADERS_MS, requestTimeoutMs: REQUEST_MS },
    })
    const held = await heldTurn(server)
    const port = Number(new URL(server.url).port)
    const readers = await Promise.all(
      Array.from({ length: 20 }, () => RawClient.open(port, `/xapi/turns/${held.turnId}/stream`)),
    )
    await Promise.all(readers.map((reader) => reader.until(({ body }) => body.length > 0)))
    const before: number[] = []
    for (let each = 0; each < 30; each++) before.push(await useIt(server))
    const sockets = openSockets()

    const first = await attackWhileUsed(server)
    const heap = await heapMb()
    const second = await attackWhileUsed(server)
    for (const { slow, tookMs } of [first, second]) {
      const told = slow.map(({ status, text }) => `${status} ${text.includes('REQUEST_INVALID')}`)
      expect([...new Set(told)]).toEqual(['408 true'])
      expect(tookMs.length).toBeGreaterThan(0)
      expect(median(tookMs)).toBeLessThan(10 * median(before) + 100)
    }

    // A thousand of them would be several MB.
    const { slow } = second
    slow.length = 0
    expect((await heapMb()) - heap).toBeLessThan(4)
    await expect.poll(openSockets).toBeLessThanOrEqual(sockets)
    held.call.say('Still here')
    held.call.finish()
    for (const reader of readers) {
      expect((await reader.whole()).toString()).toContain('Still here')
      reader.close()
    }
    expect(server.errors).toEqual([])
  }, 60_000)
})
