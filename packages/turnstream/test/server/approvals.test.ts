import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { KeyRing, MemoryLog } from '../../src/server.ts'
import { end, answer as say, call as toolCall } from '../turns/payloads.ts'
import { type Puppet, puppet } from '../turns/rig.ts'
import { tool } from '../turns/some-tools.ts'
import { entry } from './auth/support.ts'
import { call, readUntil, sealed, startServer, type TestServer } from './support.ts'

const ASKED = [...toolCall('1', 'delete'), end('tool_calls')]
const THANKS = [...say('2', 'Thanks.'), end()]

function deleteTool(runs: unknown[] = []) {
  const run = () => {
    runs.push('run')
    return 'deleted'
  }
  return tool('delete', run, { needsApproval: true })
}

function asking(): Puppet {
  return puppet([ASKED, THANKS], 'asking')
}

interface Asking {
  readonly server: TestServer
  readonly runs: unknown[]
}

async function waiting(options: Parameters<typeof startServer>[0] = {}): Promise<Asking> {
  const runs: unknown[] = []
  const server = await startServer({ tools: [deleteTool(runs)], more: [asking()], ...options })
  return { server, runs }
}

async function submit(server: TestServer, headers: Record<string, string> = {}): Promise<void> {
  const body = { prompt: 'Delete it', model: 'asking/m', turnId: 't', runId: 'r' }
  expect((await call(server, 'POST /api/v2/submit', { body, headers })).status).toBe(202)
  await readUntil(`${server.url}/api/v2/stream/r`, '"approval-1"', headers)
}

const ROUTE = 'POST /api/v2/runs/r/approvals/approval-1'

describe('V8 an approval over HTTP', () => {
  test('is answered once, and another answer gets the first', async () => {
    const { server, runs } = await waiting()
    await submit(server)
    const first = await call(server, ROUTE, { body: { approved: true } })
    const answer = { id: 'approval-1', status: 'approved', answeredAt: expect.any(Number) }
    expect(first).toMatchObject({ status: 200, json: answer })
    expect(first.json).not.toHaveProperty('answeredBy')
    const second = await call(server, ROUTE, { body: { approved: false, reason: 'no' } })
    expect(second).toMatchObject({
      status: 409,
      json: { error: { code: 'APPROVAL_ANSWERED', approval: answer } },
    })
    await sealed(server.log, 't')
    expect(runs).toEqual(['run'])
    const third = await call(server, ROUTE, { body: { approved: false } })
    expect(third).toMatchObject({ status: 409, json: { error: { approval: first.json } } })
    // After a lost response it is sent again.
    const again = await call(server, ROUTE, { body: { approved: true } })
    expect(again).toMatchObject({ status: 200, json: first.json })
    const other = await call(server, ROUTE, { body: { approved: true, reason: 'fine' } })
    expect(other.status).toBe(409)
  })

  test('is seen by readers of events and of snapshots', async () => {
    const { server } = await waiting()
    await submit(server)
    const body = { approved: false, reason: 'not on a Friday' }
    const { json } = await call(server, ROUTE, { body })
    const raw = await readUntil(`${server.url}/api/v2/stream/r`, 'response_done')
    expect(raw.json).toContain('"type":"approval_response"')
    const { outputs } = (await call(server, 'GET /xapi/turns/t')).json
    expect(outputs.find(({ type }: { type: string }) => type === 'tool_call')).toMatchObject({
      status: 'complete',
      success: false,
      toolOutput: 'The call was declined: not on a Friday',
      approval: json,
    })
    const run = (await call(server, 'GET /api/v2/runs/r')).json
    expect(run.output_items).toContainEqual(
      expect.objectContaining({ type: 'approval_response', reason: 'not on a Friday' }),
    )
  })

  test('is unknown when the run never requested it, or does not exist', async () => {
    const { server, runs } = await waiting()
    const path = 'POST /api/v2/runs/r/approvals'
    const body = { approved: true }
    expect(await call(server, `${path}/approval-1`, { body })).toMatchObject({
      status: 404,
      json: { error: { code: 'TURN_UNKNOWN' } },
    })
    await submit(server)
    for (const id of ['approval-2', 'x', '__proto__']) {
      expect(await call(server, `${path}/${id}`, { body })).toMatchObject({
        status: 404,
        json: { error: { code: 'APPROVAL_UNKNOWN' } },
      })
    }
    expect(runs).toEqual([])
  })

  const refused: [string, unknown][] = [
    ['nothing', {}],
    ['a text', { approved: 'yes' }],
    ['an unknown field', { approved: true, because: 'x' }],
    ['an empty reason', { approved: true, reason: '' }],
    ['a long reason', { approved: true, reason: 'x'.repeat(1001) }],
  ]
  test.each(refused)('refuses %s', async (_what, body) => {
    const { server } = await waiting()
    await submit(server)
    expect(await call(server, ROUTE, { body })).toMatchObject({
      status: 400,
      json: { error: { code: 'REQUEST_INVALID' } },
    })
    expect((await call(server, ROUTE, { body: { approved: true } })).status).toBe(200)
  })

  test('is closed once its turn was cancelled or has ended without an answer', async () => {
    const { server, runs } = await waiting()
    await submit(server)
    await call(server, 'POST /api/v2/runs/r/cancel')
    const body = { approved: true }
    for (const isSealed of [false, true]) {
      if (isSealed) await sealed(server.log, 't')
      expect(await call(server, ROUTE, { body })).toMatchObject({
        status: 409,
        json: { error: { code: 'APPROVAL_CLOSED' } },
      })
    }
    expect(runs).toEqual([])
  })

  test('is TURN_EXPIRED when the logs of its turn are gone', async () => {
    const clock = fakeClock(0)
    const log = new MemoryLog({ clock, retentionMs: 1000 })
    const { server } = await waiting({ log })
    await submit(server)
    await call(server, ROUTE, { body: { approved: true } })
    await sealed(log, 't')
    await clock.advance(2000)
    const late = await call(server, ROUTE, { body: { approved: true } })
    expect(late).toMatchObject({ status: 410, json: { error: { code: 'TURN_EXPIRED' } } })
  })
})

describe('V8 keys and approvals', () => {
  test('an answer names its key, and other tenants do not know the run', async () => {
    const keys = new KeyRing([
      entry('ts_app', 'acme', 'app'),
      entry('ts_ops', 'acme', 'ops'),
      entry('ts_spy', 'beta', 'spy'),
    ])
    const { server } = await waiting({ keys })
    await submit(server, { 'x-api-key': 'ts_app' })
    const body = { approved: true }
    const spied = await call(server, ROUTE, { body, headers: { 'x-api-key': 'ts_spy' } })
    expect(spied).toMatchObject({ status: 404, json: { error: { code: 'TURN_UNKNOWN' } } })
    const answered = await call(server, ROUTE, { body, headers: { 'x-api-key': 'ts_ops' } })
    expect(answered).toMatchObject({ status: 200, json: { answeredBy: 'ops' } })
    await sealed(server.log.ofTenant('acme'), 't')
    const late = await call(server, ROUTE, { body, headers: { 'x-api-key': 'ts_app' } })
    expect(late.json.error.message).toBe('The approval was already answered: approved by ops')
  })
})

describe('V8 the request for an approval', () => {
  test('is found by its key, without a look at the logs of the turn', async () => {
    const { server } = await waiting()
    await submit(server)
    const reads = (['tail', 'snapshot'] as const).map((name) => vi.spyOn(server.log, name))
    const answered = await call(server, ROUTE, { body: { approved: true } })
    expect(answered).toMatchObject({ status: 200 })
    for (const read of reads) expect(read).not.toHaveBeenCalled()
  })

  test('is found in the snapshots when its record is missing', async () => {
    const log = new MemoryLog()
    const add = log.keyedRecords.addOnce.bind(log.keyedRecords)
    vi.spyOn(log.keyedRecords, 'addOnce').mockImplementation((turnId, key, value) =>
      key.startsWith('request:') ? Promise.reject(new Error('away')) : add(turnId, key, value),
    )
    const { server } = await waiting({ log })
    await submit(server)
    const path = 'POST /api/v2/runs/r/approvals/approval-2'
    expect(await call(server, path, { body: { approved: true } })).toMatchObject({ status: 404 })
    await eventually(async () => {
      const answered = await call(server, ROUTE, { body: { approved: true } })
      expect(answered).toMatchObject({ status: 200 })
    })
  })
})

describe('V8 two gateways on one store', () => {
  test('the one that does not run the turn answers its approval', async () => {
    const log: TurnLog = new MemoryLog()
    const { server, runs } = await waiting({ log })
    const other = await startServer({ log })
    await submit(server)
    expect((await call(other, ROUTE, { body: { approved: true } })).status).toBe(200)
    await sealed(log, 't')
    expect(runs).toEqual(['run'])
  })

  test('a waiting turn counts against the running turns of its key', async () => {
    const { server } = await waiting({ limits: { maxRunningTurns: 1 } })
    await submit(server)
    const body = { prompt: 'Hi' }
    expect((await call(server, 'POST /api/v2/submit', { body })).json.error.code).toBe(
      'TURNS_LIMITED',
    )
    await call(server, ROUTE, { body: { approved: true } })
    await sealed(server.log, 't')
    await expect
      .poll(async () => (await call(server, 'POST /api/v2/submit', { body })).status)
      .toBe(202)
  })
})
