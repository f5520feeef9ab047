/** Names that mean something to every object of JavaScript are names like any other, or are refused. */
import { afterEach, describe, expect, test, vi } from 'vitest'
import { pollutingKey } from '../../../src/server/request-body.ts'
import { sendRaw } from '../raw-http.ts'
import { call, finishedTurn, heldTurn, sealed, startServer, type TestServer } from '../support.ts'

// Many requests in one test, on a machine that runs everything else at the same time.
vi.setConfig({ testTimeout: 30_000 })

const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'valueOf', 'hasOwnProperty']

afterEach(() => {
  const plain: Record<string, unknown> = {}
  const isPolluted = plain['polluted'] !== undefined || Object.keys(Object.prototype).length > 0
  if (isPolluted) throw new Error('all objects have got something')
})

/** As text: an object literal would set the prototype instead. */
async function post(server: TestServer, path: string, body: string, method: string = 'POST') {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${server.url}${path}`, { method, headers, body })
  // oxlint-disable-next-line typescript/no-explicit-any -- what it holds is what the test is about
  const json: any = await response.json()
  return { status: response.status, json }
}

const POISON = [
  '"__proto__":{"polluted":1}',
  '"__proto__":null',
  String.raw`"\u005f_proto__":{"polluted":1}`,
  String.raw`"\u005F\u005F\u0070roto\u005f_":{"polluted":1}`,
  '"constructor":{"prototype":{"polluted":1}}',
  String.raw`"\u0063onstructor":{"prototyp\u0065":{"polluted":1}}`,
]

/** Where something of a body is kept, or looked at; `§` is where the poison goes. */
const PLACES: [method: string, path: string, body: string][] = [
  ['POST', '/api/v2/threads', '{§}'],
  ['POST', '/api/v2/threads', '{"metadata":{§}}'],
  ['POST', '/api/v2/threads', '{"metadata":{"a":{"b":[{"c":{§}}]}}}'],
  ['PATCH', '/api/v2/threads/known', '{"metadata":{§}}'],
  ['POST', '/api/v2/submit', '{"prompt":"Hi",§}'],
  ['POST', '/api/v2/submit', '{"input":[{"type":"message","origin":"user","content":"Hi",§}]}'],
  ['POST', '/api/v2/submit', '{"prompt":"Hi","tools":[{"name":"n","parameters":{§}}]}'],
  ['POST', '/api/v2/submit', '{"prompt":"Hi","tools":[{"name":"n","parameters":{},§}]}'],
  ['POST', '/api/v2/submit', '{"prompt":"Hi","toolChoice":{"name":"n",§}}'],
  [
    ...(['POST', '/api/v2/submit'] as const),
    '{"prompt":"Hi","responseFormat":{"type":"json_schema","name":"n","schema":{"a":{§}}}}',
  ],
  ['POST', '/api/v2/runs/known/cancel', '{§}'],
  ['POST', '/xapi/threads/known/turn', '{"prompt":"Hi",§}'],
]

describe('a body that would pollute Object.prototype', () => {
  test.each(PLACES)('is REQUEST_INVALID: %s %s %s', async (method, path, body) => {
    const server = await startServer()
    await finishedTurn(server, { turnId: 'known', threadId: 'known' })
    for (const poison of POISON) {
      const { status, json } = await post(server, path, body.replace('§', poison), method)
      expect([poison, status, json.error?.code]).toEqual([poison, 400, 'REQUEST_INVALID'])
      expect(json.error.message).toMatch(/has the key (__proto__|constructor\.prototype)/)
    }
    expect((await server.log.listThreads()).items).toHaveLength(1)
    expect(server.errors).toEqual([])
  })

  test('is distinguished from harmless text', () => {
    const harmless = [
      '{"prompt":"what is __proto__ and constructor.prototype?"}',
      '{"constructor":"prototype"}',
      '{"constructor":{"type":"string"},"prototype":{}}',
      String.raw`{"a":"\u0000"}`,
      '{"proto":{}}',
      '["__proto__"]',
      '"__proto__"',
      'no JSON: "__proto__":',
    ]
    expect(harmless.map(pollutingKey)).toEqual(harmless.map(() => undefined))
    expect(pollutingKey(`${'['.repeat(500)}{"__proto__":1}${']'.repeat(500)}`)).toBe('__proto__')
  })
})

describe('the name of an Object.prototype property', () => {
  test.each(NAMES)('%s is an ordinary id', async (name) => {
    const server = await startServer()
    for (const path of [`xapi/turns/${name}`, `api/v2/runs/${name}`, `api/v2/threads/${name}`]) {
      expect((await call(server, `GET /${path}`)).status).toBe(404)
    }
    await finishedTurn(server, { turnId: name, threadId: name })
    const { json: turn } = await call(server, `GET /xapi/turns/${name}`)
    expect([turn.turnId, turn.threadId, turn.sealed]).toEqual([name, name, true])
    const { json: thread } = await call(server, `GET /api/v2/threads/${name}`)
    expect(thread.turns.map((each: { turnId: string }) => each.turnId)).toEqual([name])
    expect((await call(server, `DELETE /api/v2/threads/${name}`)).status).toBe(204)
    expect((await call(server, `GET /xapi/turns/${name}`)).status).toBe(404)
  })

  test.each(NAMES)('%s is not a provider, model or setting', async (name) => {
    const server = await startServer()
    const body = { prompt: 'Hi', providerId: name }
    const { status, json } = await call(server, 'POST /api/v2/submit', { body })
    expect([status, json.error.code]).toEqual([404, 'MODEL_UNKNOWN'])
    for (const field of ['reasoningEffort', 'toolChoice', 'responseFormat']) {
      const wrong = JSON.stringify({ prompt: 'Hi', [field]: name })
      expect((await post(server, '/api/v2/submit', wrong)).status).toBe(400)
    }
  })

  test.each(NAMES)(
    '%s is accepted as the name of a tool, a call or a metadata field',
    async (name) => {
      const server = await startServer()
      const tools = [{ name, parameters: { type: 'object', required: [name] } }]
      const output = { type: 'function_call_output', call_id: name, output: name, success: true }
      const message = { type: 'message', origin: 'user', content: name }
      const history = [{ type: 'function_call', call_id: name, name, arguments: '{}' }]
      const {
        call: running,
        runId,
        turnId,
      } = await heldTurn(server, {
        ...{ prompt: undefined, history, input: [message, output], tools, stop: [name] },
      })
      expect(running.request.tools).toEqual(tools)
      running.say(name)
      running.finish()
      await sealed(server.log, turnId)
      const { json: run } = await call(server, `GET /api/v2/runs/${runId}`)
      expect(run.output_items.at(-1).content).toBe(name)
      if (name === '__proto__') return
      const metadata = { [name]: { [name]: name } }
      const made = await call(server, 'POST /api/v2/threads', { body: { threadId: 'm', metadata } })
      expect(made.json.metadata).toEqual(metadata)
      expect((await call(server, 'GET /api/v2/threads/m')).json.metadata).toEqual(metadata)
    },
  )

  test.each(NAMES)('%s is ignored in a query', async (name) => {
    const server = await startServer()
    for (const query of [
      `${name}=1`,
      `${name}=1&${name}=2`,
      `${name}[polluted]=1`,
      `a.${name}=1`,
    ]) {
      expect((await call(server, `GET /api/v2/threads?${query}`)).status).toBe(200)
      expect((await call(server, `GET /api/v2/threads?${query}&limit=x`)).status).toBe(400)
    }
  })

  test.each(NAMES)('%s is ignored as a header', async (name) => {
    const server = await startServer()
    const head = `host: a\r\nconnection: close\r\n${name}: polluted\r\n${name}: polluted\r\n`
    const got = await sendRaw(server.url, `GET /api/v2/threads HTTP/1.1\r\n${head}\r\n`)
    expect([got.status, got.body]).toEqual([200, '{"threads":[]}'])
    const body = '{"prompt":"Hi"}'
    const type = `content-type: application/json\r\ncontent-length: ${body.length}\r\n`
    const submitted = `POST /api/v2/submit HTTP/1.1\r\n${head}${type}\r\n${body}`
    expect((await sendRaw(server.url, submitted)).status).toBe(202)
    expect(server.errors).toEqual([])
  })
})
