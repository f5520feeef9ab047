/** The same request again, after its client was disconnected, gets the turn instead of a second one. */

import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import { MemoryLog } from '../../src/server.ts'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { OpenLogs } from '../log/redis/support.ts'
import { ACME, guardedServer, OTHER, withKey } from './auth/support.ts'
import {
  ask,
  begin,
  contentOf,
  cutOff,
  DOORS,
  departuresIn,
  fail,
  HELLO,
  type Request,
  STREAM,
  turnsOf,
  watchDepartures,
} from './reattach-support.ts'
import { call, type ServerOptions, sealed, startServer, type TestServer } from './support.ts'

describe.each(DOORS)('%s', (_name, { path, body, last, id }) => {
  test('a repeated stream has the same turn from its beginning, while it runs', async () => {
    const server = await startServer()
    const request = { path, body: { ...body, stream: true } }
    const { call } = await cutOff(server, request)
    const again = await ask(server, request)
    await again.until('One ')
    call.say('two.')
    call.finish()
    await again.until(last)
    expect(turnsOf(server)).toBe(1)
    expect(again.header('x-turn-id')).toBe(call.runId)
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
    const turn = await server.log.getTurn(call.runId)
    expect(again.header('x-thread-id')).toBe(turn?.threadId)
    expect(contentOf(again)).toContain(`"${id(call.runId)}"`)
    expect(contentOf(again)).toContain('two.')
  })

  test('a repeated request that does not stream gets the answer', async () => {
    const server = await startServer()
    const departures = watchDepartures(server.log)
    const { wire, call } = await begin(server, { path, body })
    wire.close()
    await departures(1)
    const again = await ask(server, { path, body })
    call.say('two.')
    call.finish()
    await again.until('One two.')
    expect(again.status).toBe(200)
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
    expect(turnsOf(server)).toBe(1)
  })
})

test.each(DOORS)('%s: an error in place of the answer is a disconnect', async (_, door) => {
  const server = await startServer()
  const tail = vi.spyOn(server.log, 'tail').mockImplementationOnce(() => {
    throw new TurnstreamError('STORE_UNAVAILABLE', 'gone')
  })
  const { path, body } = door
  const next = server.held.nextCall()
  const wire = await ask(server, { path, body })
  await wire.until('HTTP/1.1 5')
  tail.mockRestore()
  const again = await ask(server, { path, body })
  const call = await next
  call.say('One two.')
  call.finish()
  await again.until('One two.')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  expect(turnsOf(server)).toBe(1)
})

test('a repeated request gets a turn that has completed meanwhile', async () => {
  const server = await startServer()
  const { call } = await cutOff(server)
  call.finish()
  await sealed(server.log, call.runId)
  const again = await ask(server)
  await again.until('[DONE]')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  expect(turnsOf(server)).toBe(1)
})

test('a repeated request needs the response before it no more', async () => {
  const server = await startServer()
  const first = await call(server, 'POST /v1/responses', {
    body: { model: 'plain/m', input: 'Hi' },
  })
  const previous_response_id = first.json.id
  const body = { model: 'held/m', input: 'Hello', stream: true, previous_response_id }
  const { call: running } = await cutOff(server, { path: '/v1/responses', body })
  await call(server, `DELETE /v1/responses/${previous_response_id}`)
  const again = await ask(server, { path: '/v1/responses', body })
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(running.runId)
})

test('the members of client_metadata may come in another order, as codex sends them', async () => {
  const server = await startServer()
  const path = '/v1/responses'
  const ordered = (client_metadata: object) =>
    JSON.stringify({ model: 'held/m', input: 'Hi', stream: true, client_metadata })
  const { call } = await cutOff(server, { path, body: ordered({ a: '{1}', b: '2' }) })
  const other = await begin(server, { path, body: ordered({ b: '2', a: '{2}' }) })
  await other.wire.until('One ')
  expect(other.wire.header('x-turnstream-reattached')).toBeUndefined()
  const again = await ask(server, { path, body: ordered({ b: '2', a: '{1}' }) })
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
})

test('each departed client is replaced once, and a replacement that leaves again, too', async () => {
  const server = await startServer()
  const departures = watchDepartures(server.log)
  const first = await begin(server)
  const second = await begin(server)
  await Promise.all([first.wire.until('One '), second.wire.until('One ')])
  first.wire.close()
  second.wire.close()
  await departures(2)
  const replaced = [await ask(server), await ask(server)]
  await Promise.all(replaced.map((wire) => wire.until('One ')))
  const ids = replaced.map((wire) => wire.header('x-turnstream-reattached'))
  expect(new Set(ids)).toEqual(new Set([first.call.runId, second.call.runId]))
  const third = await begin(server)
  await third.wire.until('One ')
  expect(third.wire.header('x-turnstream-reattached')).toBeUndefined()
  expect(turnsOf(server)).toBe(3)
  replaced[0]?.close()
  await departures(3)
  const again = await ask(server)
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(ids[0])
  expect(turnsOf(server)).toBe(3)
})

test('a client that leaves before the first output has left', async () => {
  const server = await startServer()
  const departures = watchDepartures(server.log)
  const next = server.held.nextCall()
  const wire = await ask(server)
  const call = await next
  wire.close()
  await departures(1)
  const again = await ask(server)
  call.say('One ')
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
})

test('a repeated request waits for the departure to be stored', async () => {
  const log = new MemoryLog()
  let store: (() => void) | undefined
  const stored = new Promise<void>((resolve) => {
    store = resolve
  })
  const add = log.keyedRecords.add.bind(log.keyedRecords)
  const adding = vi.spyOn(log.keyedRecords, 'add').mockImplementation(async (...args) => {
    await stored
    await add(...args)
  })
  const server = await startServer({ log })
  const { wire, call } = await begin(server)
  await wire.until('One ')
  wire.close()
  await eventually(() => expect(adding).toHaveBeenCalledOnce())
  const again = await ask(server)
  // Another request is answered meanwhile.
  await (await ask(server, { body: { model: 'plain/m', messages: HELLO } })).until('Hello, world.')
  expect([again.text, turnsOf(server)]).toEqual(['', 1])
  store?.()
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
})

test('a client that is disconnected because it does not read has left', async () => {
  const server = await startServer({ port: { writeTimeoutMs: 200 } })
  const departures = watchDepartures(server.log)
  const { wire, call } = await begin(server)
  await wire.until('One ')
  wire.socket.pause()
  // More than the system buffers.
  for (let count = 0; count < 19; count++) {
    call.say('x'.repeat(500_000))
    await new Promise(setImmediate)
  }
  await departures(1)
  const again = await ask(server)
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
})

describe('a new turn is started', () => {
  /** Whether a request starts a turn of its own. */
  async function isNew(server: TestServer, request?: Request): Promise<boolean> {
    const before = turnsOf(server)
    // Hangs if the provider is not called.
    const { wire } = await begin(server, request)
    await wire.until('One ')
    const isSame = wire.header('x-turnstream-reattached') !== undefined
    return !isSame && turnsOf(server) === before + 1
  }

  test.each<[string, Request]>([
    ['a body that differs by a space', { body: `${JSON.stringify(STREAM)} ` }],
    ['another path', { path: '/v1/messages', body: { ...STREAM, max_tokens: 9 } }],
    ['an idempotency key', { headers: { 'idempotency-key': 'key' } }],
    ['x-turnstream-reattach: no', { headers: { 'x-turnstream-reattach': 'no' } }],
  ])('for %s', async (_name, request) => {
    const server = await startServer()
    await cutOff(server)
    expect(await isNew(server, request)).toBe(true)
  })

  test.each<[string, Request]>([
    ['an idempotency key', { headers: { 'idempotency-key': 'key' } }],
    ['x-turnstream-reattach: no', { headers: { 'x-turnstream-reattach': 'no' } }],
    ['cancel on disconnect', { headers: { 'turnstream-cancel-on-disconnect': 'true' } }],
  ])('after a request with %s', async (_name, request) => {
    const server = await startServer()
    const add = vi.spyOn(server.log.keyedRecords, 'add')
    const { wire, call } = await begin(server, request)
    await wire.until('One ')
    wire.close()
    call.finish()
    await sealed(server.log, call.runId)
    expect(await isNew(server)).toBe(true)
    expect(departuresIn(add)).toEqual([])
  })

  test('while the first client is connected, and after it got the whole answer', async () => {
    const server = await startServer()
    const add = vi.spyOn(server.log.keyedRecords, 'add')
    const { wire, call } = await begin(server)
    await wire.until('One ')
    expect(await isNew(server)).toBe(true)
    call.finish()
    await wire.until('[DONE]')
    wire.close()
    expect(await isNew(server)).toBe(true)
    expect(departuresIn(add)).toEqual([])
  })

  test('after an error status, which the client received', async () => {
    const server = await startServer()
    const add = vi.spyOn(server.log.keyedRecords, 'add')
    const next = server.held.nextCall()
    const wire = await ask(server)
    fail(await next)
    await wire.until('the provider failed')
    expect(wire.status).toBe(502)
    wire.close()
    expect(await isNew(server)).toBe(true)
    expect(departuresIn(add)).toEqual([])
  })

  test('after a provider error', async () => {
    const server = await startServer()
    const { call } = await cutOff(server)
    fail(call)
    await sealed(server.log, call.runId)
    expect(await isNew(server)).toBe(true)
  })

  test('for a turn that was cancelled or deleted', async () => {
    const server = await startServer()
    const { call, departures } = await cutOff(server)
    await server.log.requestCancel(call.runId, 'stop')
    expect(await isNew(server)).toBe(true)
    const other = await begin(server)
    await other.wire.until('One ')
    other.wire.close()
    await departures(2)
    await server.log.deleteTurn(other.call.runId)
    expect(await isNew(server)).toBe(true)
  })

  test('for another tenant', async () => {
    const server = await guardedServer()
    const departures = watchDepartures(server.log.ofTenant('acme'))
    const { wire, call } = await begin(server, { headers: withKey(ACME) })
    await wire.until('One ')
    wire.close()
    await departures(1)
    expect(await isNew(server, { headers: withKey(OTHER) })).toBe(true)
    const again = await ask(server, { headers: withKey(ACME) })
    await again.until('One ')
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  })

  test('two minutes after the client left', async () => {
    const clock = fakeClock()
    const server = await startServer({ clock, log: new MemoryLog({ clock }) })
    const { departures } = await cutOff(server)
    await clock.advance(119_999)
    const again = await ask(server)
    await again.until('One ')
    again.close()
    await departures(2)
    await clock.advance(120_000)
    expect(await isNew(server)).toBe(true)
    for (const call of server.held.calls) call.finish()
  })

  test('always when it is turned off', async () => {
    const off = await startServer({ reattachMs: 0 })
    const take = vi.spyOn(off.log.keyedRecords, 'consume')
    const add = vi.spyOn(off.log.keyedRecords, 'add')
    const { wire, call } = await begin(off)
    await wire.until('One ')
    wire.close()
    call.finish()
    await sealed(off.log, call.runId)
    expect(await isNew(off)).toBe(true)
    expect(departuresIn(add)).toEqual([])
    expect(take).not.toHaveBeenCalled()
  })
})

test('an invalid turn does not hide another that its client left', async () => {
  const server = await startServer()
  const departures = watchDepartures(server.log)
  const all = [await begin(server), await begin(server)]
  for (const [at, { wire }] of all.entries()) {
    await wire.until('One ')
    wire.close()
    await departures(at + 1)
  }
  await server.log.deleteTurn(all[1]?.call.runId ?? '')
  const again = await ask(server)
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(all[0]?.call.runId)
})

test('other routes do not hash their bodies, and touch no keyed records', async () => {
  const server = await startServer()
  const notes = (['read', 'consume'] as const).map((name) =>
    vi.spyOn(server.log.keyedRecords, name),
  )
  const paths = ['/v1/messages/count_tokens', '/v1/responses/input_tokens', '/api/v2/submit']
  for (const path of paths) {
    const body = { model: 'plain/m', messages: HELLO, prompt: 'Hi', input: 'Hi' }
    const wire = await ask(server, { path, body })
    await wire.until('HTTP/1.1 ')
  }
  for (const each of notes) expect(each).not.toHaveBeenCalled()
})

test('is counted, logged and not rate limited', async () => {
  const requests: unknown[] = []
  const options: ServerOptions = {
    onRequest: (request) => requests.push(request),
    limits: { submitsPerMinute: 1, maxRunningTurns: 1 },
  }
  const server = await startServer(options)
  const { call } = await cutOff(server)
  const again = await ask(server)
  await again.until('One ')
  expect(requests).toMatchObject([
    { turnId: call.runId },
    { turnId: call.runId, reattached: true, status: 200 },
  ])
  const metrics = await (await fetch(`${server.url}/metrics`)).text()
  expect(metrics).toContain('\nturnstream_reattached_total 1\n')
})

test('a store that cannot record a departure is reported, and harms nobody', async () => {
  const server = await startServer()
  vi.spyOn(server.log.keyedRecords, 'add').mockRejectedValue(new Error('made up'))
  const { wire, call } = await begin(server)
  await wire.until('One ')
  wire.close()
  await eventually(() => expect(server.errors).toHaveLength(1))
  call.finish()
  await sealed(server.log, call.runId)
  await (await begin(server)).wire.until('One ')
})

test('a server that shuts down records the clients of turns that run elsewhere', async () => {
  const log = new MemoryLog()
  const owner = await startServer({ log })
  const other = await startServer({ log })
  const { call } = await cutOff(owner)
  const wire = await ask(other)
  await wire.until('One ')
  await other.close()
  const again = await ask(owner)
  await again.until('One ')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  expect(owner.held.calls.length + other.held.calls.length).toBe(1)
})

test('the embedded store keeps departures across a restart', async () => {
  const directory = folderOfTest()
  const server = await startServer({ log: await openLog(directory) })
  const { call } = await cutOff(server)
  call.finish()
  await sealed(server.log, call.runId)
  await server.close()
  await server.log.close()
  const next = await startServer({ log: await openLog(directory) })
  const again = await ask(next)
  await again.until('[DONE]')
  expect(again.header('x-turnstream-reattached')).toBe(call.runId)
  expect(turnsOf(next)).toBe(0)
})

describe('on one Redis', () => {
  let redis: Awaited<ReturnType<typeof startRedis>>
  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())

  test('another gateway serves the turn, and one of several gets it', async () => {
    const logs = new OpenLogs({ url: redis.url })
    onTestFinished(() => logs.close())
    const [first, second] = [
      await startServer({ log: await logs.open() }),
      await startServer({ log: await logs.open() }),
    ]
    const { call } = await cutOff(first)
    const again = await ask(second)
    await again.until('One ')
    call.say('two.')
    call.finish()
    await again.until('[DONE]')
    expect(contentOf(again)).toContain('two.')
    expect(again.header('x-turnstream-reattached')).toBe(call.runId)
    expect([turnsOf(first), turnsOf(second)]).toEqual([1, 0])
    await (await begin(second)).wire.until('One ')
    expect(turnsOf(second)).toBe(1)
  })
})
