/** Responses with `store: false`, as codex asks for all of its own. */

import { expect, test } from 'vitest'
import { type FakeClock, fakeClock } from '../../../../conformance/src/index.ts'
import { MemoryLog } from '../../../src/server.ts'
import { startServer, type TestServer } from '../support.ts'
import { framesOf, json, send } from './support.ts'

const MINUTE_MS = 60_000
const SECRET = 'my secret prompt'

/** What codex 0.166 sends, shortened. */
const CODEX = {
  model: 'held/m',
  instructions: 'You are codex.',
  input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: SECRET }] }],
  tools: [{ type: 'function', name: 'shell', parameters: { type: 'object', properties: {} } }],
  tool_choice: 'auto',
  parallel_tool_calls: false,
  reasoning: { summary: 'auto' },
  store: false,
  stream: true,
  include: ['reasoning.encrypted_content'],
  prompt_cache_key: 'session',
  client_metadata: { 'x-codex-installation-id': 'i' },
}
const HEADERS = { originator: 'codex_cli_rs', 'session-id': 'session', 'thread-id': 'session' }

interface Stage {
  readonly server: TestServer
  /** Of the store. */
  readonly clock: FakeClock
}

async function stage(storeFalse?: 'delete' | 'keep'): Promise<Stage> {
  const clock = fakeClock(Date.now())
  const log = new MemoryLog({ clock })
  return { clock, server: await startServer({ log, ...(storeFalse && { storeFalse }) }) }
}

/** Asks as codex does, and checks that the answer can be resumed while it is written. Returns its id. */
async function ask({ server }: Stage): Promise<string> {
  const calling = server.held.nextCall()
  const streaming = send(server, 'POST /v1/responses', CODEX, HEADERS)
  const call = await calling
  call.say('The ')
  const [thread] = (await server.log.listThreads()).items
  const [turn] = (await server.log.listTurns(thread?.threadId ?? '')).items
  const id = `resp_${turn?.turnId}`
  expect(json(await send(server, `GET /v1/responses/${id}`)).status).toBe('in_progress')
  const resumed = send(server, `GET /v1/responses/${id}?stream=true&starting_after=1`)
  call.say('answer.')
  call.finish()
  const whole = framesOf((await streaming).text)
  expect(whole.join('')).toContain('The answer.')
  expect(framesOf((await resumed).text)).toEqual(whole.slice(2))
  return id
}

const READS = ['', '?stream=true', '?stream=true&starting_after=2', '/input_items']

test('a response with store: false is resumed for ten minutes after its end, and then expired', async () => {
  const given = await stage()
  const { server, clock } = given
  const id = await ask(given)
  const turnId = id.slice('resp_'.length)
  await clock.advance(10 * MINUTE_MS - 1)
  expect(json(await send(server, `GET /v1/responses/${id}`))).toMatchObject({
    status: 'completed',
    store: false,
  })
  for (const read of READS) {
    expect((await send(server, `GET /v1/responses/${id}${read}`)).status).toBe(200)
  }
  await clock.advance(1)
  for (const read of READS) {
    const late = await send(server, `GET /v1/responses/${id}${read}`)
    expect(late.status).toBe(410)
    expect(json(late).error).toMatchObject({ code: 'response_expired' })
  }
  expect((await send(server, `POST /v1/responses/${id}/cancel`)).status).toBe(410)
  for (const path of [
    `/api/v2/runs/${turnId}`,
    `/api/v2/stream/${turnId}`,
    `/xapi/turns/${turnId}`,
    `/xapi/turns/${turnId}/stream`,
    `/v1/messages/msg_${turnId}`,
  ] as const) {
    const late = await send(server, `GET ${path}`)
    expect([path, late.status]).toEqual([path, 410])
  }
})

test('what remains of a response with store: false is its place in the thread', async () => {
  const given = await stage()
  const { server, clock } = given
  const id = await ask(given)
  await clock.advance(10 * MINUTE_MS)
  const [thread] = (await server.log.listThreads()).items
  const { threadId = '' } = thread ?? {}
  const listed = await send(server, `GET /api/v2/threads/${threadId}`)
  expect(json(listed).turns).toMatchObject([{ expired: true, status: 'complete', ordinal: 1 }])
  const outputs = await send(server, `GET /xapi/threads/${threadId}`)
  expect(json(outputs).turns).toMatchObject([{ expired: true, outputs: [] }])
  const record = await server.log.getTurn(id.slice('resp_'.length))
  const remains = JSON.stringify([thread, record]) + listed.text + outputs.text
  for (const secret of [SECRET, 'The answer.', 'You are codex', 'shell', 'installation']) {
    expect(remains).not.toContain(secret)
  }
  // By which the conversation, and for an hour the session, is recognised: the ids of the turn and its thread.
  const turnId = id.slice('resp_'.length)
  expect(await server.log.storedBytes()).toBe(`${threadId} ${turnId}session -1 ${turnId}`.length)
  const deleted = await send(server, `DELETE /v1/responses/${id}`)
  expect([deleted.status, json(deleted).deleted]).toEqual([200, true])
})

test('an expired response cannot be continued, nor its items referred to', async () => {
  const given = await stage()
  const { server, clock } = given
  const previous_response_id = await ask(given)
  const { output } = json(await send(server, `GET /v1/responses/${previous_response_id}`))
  const item = { type: 'item_reference', id: output[0].id }
  const ASK = { model: 'plain/m', store: false }
  const continued = { ...ASK, input: 'And?', previous_response_id }
  const referring = { ...ASK, input: [item, { role: 'user', content: 'And?' }] }
  for (const body of [continued, referring]) {
    expect((await send(server, 'POST /v1/responses', body)).status).toBe(200)
  }
  await clock.advance(10 * MINUTE_MS)
  const late = await send(server, 'POST /v1/responses', continued)
  expect(late.status).toBe(400)
  expect(json(late).error).toMatchObject({
    param: 'previous_response_id',
    code: 'previous_response_not_found',
  })
  const unfound = await send(server, 'POST /v1/responses', referring)
  expect(unfound.status).toBe(400)
  expect(json(unfound).error).toMatchObject({ type: 'invalid_request_error' })
})

test.each([
  ['with storeFalse keep', 'keep', '/v1/responses', { input: 'Hi', store: false }],
  ['without store', 'delete', '/v1/responses', { input: 'Hi' }],
  ['with store: true', 'delete', '/v1/responses', { input: 'Hi', store: true }],
  // At OpenAI it is the default here, so it says nothing about the wishes of the caller.
  [
    'of Chat Completions',
    'delete',
    '/v1/chat/completions',
    { messages: [{ role: 'user', content: 'Hi' }], store: false },
  ],
] as const)('a response %s stays', async (_name, storeFalse, path, body) => {
  const { server, clock } = await stage(storeFalse)
  const answer = await send(server, `POST ${path}`, { model: 'plain/m', ...body })
  expect(answer.status).toBe(200)
  await clock.advance(20 * MINUTE_MS)
  const id = `resp_${answer.headers.get('x-turn-id')}`
  expect((await send(server, `GET /v1/responses/${id}`)).status).toBe(200)
})
