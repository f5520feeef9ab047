/** Whatever is sent, the answer is JSON with a code, and nothing was begun. */
import { describe, expect, test } from 'vitest'
import { MAX_JSON_NESTING } from '../../../core/src/protocol/json.ts'
import { type CallOptions, call, heldTurn, startServer } from './support.ts'

const PROMPT = { prompt: 'Hi' }
const message = { type: 'message', origin: 'user', content: 'Hi' }
const output = { type: 'function_call_output', call_id: 'c', output: '', success: true }
const tool = { name: 'n', parameters: {} }
const long = (length: number) => 'x'.repeat(length)
const many = (length: number, each: unknown) => Array.from({ length }, () => each)

/** A body that a submit refuses, and the field that it names. */
const SUBMITS: [name: string, body: unknown, path: string][] = [
  ['nothing in it', {}, 'body'],
  ['a list', [], 'body'],
  ['null', null, 'body'],
  ['a number', 7, 'body'],
  ['a text', 'Hi', 'body'],
  ['both prompt and input', { ...PROMPT, input: [message] }, 'body'],
  ['an empty prompt', { prompt: '' }, 'body.prompt'],
  ['a blank prompt', { prompt: ' \n\t ' }, 'body.prompt'],
  ['a prompt that is no text', { prompt: 7 }, 'body.prompt'],
  ['a prompt that is null', { prompt: null }, 'body.prompt'],
  ['an empty input', { input: [] }, 'body.input'],
  ['an input that is no list', { input: message }, 'body.input'],
  ['too many inputs', { input: many(1001, message) }, 'body.input'],
  ['an input of no type', { input: [{ content: 'Hi' }] }, 'body.input.0.type'],
  ['an input of another type', { input: [{ type: 'image' }] }, 'body.input.0.type'],
  [
    'an input without content',
    { input: [{ type: 'message', origin: 'user' }] },
    'body.input.0.content',
  ],
  ['an empty input message', { input: [{ ...message, content: '' }] }, 'body.input.0.content'],
  ['an input of the agent', { input: [{ ...message, origin: 'agent' }] }, 'body.input.0.origin'],
  ['an output of no call', { input: [{ ...output, call_id: '' }] }, 'body.input.0.call_id'],
  ['an output without success', { input: [{ ...output, success: 'yes' }] }, 'body.input.0.success'],
  ['an empty id', { ...PROMPT, turnId: '' }, 'body.turnId'],
  ['an id with a space', { ...PROMPT, turnId: 'a b' }, 'body.turnId'],
  ['an id with a line end', { ...PROMPT, runId: 'a\nb' }, 'body.runId'],
  ['an id with NUL', { ...PROMPT, runId: 'a\0b' }, 'body.runId'],
  ['an id with a brace', { ...PROMPT, threadId: '{a}' }, 'body.threadId'],
  ['an id with half a character', { ...PROMPT, threadId: 'a\ud800' }, 'body.threadId'],
  ['an id that is too long', { ...PROMPT, threadId: long(201) }, 'body.threadId'],
  ['an id that is a number', { ...PROMPT, turnId: 7 }, 'body.turnId'],
  ['an empty model', { ...PROMPT, model: '' }, 'body.model'],
  ['a model that is too long', { ...PROMPT, model: long(301) }, 'body.model'],
  ['an effort that is none', { ...PROMPT, reasoningEffort: 'huge' }, 'body.reasoningEffort'],
  ['a negative budget', { ...PROMPT, thinkingBudget: -1 }, 'body.thinkingBudget'],
  ['half a token', { ...PROMPT, maxOutputTokens: 1.5 }, 'body.maxOutputTokens'],
  ['no tokens', { ...PROMPT, maxOutputTokens: 0 }, 'body.maxOutputTokens'],
  ['a temperature that is too high', { ...PROMPT, temperature: 3 }, 'body.temperature'],
  ['a temperature that is no number', { ...PROMPT, temperature: '1' }, 'body.temperature'],
  ['a topP that is too high', { ...PROMPT, topP: 1.1 }, 'body.topP'],
  ['too many stops', { ...PROMPT, stop: many(17, 'x') }, 'body.stop'],
  ['an empty stop', { ...PROMPT, stop: [''] }, 'body.stop.0'],
  ['tools that are no list', { ...PROMPT, tools: tool }, 'body.tools'],
  ['too many tools', { ...PROMPT, tools: many(257, tool) }, 'body.tools'],
  ['a tool without a name', { ...PROMPT, tools: [{ parameters: {} }] }, 'body.tools.0.name'],
  ['a tool without parameters', { ...PROMPT, tools: [{ name: 'n' }] }, 'body.tools.0.parameters'],
  [
    'a tool with huge parameters',
    { ...PROMPT, tools: [{ name: 'n', parameters: { a: long(200_000) } }] },
    'body.tools.0.parameters',
  ],
  ['a choice that is none', { ...PROMPT, toolChoice: 'some' }, 'body.toolChoice'],
  [
    'a format that is none',
    { ...PROMPT, responseFormat: { type: 'xml' } },
    'body.responseFormat.type',
  ],
]

const CHANGE = 'PATCH /api/v2/threads/h'

/** A body with a field that nobody knows, where it is, and what is said of it. */
const UNKNOWN: [ask: `${string} /${string}`, body: unknown, path: string, told: string][] = [
  ['POST /api/v2/submit', { ...PROMPT, modle: 'm' }, 'body', 'modle, did you mean model?'],
  ['POST /xapi/threads/h/turn', { ...PROMPT, Model: 'm' }, 'body', 'Model, did you mean model?'],
  ['POST /api/v2/submit', { ...PROMPT, telemetry: 1 }, 'body', 'telemetry'],
  ['POST /api/v2/submit', { ...PROMPT, [long(100_000)]: 1 }, 'body', 'xxx'],
  [
    'POST /api/v2/submit',
    { input: [{ ...message, contents: '' }] },
    'body.input.0',
    'contents, did you mean content?',
  ],
  ['POST /api/v2/submit', { input: [{ ...output, sucess: 1 }] }, 'body.input.0', 'sucess, did'],
  ['POST /api/v2/submit', { ...PROMPT, tools: [{ ...tool, nam: 1 }] }, 'body.tools.0', 'nam, did'],
  [
    'POST /api/v2/submit',
    { ...PROMPT, toolChoice: { name: 'n', nmae: 'n' } },
    'body.toolChoice',
    'nmae, did you mean name?',
  ],
  [
    'POST /api/v2/submit',
    { ...PROMPT, responseFormat: { type: 'text', stict: true } },
    'body.responseFormat',
    'stict',
  ],
  ['POST /api/v2/threads', { titel: 'x' }, 'body', 'titel, did you mean title?'],
  [CHANGE, { title: 'x', metdata: {} }, 'body', 'metdata, did you mean metadata?'],
  ['POST /api/v2/stream-tokens', { turnId: 't', treadId: 'h' }, 'body', 'treadId, did'],
  ['POST /api/v2/runs/r/cancel', { raeson: 'x' }, 'body', 'raeson, did you mean reason?'],
]

describe('V2 an unknown field', () => {
  test.each(UNKNOWN)('%s %j', async (ask, body, path, told) => {
    const server = await startServer()
    const { status, json } = await call(server, ask, { body })
    expect([status, json.error.code]).toEqual([400, 'REQUEST_INVALID'])
    const message = expect.stringContaining(`unknown field ${told}`)
    expect(json.error.details).toEqual([{ path, message }])
    expect(json.error.message.length).toBeLessThan(400)
    expect((await server.log.listThreads()).items).toEqual([])
  })

  test("is allowed where the object is the client's", async () => {
    const server = await startServer()
    const tools = [{ name: 'n', parameters: { modle: { nam: 1 } } }]
    const submitted = await call(server, 'POST /api/v2/submit', { body: { ...PROMPT, tools } })
    expect(submitted.status).toBe(202)
    const body = { metadata: { titel: { any: 'thing' } } }
    expect((await call(server, 'POST /api/v2/threads', { body })).status).toBe(201)
  })

  test.each(['', undefined])('V2 an empty body where none is required: %j', async (body) => {
    const server = await startServer()
    const headers = { 'content-type': 'application/json; charset=utf-8' }
    const post = (path: string) =>
      fetch(`${server.url}${path}`, {
        method: 'POST',
        headers,
        ...(body !== undefined && { body }),
      })
    expect((await post('/api/v2/threads')).status).toBe(201)
    const { runId } = await heldTurn(server)
    expect((await post(`/api/v2/runs/${runId}/cancel`)).status).toBe(202)
    const refused = await post('/api/v2/submit')
    expect(refused.status).toBe(400)
    expect(await refused.text()).toContain('must have either a prompt or an input')
  })
})

describe('a submit with', () => {
  test.each(SUBMITS)('%s', async (_name, body, path) => {
    const server = await startServer()
    const { status, json } = await call(server, 'POST /api/v2/submit', { body })
    expect([status, json.error.code]).toEqual([400, 'REQUEST_INVALID'])
    expect(json.error.details[0].path).toBe(path)
    expect(json.error.message).toContain(path)
    expect((await server.log.listThreads()).items).toEqual([])
    expect(server.errors).toEqual([])
  })
})

const title = { title: long(1001) }
const metadata = { metadata: { a: long(17_000) } }
const key = (value: string) => ({ headers: { 'idempotency-key': value } })

/** A request that is refused, by the code that it is refused with. */
const OTHERS: Record<string, [ask: `${string} /${string}`, options?: CallOptions][]> = {
  'TURN_UNKNOWN 404': [
    ['GET /api/v2/runs/no'],
    ['GET /xapi/turns/no'],
    ['GET /xapi/turns/__proto__'],
    ['GET /xapi/turns/%ff'],
    ['GET /xapi/turns/no/stream'],
    ['GET /api/v2/stream/no'],
  ],
  'THREAD_UNKNOWN 404': [['GET /xapi/threads/constructor'], ['GET /xapi/threads/no/stream']],
  'CURSOR_INVALID 400': [
    ['GET /api/v2/threads?cursor=x'],
    ['GET /api/v2/threads/h?cursor=x'],
    ['GET /xapi/threads/h?cursor=x'],
    ['GET /xapi/turns/t/stream?from=x'],
    ['GET /xapi/turns/t/stream', { headers: { 'last-event-id': '1-x' } }],
  ],
  'REQUEST_INVALID 400': [
    ['GET /api/v2/runs/a%20b'],
    ['GET /xapi/turns/%00'],
    ['GET /xapi/turns/{a}'],
    [`GET /xapi/turns/${long(201)}`],
    ['GET /api/v2/threads?limit=0'],
    ['GET /api/v2/threads?limit=-1'],
    ['GET /api/v2/threads?limit=201'],
    ['GET /api/v2/threads?limit=1.5'],
    ['GET /api/v2/threads?limit=x'],
    ['GET /api/v2/threads?limit='],
    ['GET /api/v2/threads?limit=1&limit=2'],
    [`GET /api/v2/threads?cursor=${long(301)}`],
    ['GET /xapi/threads/h?limit=101'],
    ['GET /xapi/threads/h?first=middle'],
    ['GET /xapi/turns/t/stream?encoding=zip'],
    ['POST /api/v2/threads', { body: title }],
    ['POST /api/v2/threads', { body: metadata }],
    ['POST /api/v2/threads', { body: { metadata: [] } }],
    ['POST /api/v2/threads', { body: { threadId: '' } }],
    ['POST /api/v2/threads', { body: { threadId: '..' } }],
    ['PATCH /api/v2/threads/h', { body: { title: 1 } }],
    ['PATCH /api/v2/threads/h', { body: { titel: 'A' } }],
    ['PATCH /api/v2/threads/h'],
    ['POST /api/v2/runs/r/cancel', { body: { reason: '' } }],
    ['POST /api/v2/runs/r/cancel', { body: { reason: long(1001) } }],
    ['POST /api/v2/submit', { body: PROMPT, ...key(long(201)) }],
    ['POST /api/v2/submit', { body: PROMPT, ...key('a b') }],
    ['POST /api/v2/submit', { body: PROMPT, ...key('ü') }],
    ['POST /api/v2/submit', { body: PROMPT, ...key('..') }],
    ['POST /api/v2/submit'],
  ],
}

describe.each(Object.entries(OTHERS))('%s is returned for', (refusal, rows) => {
  test.each(rows)('%s %j', async (ask, options = {}) => {
    const server = await startServer()
    await server.log.create({ turnId: 't', threadId: 'h', owner: 'me' }, 1_000_000)
    const { status, json } = await call(server, ask, options)
    expect(`${json.error.code} ${status}`).toBe(refusal)
    expect(server.errors).toEqual([])
  })
})

describe('an error message', () => {
  test('does not grow with the input', async () => {
    const input = many(900, { type: 'message', origin: 'user', content: 1 })
    const server = await startServer()
    const { json } = await call(server, 'POST /api/v2/submit', { body: { input } })
    expect(json.error.details).toHaveLength(20)
    const strange = { metadata: { a: 1 }, [`title${long(5000)}`]: 1, title: 1 }
    const other = await call(server, 'POST /api/v2/threads', { body: strange })
    expect(JSON.stringify(other.json).length).toBeLessThan(1000)
  })
})

describe('unusual but valid input', () => {
  const texts = ['\0', 'a\ud800b', '\u202e', '🧵'.repeat(50), '"\\\u2028', '<script>', '{}', ' x ']

  test.each(texts)('the prompt %j is returned unchanged', async (prompt) => {
    const server = await startServer()
    const { json } = await call(server, 'POST /api/v2/submit', { body: { prompt } })
    const run = await call(server, `GET /api/v2/runs/${json.runId}`)
    expect(run.json.output_items[0].content).toBe(prompt)
  })

  test.each(['a/b', 'ü', '🧵', '...', '%', '?', '#', '"', '__proto__', 'toString'])(
    'the id %j names a turn on every route',
    async (turnId) => {
      const server = await startServer()
      const at = encodeURIComponent(turnId)
      await call(server, 'POST /api/v2/submit', { body: { ...PROMPT, turnId, threadId: turnId } })
      expect((await call(server, `GET /xapi/turns/${at}/stream`)).status).toBe(200)
      for (const path of [`xapi/turns/${at}`, `xapi/threads/${at}`, `api/v2/threads/${at}`]) {
        expect((await call(server, `GET /${path}`)).status).toBe(200)
      }
      expect((await call(server, `GET /api/v2/runs/${at}`)).json.turn_id).toBe(turnId)
    },
  )

  test('JSON may be nested up to a bound', async () => {
    const server = await startServer()
    const nested = (depth: number) => `{"metadata":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`
    const send = (body: string) =>
      fetch(`${server.url}/api/v2/threads`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
    expect((await send(nested(MAX_JSON_NESTING - 2))).status).toBe(201)
    const refused = await send(nested(MAX_JSON_NESTING))
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ error: { code: 'REQUEST_INVALID' } })
    expect((await send(nested(500_000))).status).toBe(400)
  })
})
