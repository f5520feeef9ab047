/** Damaged records: every API marks or refuses these only, lists the others, and lets them be deleted. */

import { expect, onTestFinished, test } from 'vitest'
import { createClient } from '../../../client/src/index.ts'
import { TurnstreamError } from '../../../core/src/index.ts'
import {
  type DamagedRecord,
  damageRecords,
  folderOfTest,
  openLog,
} from '../log/embedded/support.ts'
import { call, startServer, type TestServer } from './support.ts'

/** A gateway with the threads `one` and `two`, of one and two turns, after damage to some records. */
async function damagedServer(
  choose: (turnIds: readonly string[]) => readonly DamagedRecord[],
): Promise<TestServer & { turnIds: readonly string[] }> {
  const directory = folderOfTest()
  const log = await openLog(directory)
  const before = await startServer({ log })
  const turnIds: string[] = []
  for (const threadId of ['one', 'two', 'two']) {
    const body = { prompt: 'Hi', threadId, model: 'plain/m' }
    const { turnId } = (await call(before, 'POST /api/v2/submit', { body })).json
    turnIds.push(turnId)
    await expect.poll(async () => (await log.getTurn(turnId))?.sealed).toBe(true)
  }
  await before.close()
  await log.close()
  await damageRecords(directory, choose(turnIds))
  return { ...(await startServer({ log: await openLog(directory) })), turnIds }
}

const CORRUPT = { status: 500, json: { error: { code: 'STORE_CORRUPT' } } }

type Listed = { threadId: string; turnId: string; damaged?: true }

function marks(items: readonly Listed[], name: 'threadId' | 'turnId'): string[] {
  return items.map((item) => (item.damaged ? `${item[name]}!` : item[name]))
}

test('a damaged thread is marked in lists, refused by itself, and can be deleted', async () => {
  const server = await damagedServer(() => [['threads', 'two']])
  const list = async () =>
    marks((await call(server, 'GET /api/v2/threads')).json.threads, 'threadId')
  expect((await list()).toSorted()).toEqual(['one', 'two!'])
  expect(await call(server, 'GET /api/v2/threads/one')).toMatchObject({ status: 200 })
  expect(await call(server, 'GET /api/v2/threads/two')).toMatchObject(CORRUPT)
  const body = { title: 'Again' }
  expect(await call(server, 'PATCH /api/v2/threads/two', { body })).toMatchObject(CORRUPT)
  expect(await call(server, 'GET /xapi/threads/two')).toMatchObject(CORRUPT)
  expect((await call(server, 'GET /xapi/threads/one')).status).toBe(200)
  expect((await call(server, 'DELETE /api/v2/threads/two')).status).toBe(204)
  expect(await list()).toEqual(['one'])
})

test('a thread whose turns cannot be listed can be deleted', async () => {
  const log = await openLog(folderOfTest())
  const server = await startServer({ log })
  await call(server, 'POST /api/v2/threads', { body: { threadId: 'two' } })
  log.listTurns = () => Promise.reject(new TurnstreamError('STORE_CORRUPT', 'a list'))
  expect((await call(server, 'DELETE /api/v2/threads/two')).status).toBe(204)
  expect(await call(server, 'GET /api/v2/threads')).toMatchObject({ json: { threads: [] } })
})

test('a damaged turn is marked in the lists of its thread, and refused by itself', async () => {
  const server = await damagedServer((turnIds) => [['turns', turnIds[1] ?? '']])
  const [, damaged = '', intact = ''] = server.turnIds
  const newest = (await call(server, 'GET /api/v2/threads/two')).json.turns
  expect(marks(newest, 'turnId')).toEqual([intact, `${damaged}!`])
  const outputs = (await call(server, 'GET /xapi/threads/two')).json.turns
  expect(marks(outputs, 'turnId')).toEqual([`${damaged}!`, intact])
  for (const path of [`/xapi/turns/${damaged}`, `/v1/responses/resp_${damaged}`] as const) {
    expect(await call(server, `GET ${path}`)).toMatchObject(CORRUPT)
  }
  for (const path of [`/xapi/turns/${intact}`, `/v1/responses/resp_${intact}`] as const) {
    expect((await call(server, `GET ${path}`)).status).toBe(200)
  }
})

test('a client shows a damaged turn as failed, among the others of its thread', async () => {
  const server = await damagedServer((turnIds) => [['turns', turnIds[2] ?? '']])
  const [, intact, damaged] = server.turnIds
  const thread = createClient({ baseUrl: server.url }).thread('two')
  onTestFinished(thread.subscribe(() => {}))
  const turns = () => thread.getSnapshot().turns.map(({ turnId, status }) => [turnId, status])
  await expect.poll(turns).toEqual([
    [intact, 'complete'],
    [damaged, 'error'],
  ])
  await expect.poll(() => thread.getSnapshot().connection.status).toBe('live')
  expect(thread.getSnapshot().turns[1]?.end).toMatchObject({ error: { code: 'STORE_CORRUPT' } })
})

test('a damaged turn can be deleted as a response', async () => {
  const server = await damagedServer((turnIds) => [['turns', turnIds[1] ?? '']])
  const [, damaged = '', intact = ''] = server.turnIds
  const deleted = await call(server, `DELETE /v1/responses/resp_${damaged}`)
  expect(deleted).toMatchObject({ status: 200, json: { id: `resp_${damaged}`, deleted: true } })
  expect((await call(server, `GET /v1/responses/resp_${damaged}`)).status).toBe(404)
  expect((await call(server, `DELETE /v1/responses/resp_${damaged}`)).status).toBe(404)
  const turns = (await call(server, 'GET /api/v2/threads/two')).json.turns
  expect(marks(turns, 'turnId')).toEqual([intact])
})

test.each([
  ['submits', 'POST /api/v2/submit', { prompt: 'Hi', threadId: 'two' }],
  [
    'Chat Completions',
    'POST /v1/chat/completions',
    { messages: [{ role: 'user', content: 'Hi' }] },
  ],
] as const)('a new turn creates a damaged thread again: %s', async (_name, route, fields) => {
  const server = await damagedServer(() => [['threads', 'two']])
  const headers = { 'x-thread-id': 'two' }
  const { status } = await call(server, route, { body: { model: 'plain/m', ...fields }, headers })
  expect(status).toBeLessThan(300)
  await expect
    .poll(() => call(server, 'GET /api/v2/threads/two'))
    .toMatchObject({ status: 200, json: { turns: [{}, {}, {}] } })
  const { threads } = (await call(server, 'GET /api/v2/threads')).json
  expect(marks(threads, 'threadId').toSorted()).toEqual(['one', 'two'])
})

const MESSAGES = [{ role: 'user', content: 'Hi' }]
const VENDORS = [
  ['/v1/chat/completions', { messages: MESSAGES }],
  ['/v1/responses', { input: 'Hi' }],
  ['/v1/messages', { messages: MESSAGES, max_tokens: 100 }],
] as const

test.each(VENDORS)(
  '%s continues other threads than one with a damaged turn',
  async (path, fields) => {
    const server = await damagedServer((turnIds) => [['turns', turnIds[1] ?? '']])
    const [, damaged = ''] = server.turnIds
    const ask = (threadId: string, more = {}) =>
      call(server, `POST ${path}`, {
        body: { model: 'plain/m', ...fields, ...more },
        headers: { 'x-thread-id': threadId },
      })
    expect((await ask('one')).status).toBe(200)
    if (path !== '/v1/responses') return
    const refused = await ask('two', { previous_response_id: `resp_${damaged}` })
    expect(refused).toMatchObject(CORRUPT)
  },
)
