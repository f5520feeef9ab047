/** Images, files and a history of the caller in a submit. */
import { describe, expect, test } from 'vitest'
import { call, finishedTurn, heldTurn, startServer } from './support.ts'

const PNG = `data:image/png;base64,${Buffer.from('\u0089PNG picture', 'latin1').toString('base64')}`
const PDF = `data:application/pdf;base64,${Buffer.from('%PDF-1.7').toString('base64')}`
const image = (url: string) => ({ type: 'image_url', image_url: { url } })
const file = (file_data: string, more = {}) => ({ type: 'file', file: { file_data, ...more } })
const text = (said: string) => ({ type: 'text', text: said })
const user = (content: unknown) => ({ type: 'message', origin: 'user', content })
const system = (content: unknown) => ({ type: 'message', origin: 'system', content })
const agent = (content: unknown) => ({ type: 'message', origin: 'agent', content })
const asked = (call_id = 'c') => ({ type: 'function_call', call_id, name: 'f', arguments: '{}' })
const answered = (call_id = 'c') => ({
  ...{ type: 'function_call_output', call_id, output: 'ok', success: true },
})

const dataOf = (url: string) => url.slice(url.indexOf(',') + 1)
const PICTURE = { type: 'image', media_type: 'image/png', data: dataOf(PNG) }
const PAPER = { type: 'file', media_type: 'application/pdf', data: dataOf(PDF) }

/** Without the ids of the items. */
function saidIn({ request }: Awaited<ReturnType<typeof heldTurn>>['call']) {
  return request.input.map(({ id: _id, ...item }) => item)
}

describe('images and files', () => {
  test('reach the provider after their text, and again with the thread', async () => {
    const server = await startServer()
    const content = [text('One'), text('two'), image(PNG), file(PDF, { filename: 'a.pdf' })]
    const input = [system([text('Be'), text('brief')]), user(content)]
    const { call: first, threadId, turnId } = await heldTurn(server, { prompt: undefined, input })
    const items = [
      { type: 'message', origin: 'system', content: 'Be\nbrief' },
      {
        ...{ type: 'message', origin: 'user', content: 'One\ntwo' },
        attachments: [PICTURE, { ...PAPER, filename: 'a.pdf' }],
      },
    ]
    expect(saidIn(first)).toEqual(items)
    first.finish()
    await expect.poll(async () => (await server.log.getTurn(turnId))?.sealed).toBe(true)
    const { call: second } = await heldTurn(server, { prompt: 'Next', threadId })
    expect(saidIn(second).slice(0, 2)).toEqual(items)
    second.finish()
  })

  test('before a text are a separate item', async () => {
    const server = await startServer()
    const input = [user([image(PNG), text('and'), file(PDF)])]
    const { call: held } = await heldTurn(server, { prompt: undefined, input })
    expect(saidIn(held)).toEqual([
      { type: 'message', origin: 'user', content: '', attachments: [PICTURE] },
      { type: 'message', origin: 'user', content: 'and', attachments: [PAPER] },
    ])
    held.finish()
  })
})

const many = (length: number, each: unknown) => Array.from({ length }, () => each)
const LARGE = `data:image/png;base64,iVBORw0KGgo=${'A'.repeat(7_000_000)}`

const REFUSED: Record<string, { body: object; path: string; message: string }> = {
  'an empty list of parts': {
    body: { input: [user([])] },
    path: 'body.input.0.content',
    message: '>=1 items',
  },
  'blank parts': {
    body: { input: [user([text(' ')])] },
    path: 'body.input.0.content',
    message: 'is empty',
  },
  'a part of another type': {
    body: { input: [user([{ type: 'input_audio' }])] },
    path: 'body.input.0.content.0.type',
    message: 'must be text, image_url or file',
  },
  'a misspelt field of a part': {
    body: { input: [user([{ type: 'text', txt: 'Hi' }])] },
    path: 'body.input.0.content.0.text',
    message: 'expected string',
  },
  'an image that would have to be fetched': {
    body: { input: [user([image('https://example.com/a.png')])] },
    path: 'body.input.0.content.0.image_url.url',
    message: 'cannot be fetched: send a data URL such as data:image/png;base64,…',
  },
  'an image of another type': {
    body: { input: [user([image('data:image/svg+xml;base64,AAAA')])] },
    path: 'body.input.0.content.0.image_url.url',
    message: 'must be image/png, image/jpeg, image/gif or image/webp',
  },
  'an image that is another file': {
    body: { input: [user([image(PNG.replace('png', 'gif'))])] },
    path: 'body.input.0.content.0.image_url.url',
    message: 'is not image/gif',
  },
  'a file that is no PDF': {
    body: { input: [user([file('data:text/plain;base64,AAAA')])] },
    path: 'body.input.0.content.0.file.file_data',
    message: 'must be application/pdf',
  },
  'an image beyond 5 MB': {
    body: { input: [user([image(LARGE)])] },
    path: 'body.input.0.content.0.image_url.url',
    message: 'is larger than 5242880 bytes',
  },
  'more than 100 of them': {
    body: { input: [user(many(100, image(PNG)))], history: [user([file(PDF)])] },
    path: 'body',
    message: 'has 101 images and files; the limit is 100',
  },
  'an image of the system': {
    body: { input: [system([image(PNG)])] },
    path: 'body.input.0.content.0.type',
    message: 'expected "text"',
  },
  'input of the agent': {
    body: { input: [agent('Hi')] },
    path: 'body.input.0.origin',
    message: 'Invalid',
  },
  'an output before its call': {
    body: { prompt: 'Hi', history: [answered(), asked()] },
    path: 'body.history.0.call_id',
    message: 'no unanswered call c precedes it',
  },
  'two outputs of one call': {
    body: { input: [answered()], history: [asked(), answered()] },
    path: 'body.input.0.call_id',
    message: 'no unanswered call c precedes it',
  },
  'too much history': {
    body: { prompt: 'Hi', history: many(4097, user('Hi')) },
    path: 'body.history',
    message: '4096',
  },
  'an unknown field in the history': {
    body: { prompt: 'Hi', history: [{ ...asked(), argument: '' }] },
    path: 'body.history.0',
    message: 'unknown field argument, did you mean arguments?',
  },
}

describe('refused', () => {
  test.each(Object.entries(REFUSED))('%s', async (_name, { body, path, message }) => {
    const server = await startServer({ maxBodyBytes: 10_000_000 })
    const answer = await call(server, 'POST /api/v2/submit', { body })
    expect([answer.status, answer.json.error.code]).toEqual([400, 'REQUEST_INVALID'])
    expect(answer.json.error.details[0].path).toBe(path)
    expect(answer.json.error.details[0].message).toContain(message)
    expect(server.gateway.turns.running).toBe(0)
  })
})

describe('a history', () => {
  const HISTORY = [
    system('Be brief'),
    user([text('One'), image(PNG)]),
    agent([text('Two'), text('lines')]),
    asked(),
  ]
  const ITEMS = [
    system('Be brief'),
    { ...user('One'), attachments: [PICTURE] },
    agent('Two\nlines'),
    asked(),
    answered(),
  ]

  test('takes the place of the stored thread', async () => {
    const server = await startServer()
    const { threadId } = await finishedTurn(server, { prompt: 'Stored' })
    const { call: held, turnId } = await heldTurn(server, {
      ...{ threadId, prompt: undefined, history: HISTORY, input: [answered()] },
    })
    expect(saidIn(held)).toEqual(ITEMS)
    held.say('Three')
    held.finish()
    await expect.poll(async () => (await server.log.getTurn(turnId))?.sealed).toBe(true)
    const run = await call(server, `GET /api/v2/runs/${turnId}`)
    expect(run.json.history_given).toBe(true)
    // The stored thread now begins with it.
    const { call: next } = await heldTurn(server, { threadId, prompt: 'Four' })
    expect(saidIn(next)).toEqual([...ITEMS, agent('Three'), user('Four')])
    next.finish()
  })

  test('may be empty', async () => {
    const server = await startServer()
    const { threadId } = await finishedTurn(server, { prompt: 'Stored' })
    const { call: held } = await heldTurn(server, { threadId, history: [], prompt: 'Anew' })
    expect(saidIn(held)).toEqual([user('Anew')])
    held.finish()
  })

  test('is not emitted as snapshots', async () => {
    const server = await startServer()
    const ids = await finishedTurn(server, { history: HISTORY.slice(0, 3), prompt: 'Now' })
    const { json } = await call(server, `GET /xapi/turns/${ids.turnId}`)
    const texts = json.outputs.flatMap((each: object) => ('content' in each ? [each.content] : []))
    expect(texts).toEqual(['Now', 'Hello, world.'])
  })

  test('beyond the limit of stored history is INPUT_TOO_LARGE', async () => {
    const server = await startServer({ caps: { maxHistoryBytes: 1000 } })
    const body = { prompt: 'Hi', history: [user('x'.repeat(1000))] }
    const { status, json } = await call(server, 'POST /api/v2/submit', { body })
    expect([status, json.error.code]).toEqual([413, 'INPUT_TOO_LARGE'])
  })

  test('W7 is part of the body', async () => {
    const server = await startServer()
    const body = { runId: 'r', prompt: 'Hi', history: HISTORY.slice(0, 3) }
    const submit = (more = {}) =>
      call(server, 'POST /api/v2/submit', { body: { ...body, ...more } })
    expect((await submit()).status).toBe(202)
    expect((await submit()).status).toBe(202)
    expect((await submit({ history: [] })).json.error.code).toBe('SUBMIT_CONFLICT')
  })
})
