import { describe, expect, test } from 'vitest'
import { MemoryLog } from '../../src/server.ts'
import { call, finishedTurn, heldTurn, sealed, startServer, type TestServer } from './support.ts'

const submit = (server: TestServer, body: unknown, headers: Record<string, string> = {}) =>
  call(server, 'POST /api/v2/submit', { body, headers })

const userItem = (content: string) => ({ type: 'message', origin: 'user', content })

describe('W7 a submit', () => {
  test('is answered when the turn is durable, with the generated ids', async () => {
    const server = await startServer()
    const { status, json } = await submit(server, { prompt: 'Hi' })
    expect(status).toBe(202)
    expect(json.runId).toBe(json.turnId)
    const turn = await server.log.getTurn(json.turnId)
    expect(turn).toMatchObject({ runId: json.runId, threadId: json.threadId, ordinal: 1 })
  })

  test('keeps the ids of the request', async () => {
    const ids = { turnId: 'turn', runId: 'run', threadId: 'thread' }
    const { json } = await submit(await startServer(), { prompt: 'Hi', ...ids })
    expect(json).toEqual(ids)
  })

  test('accepts a prompt as short form of one user message', async () => {
    const server = await startServer()
    const short = await heldTurn(server, { prompt: 'Hi' })
    const long = await heldTurn(server, { prompt: undefined, input: [userItem('Hi')] })
    const inputs = [short, long].map(({ call: { request } }) =>
      request.input.map((item) => ({ ...item, id: '' })),
    )
    expect(inputs[0]).toEqual([{ id: '', ...userItem('Hi') }])
    expect(inputs[1]).toEqual(inputs[0])
  })

  test('passes the settings on to the provider', async () => {
    const settings = {
      tools: [{ name: 'look', description: 'Looks', parameters: { type: 'object' } }],
      toolChoice: { name: 'look' },
      reasoningEffort: 'low',
      reasoningSummary: 'concise',
      thinkingBudget: 100,
      maxOutputTokens: 50,
      temperature: 0.5,
      topP: 0.9,
      stop: ['END'],
      responseFormat: { type: 'json_schema', name: 'n', schema: { type: 'object' } },
      parallelToolCalls: false,
    }
    const held = await heldTurn(await startServer(), { ...settings, model: 'held/large' })
    expect(held.call.request).toMatchObject({ ...settings, model: 'large' })
  })

  test('copies the trace context of its request to the events', async () => {
    const server = await startServer()
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const { json } = await submit(server, { prompt: 'Hi' }, { traceparent, tracestate: 'a=b' })
    const stream = await call(server, `GET /api/v2/stream/${json.runId}`)
    expect(stream.json).toContain(`"trace_context":{"traceparent":"${traceparent}"`)
    expect(stream.json).toContain('"tracestate":"a=b"')
  })
})

describe('W7 a repeated submit', () => {
  const ROWS: Record<string, { first: object; again: object; status: number }> = {
    'with the same run and body is the same turn': {
      first: { runId: 'r', prompt: 'Hi' },
      again: { runId: 'r', prompt: 'Hi' },
      status: 202,
    },
    'with the same turn and body is the same turn': {
      first: { turnId: 't', prompt: 'Hi' },
      again: { turnId: 't', prompt: 'Hi' },
      status: 202,
    },
    'with its fields in another order is the same turn': {
      first: { runId: 'r', prompt: 'Hi', temperature: 1 },
      again: { temperature: 1, prompt: 'Hi', runId: 'r' },
      status: 202,
    },
    'with another prompt is a conflict': {
      first: { runId: 'r', prompt: 'Hi' },
      again: { runId: 'r', prompt: 'Ho' },
      status: 409,
    },
    'with another setting is a conflict': {
      first: { runId: 'r', prompt: 'Hi' },
      again: { runId: 'r', prompt: 'Hi', temperature: 1 },
      status: 409,
    },
    'with the same turn and another run is a conflict': {
      first: { turnId: 't', runId: 'r', prompt: 'Hi' },
      again: { turnId: 't', runId: 's', prompt: 'Hi' },
      status: 409,
    },
  }

  test.each(Object.entries(ROWS))('%s', async (_name, { first, again, status }) => {
    const server = await startServer()
    const before = await submit(server, first)
    const after = await submit(server, again)
    expect(after.status).toBe(status)
    if (status === 202) expect(after.json).toEqual(before.json)
    else expect(after.json.error.code).toBe('SUBMIT_CONFLICT')
  })

  test('at the same moment creates one turn', async () => {
    const server = await startServer()
    const body = { prompt: 'Hi', providerId: 'held', runId: 'r' }
    const answers = await Promise.all(Array.from({ length: 8 }, () => submit(server, body)))
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(202))
    expect(new Set(answers.map(({ json }) => json.threadId)).size).toBe(1)
    expect(server.gateway.turns.running).toBe(1)
  })

  test('returns the same turn after its end', async () => {
    const server = await startServer()
    const ids = await finishedTurn(server, { runId: 'r' })
    const { status, json } = await submit(server, { prompt: 'Hi', runId: 'r' })
    expect([status, json]).toEqual([202, ids])
  })
})

describe('W7 an Idempotency-Key', () => {
  const key = { 'idempotency-key': 'key' }

  test('is the run id when the body has none', async () => {
    const server = await startServer()
    const first = await submit(server, { prompt: 'Hi' }, key)
    expect(first.json).toMatchObject({ runId: 'key', turnId: 'key' })
    expect(await submit(server, { prompt: 'Hi' }, key)).toMatchObject({ json: first.json })
    const other = await submit(server, { prompt: 'Ho' }, key)
    expect(other).toMatchObject({ status: 409, json: { error: { code: 'SUBMIT_CONFLICT' } } })
  })

  test('is the run id, also beside a turn id', async () => {
    const { json } = await submit(await startServer(), { prompt: 'Hi', turnId: 'turn' }, key)
    expect(json).toMatchObject({ runId: 'key', turnId: 'turn' })
  })

  test('may repeat the run id of the body but not contradict it', async () => {
    const server = await startServer()
    expect((await submit(server, { prompt: 'Hi', runId: 'key' }, key)).status).toBe(202)
    const { status, json } = await submit(server, { prompt: 'Hi', runId: 'other' }, key)
    expect(status).toBe(400)
    expect(json.error).toMatchObject({
      code: 'REQUEST_INVALID',
      details: [{ path: 'headers.idempotency-key' }],
    })
  })
})

describe('a thread', () => {
  test('D4 is busy while one of its turns runs', async () => {
    const server = await startServer()
    const { threadId, call: first, turnId } = await heldTurn(server)
    const refused = await submit(server, { prompt: 'Hi', threadId })
    expect(refused).toMatchObject({ status: 409, json: { error: { code: 'THREAD_BUSY' } } })
    expect(refused.headers.get('retry-after')).toBe('1')
    first.finish()
    await sealed(server.log, turnId)
    expect((await submit(server, { prompt: 'Hi', threadId })).status).toBe(202)
  })

  test('passes its history to the next turn', async () => {
    const server = await startServer()
    const { threadId } = await finishedTurn(server, { prompt: 'One' })
    const { call: second } = await heldTurn(server, { prompt: 'Two', threadId })
    const texts = second.request.input.map((item) => 'content' in item && item.content)
    expect(texts).toEqual(['One', 'Hello, world.', 'Two'])
  })
})

describe('a model', () => {
  test.each([
    [{ model: 'held/x' }, { provider_id: 'held', model_id: 'x' }],
    [{ providerId: 'held' }, { provider_id: 'held', model_id: 'm' }],
    [{ model: 'm' }, { provider_id: 'plain', model_id: 'm' }],
    [{}, { provider_id: 'plain', model_id: 'm' }],
    [{ agentId: 'planner' }, { agent_id: 'planner' }],
  ])('%j is %j', async (wish, chosen) => {
    const server = await startServer()
    const { json } = await submit(server, { prompt: 'Hi', ...wish })
    const run = await call(server, `GET /api/v2/runs/${json.runId}`)
    expect(run.json).toMatchObject(chosen)
  })

  test('of an unknown provider is MODEL_UNKNOWN', async () => {
    const { status, json } = await submit(await startServer(), { prompt: 'Hi', providerId: 'no' })
    expect([status, json.error.code]).toEqual([404, 'MODEL_UNKNOWN'])
  })
})

test('D5 a closing server accepts no turns', async () => {
  const server = await startServer({ log: new MemoryLog(), shutdownGraceMs: 60_000 })
  const { call: running } = await heldTurn(server)
  const closed = server.gateway.close()
  const refused = await submit(server, { prompt: 'Hi' })
  expect(refused).toMatchObject({ status: 503, json: { error: { code: 'SERVER_SHUTDOWN' } } })
  expect(refused.headers.get('retry-after')).toBe('1')
  running.finish()
  await closed
  expect(server.errors).toEqual([])
})
