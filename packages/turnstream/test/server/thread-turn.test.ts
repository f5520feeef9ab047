import { describe, expect, test } from 'vitest'
import { call, finishedTurn, heldTurn, startServer, type TestServer } from './support.ts'

const post = (server: TestServer, body: unknown, query = '') =>
  call(server, `POST /xapi/threads/thread/turn${query}`, { body })

describe('W6 a combined submit and stream', () => {
  test('names its turn before the first frame and streams to its end', async () => {
    const server = await startServer()
    const { status, headers, json } = await post(server, { prompt: 'Hi', turnId: 'turn' })
    expect(status).toBe(200)
    expect(headers.get('x-turn-id')).toBe('turn')
    expect(headers.get('x-thread-id')).toBe('thread')
    expect(headers.get('content-type')).toMatch(/^text\/event-stream/)
    expect(json).toContain('Hello, world.')
    expect(json).toMatch(/"type":"turn_complete"[^\n]*\n\n$/)
  })

  test('sends its headers while the turn runs', async () => {
    const server = await startServer()
    const next = server.held.nextCall()
    const leave = new AbortController()
    const { headers } = await fetch(`${server.url}/xapi/threads/thread/turn`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Hi', providerId: 'held' }),
      signal: leave.signal,
    })
    const turnId = headers.get('x-turn-id') ?? ''
    const running = await next
    leave.abort()
    // Hanging up is not stopping.
    running.say('Still here')
    running.finish()
    const { json } = await call(server, `GET /xapi/turns/${turnId}/stream`)
    expect(json).toContain('Still here')
    expect(await server.log.getTurn(turnId)).toMatchObject({ status: 'complete' })
  })

  test('can send appends only', async () => {
    const server = await startServer()
    const { status } = await post(server, { prompt: 'Hi' }, '?encoding=append')
    expect(status).toBe(200)
  })

  test('returns the first turn when it is repeated', async () => {
    const server = await startServer()
    const body = { prompt: 'Hi', runId: 'run' }
    const first = await post(server, body)
    const second = await post(server, body)
    expect(second.headers.get('x-turn-id')).toBe(first.headers.get('x-turn-id'))
    expect(second.json).toContain('Hello, world.')
  })

  const REFUSED: [name: string, body: object, query: string, status: number, code: string][] = [
    ['another thread in the body', { prompt: 'Hi', threadId: 'b' }, '', 400, 'REQUEST_INVALID'],
    ['no prompt', {}, '', 400, 'REQUEST_INVALID'],
    ['an encoding that is none', { prompt: 'Hi' }, '?encoding=zip', 400, 'REQUEST_INVALID'],
    ['a provider that is not there', { prompt: 'Hi', providerId: 'x' }, '', 404, 'MODEL_UNKNOWN'],
    ['a conflict', { prompt: 'Ho', runId: 'run' }, '', 409, 'SUBMIT_CONFLICT'],
  ]

  test.each(REFUSED)('is refused with JSON: %s', async (_name, body, query, status, code) => {
    const server = await startServer()
    await finishedTurn(server, { runId: 'run', threadId: 'thread' })
    const answer = await post(server, body, query)
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
    expect(answer.headers.get('content-type')).toBe('application/json')
  })

  test('D4 is refused while the thread is busy', async () => {
    const server = await startServer()
    await heldTurn(server, { threadId: 'thread' })
    const { status, json } = await post(server, { prompt: 'Hi' })
    expect([status, json.error.code]).toEqual([409, 'THREAD_BUSY'])
  })
})
