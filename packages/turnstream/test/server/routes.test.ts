import { expect, test } from 'vitest'
import { ROUTES } from '../../../core/src/protocol/names.ts'
import {
  type Answer,
  call,
  finishedTurn,
  heldTurn,
  readUntil,
  startServer,
  type TestServer,
} from './support.ts'

interface Row {
  readonly ask: (server: TestServer) => Promise<Answer>
  readonly status: number
  readonly answers: unknown
}

const ids = {
  runId: expect.any(String),
  turnId: expect.any(String),
  threadId: expect.any(String),
}
const time = expect.any(Number)
const frames = expect.stringContaining('"type":"turn_complete"')

/** What each route is for, in one call. The list is complete: see below. */
const ROUTE_ROWS: Record<string, Row> = {
  postSubmit: {
    ask: (server) => call(server, 'POST /api/v2/submit', { body: { prompt: 'Hi' } }),
    status: 202,
    answers: ids,
  },
  getRun: {
    ask: async (server) => call(server, `GET /api/v2/runs/${(await finishedTurn(server)).runId}`),
    status: 200,
    answers: expect.objectContaining({ status: 'complete', finish_reason: 'stop' }),
  },
  postRunCancel: {
    ask: async (server) => {
      const { runId } = await heldTurn(server)
      return call(server, `POST /api/v2/runs/${runId}/cancel`)
    },
    status: 202,
    answers: { cancelled: true },
  },
  postRunApproval: {
    ask: async (server) => {
      const { runId } = await finishedTurn(server)
      return call(server, `POST /api/v2/runs/${runId}/approvals/none`, { body: { approved: true } })
    },
    status: 404,
    answers: expect.objectContaining({
      error: expect.objectContaining({ code: 'APPROVAL_UNKNOWN' }),
    }),
  },
  getThreads: {
    ask: async (server) => {
      await finishedTurn(server, { threadId: 'thread' })
      return call(server, 'GET /api/v2/threads')
    },
    status: 200,
    answers: { threads: [{ threadId: 'thread', title: 'Hi', createdAt: time, updatedAt: time }] },
  },
  postThreads: {
    ask: (server) => call(server, 'POST /api/v2/threads', { body: { title: 'A' } }),
    status: 201,
    answers: { threadId: expect.any(String), title: 'A', createdAt: time, updatedAt: time },
  },
  getThread: {
    ask: async (server) => {
      await finishedTurn(server, { threadId: 'thread', turnId: 'turn' })
      return call(server, 'GET /api/v2/threads/thread')
    },
    status: 200,
    answers: expect.objectContaining({
      threadId: 'thread',
      turns: [expect.objectContaining({ turnId: 'turn', status: 'complete', sealed: true })],
    }),
  },
  patchThread: {
    ask: async (server) => {
      await call(server, 'POST /api/v2/threads', { body: { threadId: 'thread' } })
      return call(server, 'PATCH /api/v2/threads/thread', { body: { title: 'B' } })
    },
    status: 200,
    answers: expect.objectContaining({ threadId: 'thread', title: 'B' }),
  },
  deleteThread: {
    ask: async (server) => {
      await call(server, 'POST /api/v2/threads', { body: { threadId: 'thread' } })
      return call(server, 'DELETE /api/v2/threads/thread')
    },
    status: 204,
    answers: '',
  },
  getTurnOutputs: {
    ask: async (server) => call(server, `GET /xapi/turns/${(await finishedTurn(server)).turnId}`),
    status: 200,
    answers: expect.objectContaining({ sealed: true, offset: expect.stringMatching(/^1-\d+$/) }),
  },
  getThreadOutputs: {
    ask: async (server) => {
      const { threadId } = await finishedTurn(server)
      return call(server, `GET /xapi/threads/${threadId}`)
    },
    status: 200,
    answers: { threadId: expect.any(String), turns: [expect.objectContaining({ sealed: true })] },
  },
  postThreadTurn: {
    ask: (server) => call(server, 'POST /xapi/threads/thread/turn', { body: { prompt: 'Hi' } }),
    status: 200,
    answers: frames,
  },
  getRunStream: {
    ask: async (server) => call(server, `GET /api/v2/stream/${(await finishedTurn(server)).runId}`),
    status: 200,
    answers: expect.stringContaining('"type":"response_done"'),
  },
  getTurnOutputStream: {
    ask: async (server) =>
      call(server, `GET /xapi/turns/${(await finishedTurn(server)).turnId}/stream`),
    status: 200,
    answers: frames,
  },
  getOutputStreams: {
    // It starts with the turn that runs.
    ask: async (server) => {
      const { threadId, call: running } = await heldTurn(server)
      const url = `${server.url}/xapi/streams?threads=${threadId}`
      const answer = await readUntil(url, 'turn_started')
      running.finish()
      return answer
    },
    status: 200,
    answers: expect.stringContaining('"type":"turn_started"'),
  },
  getThreadOutputStream: {
    // It goes on for as long as the thread is there.
    ask: async (server) => {
      const { threadId } = await finishedTurn(server)
      return readUntil(`${server.url}/xapi/threads/${threadId}/stream`, 'turn_complete')
    },
    status: 200,
    answers: frames,
  },
  postStreamTokens: {
    ask: async (server) => {
      const { turnId } = await finishedTurn(server)
      return call(server, 'POST /api/v2/stream-tokens', { body: { turnId } })
    },
    status: 201,
    answers: { token: expect.stringMatching(/^v1\.[\w-]+\.[\w-]{43}$/), expiresAt: time },
  },
  postChatCompletions: {
    ask: (server) =>
      call(server, 'POST /v1/chat/completions', {
        body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
      }),
    status: 200,
    answers: expect.objectContaining({ object: 'chat.completion', model: 'm' }),
  },
  postResponses: {
    ask: (server) => call(server, 'POST /v1/responses', { body: { model: 'm', input: 'Hi' } }),
    status: 200,
    answers: expect.objectContaining({ object: 'response', model: 'm', status: 'completed' }),
  },
  getResponse: {
    ask: async (server) => call(server, `GET /v1/responses/${await responseId(server)}`),
    status: 200,
    answers: expect.objectContaining({ object: 'response', status: 'completed' }),
  },
  postResponseCancel: {
    ask: async (server) => {
      const { turnId } = await heldTurn(server)
      return call(server, `POST /v1/responses/resp_${turnId}/cancel`)
    },
    status: 200,
    answers: expect.objectContaining({ status: 'cancelled' }),
  },
  deleteResponse: {
    ask: async (server) => call(server, `DELETE /v1/responses/${await responseId(server)}`),
    status: 200,
    answers: { id: expect.stringMatching(/^resp_/), object: 'response', deleted: true },
  },
  getResponseInputItems: {
    ask: async (server) =>
      call(server, `GET /v1/responses/${await responseId(server)}/input_items`),
    status: 200,
    answers: expect.objectContaining({ object: 'list', has_more: false }),
  },
  postResponseInputTokens: {
    ask: (server) => call(server, 'POST /v1/responses/input_tokens', { body: { input: 'Hello' } }),
    status: 200,
    answers: { object: 'response.input_tokens', input_tokens: 2 },
  },
  postMessages: {
    ask: (server) =>
      call(server, 'POST /v1/messages', {
        body: { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] },
      }),
    status: 200,
    answers: expect.objectContaining({ type: 'message', model: 'm', stop_reason: 'end_turn' }),
  },
  getMessage: {
    ask: async (server) =>
      call(server, `GET /v1/messages/msg_${(await finishedTurn(server)).turnId}`),
    status: 200,
    answers: expect.objectContaining({ content: [{ type: 'text', text: 'Hello, world.' }] }),
  },
  postMessagesCountTokens: {
    ask: (server) =>
      call(server, 'POST /v1/messages/count_tokens', {
        body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
      }),
    status: 200,
    answers: { input_tokens: 2 },
  },
  getModels: {
    ask: (server) => call(server, 'GET /v1/models'),
    status: 200,
    answers: expect.objectContaining({
      object: 'list',
      data: expect.arrayContaining([
        { id: 'plain/m', object: 'model', created: time, owned_by: 'plain' },
      ]),
    }),
  },
  getModel: {
    ask: (server) => call(server, 'GET /v1/models/plain%2Fm'),
    status: 200,
    answers: { id: 'plain/m', object: 'model', created: time, owned_by: 'plain' },
  },
  getHello: {
    ask: (server) => call(server, 'GET /api/hello'),
    status: 200,
    answers: { status: 'ok' },
  },
  getHealth: {
    ask: (server) => call(server, 'GET /healthz'),
    status: 200,
    answers: { status: 'ok' },
  },
  getReady: {
    ask: (server) => call(server, 'GET /readyz'),
    status: 200,
    answers: { status: 'ok' },
  },
  getMetrics: {
    ask: (server) => call(server, 'GET /metrics'),
    status: 200,
    answers: expect.stringContaining('\nturnstream_turns_started_total 0\n'),
  },
  getOpenapi: {
    ask: (server) => call(server, 'GET /openapi.json'),
    status: 200,
    answers: expect.objectContaining({ openapi: '3.1.0' }),
  },
  getDocs: {
    ask: (server) => call(server, 'GET /docs'),
    status: 200,
    answers: expect.stringMatching(/^<!doctype html>/),
  },
}

async function responseId(server: TestServer): Promise<string> {
  return `resp_${(await finishedTurn(server)).turnId}`
}

test.each(Object.entries(ROUTE_ROWS))('%s', async (_name, { ask, status, answers }) => {
  const answer = await ask(await startServer())
  expect(answer.json).toEqual(answers)
  expect(answer.status).toBe(status)
})

test('every served route is documented, and every documented route has a row', async () => {
  // The page is no API.
  const { gateway, document } = await startServer({ page: false })
  const served = gateway.app.routes
    .filter(({ method, path }) => method !== 'ALL' && path !== '/')
    .map(({ method, path }) => `${method.toLowerCase()} ${path.replaceAll(/:(\w+)/g, '{$1}')}`)
  const described = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { operationId }]) => ({
      route: `${method} ${path}`,
      operationId,
    })),
  )
  expect([...new Set(served)].toSorted()).toEqual(described.map(({ route }) => route).toSorted())
  const names = described.map(({ operationId }) => operationId)
  expect(names.toSorted()).toEqual(Object.keys(ROUTE_ROWS).toSorted())
})

test('every route name is served', async () => {
  const server = await startServer()
  const paths = Object.values(ROUTES).map((path) => path.replaceAll(/:(\w+)/g, '{$1}'))
  expect(paths.filter((path) => !(path in server.document.paths))).toEqual([])
})

test('/ redirects to the docs page if there is no chat page', async () => {
  const { status, headers } = await call(await startServer({ page: false }), 'GET /')
  expect([status, headers.get('location')]).toEqual([302, 'docs'])
})
