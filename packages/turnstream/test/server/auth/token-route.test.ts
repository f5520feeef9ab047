import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { call, sealed, startServer } from '../support.ts'
import { ACME, guardedServer, OTHER, withKey } from './support.ts'
import { open, SECRET, stage } from './token-stage.ts'

describe('POST /api/v2/stream-tokens', () => {
  test('returns the expiry of the token', async () => {
    const clock = fakeClock(1_700_000_000_000)
    const server = await stage({ clock })
    const options = { headers: withKey(ACME), body: { turnId: 'a1' } }
    const { json, headers } = await call(server, 'POST /api/v2/stream-tokens', options)
    expect(json.expiresAt).toBe(1_700_000_000_000 + 300_000)
    expect(headers.get('cache-control')).toBe('no-store')
  })

  test.each<[string, number, unknown]>([
    ['TURN_UNKNOWN', 404, { turnId: 'xx' }],
    ['TURN_UNKNOWN', 404, { turnId: '__proto__' }],
    ['THREAD_UNKNOWN', 404, { threadId: 'xx' }],
    ['REQUEST_INVALID', 400, {}],
    ['REQUEST_INVALID', 400, { turnId: 'a1', threadId: 'a' }],
    ['REQUEST_INVALID', 400, { runId: 'run-a1' }],
    ['REQUEST_INVALID', 400, { turnId: '' }],
    ['REQUEST_INVALID', 400, { turnId: null, threadId: 'a' }],
    ['REQUEST_INVALID', 400, { turnId: ['a1'] }],
    ['REQUEST_INVALID', 400, []],
  ])('%s %i for %j', async (code, status, body) => {
    const server = await stage()
    const options = { headers: withKey(ACME), body }
    const answer = await call(server, 'POST /api/v2/stream-tokens', options)
    expect([answer.status, answer.json.error.code]).toEqual([status, code])
  })

  test('treats resources of another tenant as unknown', async () => {
    const server = await stage()
    for (const body of [{ turnId: 'a1' }, { threadId: 'a' }]) {
      const options = { headers: withKey(OTHER), body }
      expect((await call(server, 'POST /api/v2/stream-tokens', options)).status).toBe(404)
    }
  })

  test('works without keys, and the token is then ignored', async () => {
    const server = await startServer()
    const body = { prompt: 'Hi', turnId: 't' }
    await call(server, 'POST /api/v2/submit', { body })
    await sealed(server.log, 't')
    const made = await call(server, 'POST /api/v2/stream-tokens', { body: { turnId: 't' } })
    expect(made.status).toBe(201)
    for (const token of [made.json.token as string, 'nonsense']) {
      expect((await open(server, '/xapi/turns/t/stream', token)).status).toBe(200)
    }
  })

  test('tokens made without keys are invalid once there are keys', async () => {
    const server = await startServer({ streamTokenSecret: SECRET })
    await call(server, 'POST /api/v2/threads', { body: { threadId: 'a' } })
    const { json } = await call(server, 'POST /api/v2/stream-tokens', { body: { threadId: 'a' } })
    const guarded = await guardedServer({ log: server.log, streamTokenSecret: SECRET })
    expect((await open(guarded, '/xapi/threads/a/stream', json.token)).status).toBe(401)
  })
})
