import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { KeyRing, MemoryLog } from '../../../src/server.ts'
import { HookedLog } from '../../log/hooked-log.ts'
import { ACME, entry, guardedServer, OTHER, withKey } from '../auth/support.ts'
import { type Answer, call, heldTurn, sealed, startServer, type TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'

type Fields = Record<string, unknown>
type Ask = (server: TestServer, fields?: Fields, key?: string) => Promise<Answer>

const submit: Ask = (server, fields = {}, key) =>
  call(server, 'POST /api/v2/submit', {
    body: { prompt: 'Hi', ...fields },
    headers: key === undefined ? {} : withKey(key),
  })

let threads = 0

/** The stream is read to its end. */
const submitAndStream: Ask = (server, fields = {}, key) => {
  threads += 1
  return call(server, `POST /xapi/threads/h${threads}/turn`, {
    body: { prompt: 'Hi', ...fields },
    headers: key === undefined ? {} : withKey(key),
  })
}

function told({ status, headers, json }: Answer): string {
  if (status < 400) return `${status}`
  return `${status} ${json.error.code} ${headers.get('retry-after')}`
}

describe.each([
  ['POST /api/v2/submit', submit],
  ['POST /xapi/threads/{threadId}/turn', submitAndStream],
])('submits per minute at %s', (_route, ask) => {
  test('are admitted up to the limit, and again after retry-after', async () => {
    const clock = fakeClock(1_000_000)
    const server = await startServer({ clock, limits: { submitsPerMinute: 2 } })
    expect((await ask(server)).status).toBeLessThan(300)
    await clock.advance(10_000)
    expect((await ask(server)).status).toBeLessThan(300)
    await clock.advance(20_500)
    expect(told(await ask(server))).toBe('429 SUBMITS_LIMITED 30')
    await clock.advance(29_499)
    expect(told(await ask(server))).toBe('429 SUBMITS_LIMITED 1')
    await clock.advance(1)
    expect((await ask(server)).status).toBeLessThan(300)
    expect(told(await ask(server))).toBe('429 SUBMITS_LIMITED 10')
    expect(server.errors).toEqual([])
  })

  test('do not count repeated or conflicting submits', async () => {
    const server = await startServer({ clock: fakeClock(), limits: { submitsPerMinute: 1 } })
    const first = await ask(server, { runId: 'run' })
    expect(first.status).toBeLessThan(300)
    await sealed(server.log, 'run')
    expect(told(await ask(server, { runId: 'another' }))).toBe('429 SUBMITS_LIMITED 60')
    if (ask === submit) {
      const again = await ask(server, { runId: 'run' })
      expect(again.json).toEqual(first.json)
      const other = await ask(server, { runId: 'run', prompt: 'Ho' })
      expect(other.json.error.code).toBe('SUBMIT_CONFLICT')
    }
  })

  test('do not count unreadable requests, of which there may be as many', async () => {
    const clock = fakeClock()
    const server = await startServer({ clock, limits: { submitsPerMinute: 1 } })
    expect((await ask(server, { providerId: 'nobody' })).status).toBe(404)
    expect((await ask(server, { prompt: '' })).status).toBe(400)
    expect(told(await ask(server, { prompt: '' }))).toBe('429 SUBMITS_LIMITED 60')
    await clock.advance(60_000)
    expect((await ask(server)).status).toBeLessThan(300)
  })
})

test('count submits that find a busy thread, fail, or have a stored turn', async () => {
  const log = new MemoryLog()
  const limits = { ...UNLIMITED, submitsPerMinute: 4 }
  const server = await startServer({ log, limits })
  const turn = { turnId: 'turn', threadId: 'h', providerId: 'held' }
  expect(told(await submit(server, turn))).toBe('202')
  expect(told(await submit(server, turn))).toBe('202')
  expect(told(await submit(server, { threadId: 'h' }))).toBe('409 THREAD_BUSY 1')
  log.create = () => Promise.reject(new TurnstreamError('STORE_FULL', 'create'))
  expect(told(await submit(server))).toBe('507 STORE_FULL null')
  expect(told(await submit(server))).toMatch(/^429 SUBMITS_LIMITED (60|59)$/)
})

test('are counted together for both routes', async () => {
  const server = await startServer({ clock: fakeClock(), limits: { submitsPerMinute: 2 } })
  await submit(server)
  await submitAndStream(server)
  expect(told(await submit(server))).toBe('429 SUBMITS_LIMITED 60')
  expect(told(await submitAndStream(server))).toBe('429 SUBMITS_LIMITED 60')
})

describe('the running turns', () => {
  const limits = { ...UNLIMITED, maxRunningTurns: 1 }

  /** Whether one more is admitted; it is ended again. */
  async function isFree(server: TestServer): Promise<boolean> {
    const answer = await submit(server)
    if (answer.status === 202) await sealed(server.log, answer.json.turnId)
    else expect(told(answer)).toBe('429 TURNS_LIMITED 5')
    return answer.status === 202
  }

  const ENDS: Record<
    string,
    (turn: Awaited<ReturnType<typeof heldTurn>>, server: TestServer) => unknown
  > = {
    'it ends': ({ call: running }) => running.finish(),
    'its provider fails': ({ call: { stream } }) => stream.error(new Error('gone')),
    'it is cancelled': ({ runId }, server) =>
      call(server, `POST /api/v2/runs/${runId}/cancel`, { body: {} }),
    'its thread is deleted': ({ threadId }, server) =>
      call(server, `DELETE /api/v2/threads/${threadId}`),
  }

  test.each(Object.entries(ENDS))('decrease when %s', async (_name, finish) => {
    const server = await startServer({ limits })
    const turn = await heldTurn(server)
    expect(await isFree(server)).toBe(false)
    await finish(turn, server)
    await expect.poll(() => isFree(server)).toBe(true)
  })

  test('do not include a turn whose end was read, however slow the store is', async () => {
    let writeEnds = (): void => {}
    const ends = new Promise<void>((resolve) => {
      writeEnds = resolve
    })
    class SlowEnds extends HookedLog {
      override async append(...args: Parameters<HookedLog['append']>): Promise<string> {
        const [, name, , options] = args
        if (name === 'processed' && options?.seal === true) await ends
        return super.append(...args)
      }
    }
    const server = await startServer({ limits, log: new SlowEnds() })
    for (const turnId of ['one', 'two', 'three']) {
      expect(told(await submit(server, { turnId }))).toBe('202')
      const stream = await fetch(`${server.url}/api/v2/stream/${turnId}`)
      expect(await stream.text()).toContain('response_done')
    }
    writeEnds()
  })

  test('are refused during shutdown with the shutdown error', async () => {
    const server = await startServer({ limits, shutdownGraceMs: 60_000 })
    const { call: running } = await heldTurn(server)
    const closed = server.close()
    expect((await submit(server)).json.error.code).toBe('SERVER_SHUTDOWN')
    running.finish()
    await closed
  })

  test.each(['STORE_UNAVAILABLE', 'STORE_FULL', 'STORE_FAILED'] as const)(
    'are unchanged when the store fails: %s',
    async (code) => {
      const log = new MemoryLog()
      const server = await startServer({ log, limits })
      const create = vi
        .spyOn(log, 'create')
        .mockImplementation(() => Promise.reject(new TurnstreamError(code, 'create')))
      for (let each = 0; each < 3; each++) expect((await submit(server)).json.error.code).toBe(code)
      create.mockRestore()
      expect(await isFree(server)).toBe(true)
    },
  )

  test('include a combined submit and stream, even after its client disconnects', async () => {
    const server = await startServer({ limits })
    const leave = new AbortController()
    const next = server.held.nextCall()
    await fetch(`${server.url}/xapi/threads/held/turn`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Hi', providerId: 'held' }),
      signal: leave.signal,
    })
    const running = await next
    leave.abort()
    expect(told(await submitAndStream(server))).toBe('429 TURNS_LIMITED 5')
    running.finish()
    await expect.poll(() => isFree(server)).toBe(true)
  })

  test('do not count a submit to a busy thread', async () => {
    const server = await startServer({ limits: { ...UNLIMITED, maxRunningTurns: 2 } })
    await heldTurn(server, { threadId: 'busy' })
    for (let each = 0; each < 3; each++) {
      const { json } = await submit(server, { threadId: 'busy' })
      expect(json.error.code).toBe('THREAD_BUSY')
    }
    expect(await isFree(server)).toBe(true)
  })
})

describe('one key at its limits', () => {
  const limits = { submitsPerMinute: 2, maxRunningTurns: 1, maxOpenStreams: 1 }

  test('does not affect another tenant', async () => {
    const server = await guardedServer({ limits })
    const held = { providerId: 'held' }
    expect(told(await submit(server, held, ACME))).toBe('202')
    expect(told(await submit(server, held, ACME))).toBe('429 TURNS_LIMITED 5')
    expect(told(await submit(server, held, OTHER))).toBe('202')
    expect(told(await submit(server, held, OTHER))).toBe('429 TURNS_LIMITED 5')
  })

  test('does not affect another key of its tenant', async () => {
    const keys = new KeyRing([entry('ts_one', 'acme', 'one'), entry('ts_two', 'acme', 'two')])
    const server = await startServer({ keys, clock: fakeClock(), limits })
    for (const key of ['ts_one', 'ts_two']) {
      for (const wanted of ['200', '200', '429 SUBMITS_LIMITED 60']) {
        expect(told(await submitAndStream(server, {}, key))).toBe(wanted)
      }
    }
  })

  test('does not affect requests without a key, which are not counted', async () => {
    const server = await guardedServer({ clock: fakeClock(), limits })
    for (let each = 0; each < 5; each++) expect((await submit(server)).status).toBe(401)
    expect(told(await submit(server, {}, ACME))).toBe('202')
  })
})

test('is shared by all clients without keys, with the defaults', async () => {
  const server = await startServer({ limits: {} })
  for (let each = 0; each < 10; each++) await heldTurn(server)
  expect(told(await submit(server))).toBe('429 TURNS_LIMITED 5')
})
