/** A server with turns, and tokens for its streams. */
import { expect } from 'vitest'
import { call, sealed, type TestServer } from '../support.ts'
import { ACME, type GuardedServer, guardedServer, withKey } from './support.ts'

export const SECRET = 'a secret of at least 32 characters'

export type What = { turnId: string } | { threadId: string }

export async function tokenFor(server: TestServer, body: What, key = ACME): Promise<string> {
  const headers = withKey(key)
  const { status, json } = await call(server, 'POST /api/v2/stream-tokens', { headers, body })
  expect(status).toBe(201)
  return json.token as string
}

/** Acme's turns: two of one thread, whose runs have names of their own, and one of another thread. */
export async function stage(options = {}): Promise<GuardedServer> {
  const server = await guardedServer(options)
  const turns = [
    { turnId: 'a1', runId: 'run-a1', threadId: 'a' },
    { turnId: 'a2', runId: 'run-a2', threadId: 'a' },
    { turnId: 'b1', runId: 'run-b1', threadId: 'b' },
  ]
  for (const turn of turns) {
    const body = { prompt: 'Hi', ...turn }
    await call(server, 'POST /api/v2/submit', { headers: withKey(ACME), body })
    await sealed(server.log.ofTenant('acme'), turn.turnId)
  }
  return server
}

export const STREAMS = [
  '/api/v2/stream/run-a1',
  '/api/v2/stream/run-a2',
  '/api/v2/stream/run-b1',
  '/xapi/turns/a1/stream',
  '/xapi/turns/a2/stream',
  '/xapi/turns/b1/stream',
  '/xapi/threads/a/stream',
  '/xapi/threads/b/stream',
] as const

/** The status of a stream, and what is told if it is refused. */
export async function open({ url }: TestServer, path: string, token: string) {
  const leave = new AbortController()
  const headers = { 'x-request-id': 'same' }
  const response = await fetch(`${url}${path}?token=${token}`, { headers, signal: leave.signal })
  const body = response.status === 200 ? '' : await response.text()
  const type = response.headers.get('content-type')
  leave.abort()
  return { status: response.status, type, body }
}
