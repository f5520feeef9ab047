/**
 * Requests that no client should send, over real sockets: the server refuses them, gives the reason in its own
 * form, and goes on. `TURNSTREAM_FUZZ_SEED=7` sends others.
 */

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { finishedTurn, startServer, type TestServer } from '../support.ts'
import { answersIn, faultOf, type RawAnswer } from './fuzz/answers.ts'
import { Dice } from './fuzz/dice.ts'
import { exchange } from './fuzz/exchange.ts'
import { type Attack, Generators } from './fuzz/generators.ts'

const SEED = Number(process.env['TURNSTREAM_FUZZ_SEED'] ?? 20_260_101)
const AT_ONCE = 32
const HEARTBEAT_MS = 15_000

const unhandled: unknown[] = []
const note = (error: unknown) => unhandled.push(error)

beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})
afterEach(() => void process.off('unhandledRejection', note))

/** Sends the attacks, many of them side by side, and hands each over with what it was answered. */
async function send(
  port: number,
  attacks: Iterable<Attack>,
  onAnswer: (attack: Attack, bytes: Buffer) => void,
): Promise<void> {
  const queue = attacks[Symbol.iterator]()
  const sender = async () => {
    for (let next = queue.next(); next.done !== true; next = queue.next()) {
      onAnswer(next.value, await exchange(port, next.value))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, sender))
}

function* attacksOn(server: TestServer, count: number): Generator<Attack> {
  const generators = new Generators(new Dice(SEED), server.document)
  for (let left = count; left > 0; left--) yield generators.next()
}

function openSockets(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
}

/** What an attack is known by in a report. */
function shown({ kind, pieces }: Attack): string {
  return `seed ${SEED}, ${kind}: ${JSON.stringify(Buffer.concat(pieces).toString('latin1').slice(0, 2000))}`
}

describe('malformed requests are refused with a code and have no effect', () => {
  test('500 requests', { timeout: 60_000 }, async () => {
    const statuses = await attack(500)
    expect([...statuses.keys()]).toEqual(expect.arrayContaining([400, 404]))
  })

  test('10,000 requests', { timeout: 120_000, tags: ['slow'] }, async () => {
    const statuses = await attack(10_000)
    // The requests reached all layers: bytes, addresses, routes, bodies, turns and streams.
    const met = [200, 201, 202, 204, 400, 403, 404, 405, 409, 413, 414, 415, 431]
    expect([...statuses.keys()]).toEqual(expect.arrayContaining(met))
  })

  /** Returns how often each status came. */
  async function attack(count: number): Promise<Map<number, number>> {
    const noise = [vi.spyOn(console, 'error'), vi.spyOn(console, 'info'), vi.spyOn(console, 'warn')]
    const clock = fakeClock()
    const limits = {
      submitsPerMinute: Infinity,
      maxRunningTurns: Infinity,
      maxOpenStreams: Infinity,
    }
    const server = await startServer({ clock, limits, maxBodyBytes: 16_384 })
    await finishedTurn(server, { turnId: 'known', threadId: 'known' })
    await finishedTurn(server, { turnId: 'other', threadId: 'other' })
    const quiet = { sockets: openSockets(), timers: clock.pending() }
    const statuses = new Map<number, number>()
    const faults: string[] = []

    await send(Number(new URL(server.url).port), attacksOn(server, count), (sent, bytes) => {
      const report = (fault: string) => faults.push(`${fault}: ${shown(sent)}`)
      let answers: RawAnswer[] = []
      try {
        answers = answersIn(bytes)
      } catch (error) {
        report(String(error))
      }
      for (const answer of answers) {
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        const fault = faultOf(answer)
        if (fault !== undefined) report(`${fault}: ${JSON.stringify(answer.body.slice(0, 500))}`)
      }
    })

    expect(faults).toEqual([])
    expect(server.errors, `seed ${SEED}`).toEqual([])
    expect(unhandled, `seed ${SEED}`).toEqual([])
    expect(noise.flatMap((spy) => spy.mock.calls)).toEqual([])
    // Nothing is left, and a normal turn goes as it should.
    // Behind a stream on which others wait for their turn nothing is read: who has left is noticed by heartbeats.
    const beaten = async (look: () => number) => {
      await clock.advance(HEARTBEAT_MS)
      return look()
    }
    const patience = { timeout: 10_000 }
    await expect.poll(() => beaten(() => clock.pending()), patience).toBe(quiet.timers)
    // Those of `fetch` were there before, and may have gone in the meantime.
    await expect.poll(openSockets, patience).toBeLessThanOrEqual(quiet.sockets)
    expect(server.gateway.turns.running).toBe(0)
    expect(await server.log.getThread('known')).toBeDefined()
    await finishedTurn(server, { turnId: 'after' })
    return statuses
  }
})

describe('the checker', () => {
  const GOOD = { 'x-request-id': 'a', 'x-content-type-options': 'nosniff' }
  const raw = (status: number, headers: Record<string, string>, body = '') => {
    const fields = { ...headers, 'content-length': String(Buffer.byteLength(body)) }
    const lines = Object.entries(fields).map(([name, value]) => `${name}: ${value}\r\n`)
    return Buffer.from(`HTTP/1.1 ${status} Something\r\n${lines.join('')}\r\n${body}`)
  }
  const refusal = (code: string) => JSON.stringify({ error: { code, message: 'No' } })
  const json = { ...GOOD, 'content-type': 'application/json' }

  test.each([
    ['a failure of the server', raw(500, json, refusal('INTERNAL_ERROR'))],
    [
      'it reveals internals',
      raw(404, json, '{"error":"/srv/turnstream/src/server/gateway.ts:12"}'),
    ],
    ['it reveals internals', raw(200, json, 'TypeError: x\n    at run (file:1:1)')],
    ['it has no request id', raw(200, { 'x-content-type-options': 'nosniff' })],
    ['it lacks security headers', raw(404, { 'x-request-id': 'a' })],
    [
      'the stream has an invalid line',
      raw(200, { ...GOOD, 'content-type': 'text/event-stream' }, 'data: x\nError: x\n'),
    ],
    ['the error is not JSON', raw(400, GOOD, 'Bad Request')],
    ['the refusal has no code', raw(400, json, refusal('OOPS'))],
    ['the refusal has no code', raw(400, json, refusal('toString'))],
    ['code and status differ', raw(404, json, refusal('REQUEST_INVALID'))],
  ])('finds %s', (fault, bytes) => {
    expect(answersIn(bytes).map(faultOf)).toEqual([fault])
  })

  test('parses pipelined responses and rejects malformed ones', () => {
    const good = raw(400, json, refusal('REQUEST_INVALID'))
    const head = raw(200, json).toString().replace('length: 0', 'length: 15')
    const bytes = Buffer.concat([good, Buffer.from(head), good])
    expect(answersIn(bytes).map(({ status }) => status)).toEqual([400, 200, 400])
    expect(answersIn(bytes).map(faultOf)).toEqual([undefined, undefined, undefined])
    const chunked = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n'
    expect(answersIn(Buffer.from(`${chunked}0\r\n\r\n`)).map(({ body }) => body)).toEqual(['{}'])
    expect(() => answersIn(Buffer.from(`${chunked}Error: x\r\n`))).toThrow('no size of a chunk')
    expect(() => answersIn(Buffer.from('Error: oops\r\n\r\n'))).toThrow('no status line')
    expect(() => answersIn(Buffer.from('HTTP/1.1 200 OK\r\nx\r\n\r\n'))).toThrow('no header')
  })

  test('sends the same requests for the same seed', async () => {
    const { document } = await startServer()
    const first = (seed: number) => {
      const generators = new Generators(new Dice(seed), document)
      return Array.from({ length: 200 }, () => generators.next())
    }
    const bytes = (seed: number) => Buffer.concat(first(seed).flatMap(({ pieces }) => pieces))
    expect(bytes(1).equals(bytes(1))).toBe(true)
    expect(bytes(1).equals(bytes(2))).toBe(false)
    expect(new Set(first(1).map(({ kind }) => kind)).size).toBe(12)
  })
})
