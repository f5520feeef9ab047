/** The tokens of a client, and what it does when one is refused. */

import { expect, test, vi } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import {
  finishedTurn,
  heldTurn,
  startServer,
  type TestServer,
} from '../../../turnstream/test/server/support.ts'
import { type ClientOptions, createClient } from '../../src/index.ts'

/** A client whose reconnects do not wait. */
function clientOf(server: TestServer, options: ClientOptions = {}) {
  return createClient({ baseUrl: server.url, random: () => 0, ...options })
}

/** Longer than every threshold of the processor, which emits it at once. */
const LONG = 'All work and no play makes a long text. '.repeat(250)

test('a token that expires before a reconnect is refreshed once for all streams', async () => {
  const server = await startServer()
  const { call, turnId, threadId } = await heldTurn(server)
  let valid = 'first'
  const cuts: (() => void)[] = []
  const guarded: typeof fetch = async (input, init) => {
    const token = new Headers(init?.headers).get('authorization')
    if (token !== `Bearer ${valid}`) return new Response('{}', { status: 401 })
    const cut = new AbortController()
    cuts.push(() => cut.abort())
    const signal = AbortSignal.any([cut.signal, init?.signal ?? cut.signal])
    return fetch(input, { ...init, signal })
  }
  const onAuth = vi.fn<() => Promise<string>>(async () => valid)
  const client = clientOf(server, { token: 'first', onAuth, fetch: guarded })
  const [turn, thread] = [client.turn(turnId), client.thread(threadId)]
  const leave = [turn.subscribe(() => {}), thread.subscribe(() => {})]
  const isLive = () => {
    expect(turn.getSnapshot().turn).toBeDefined()
    expect(thread.getSnapshot().connection.status).toBe('live')
  }
  await eventually(isLive)
  expect(onAuth).not.toHaveBeenCalled()
  valid = 'second'
  for (const cut of cuts.splice(0)) cut()
  call.say(LONG)
  await eventually(() => {
    expect(turn.getSnapshot().turn?.items[1]?.content).toBe(LONG)
    expect(thread.getSnapshot().turns[0]?.items[1]?.content).toBe(LONG)
  })
  expect(onAuth).toHaveBeenCalledTimes(1)
  for (const each of leave) each()
  call.finish()
})

test.each([
  ['no onAuth', undefined],
  ['an onAuth that gives up', () => undefined],
  ['an onAuth with the same token', () => 'wrong'],
  ['an onAuth with another wrong token', () => 'worse'],
])('with %s a refusal is final', async (_name, onAuth) => {
  const refuse = vi.fn<() => Promise<Response>>(async () =>
    Response.json(
      { error: { code: 'KEY_INVALID', message: 'no', requestId: 'r' } },
      { status: 401 },
    ),
  )
  const client = createClient({
    ...{ baseUrl: 'http://x', token: 'wrong', fetch: refuse },
    ...(onAuth && { onAuth }),
  })
  await expect(client.turn('t').done()).rejects.toMatchObject({
    ...{ code: 'KEY_INVALID', status: 401, requestId: 'r' },
  })
  expect(refuse.mock.calls.length).toBeLessThanOrEqual(2)
})

test('onAuth is called again when its token expires too, whatever a token function returns', async () => {
  const tokens = ['second', 'third']
  const onAuth = vi.fn<() => string | undefined>(() => tokens.shift())
  let valid = 'first'
  const guarded: typeof fetch = async (_input, init) => {
    const token = new Headers(init?.headers).get('authorization')
    if (token !== `Bearer ${valid}`) return new Response('{}', { status: 401 })
    return Response.json({ threads: [] })
  }
  const client = createClient({ token: () => 'first', onAuth, fetch: guarded })
  for (valid of ['first', 'second', 'second', 'third', 'third']) await client.threads()
  expect(onAuth).toHaveBeenCalledTimes(2)
})

test('an onAuth that throws is tried again', async () => {
  const server = await startServer()
  const { turnId } = await finishedTurn(server, { model: 'plain/m' })
  const onAuth = vi.fn<() => Promise<string>>(async () => {
    if (onAuth.mock.calls.length < 3) throw new TypeError('offline')
    return 'good'
  })
  const guarded: typeof fetch = async (input, init) => {
    const isGood = new Headers(init?.headers).get('authorization') === 'Bearer good'
    return isGood ? fetch(input, init) : new Response('', { status: 403 })
  }
  await clientOf(server, { onAuth, fetch: guarded }).turn(turnId).done()
  expect(onAuth).toHaveBeenCalledTimes(3)
})

test('a token function is called for every request', async () => {
  const server = await startServer()
  const { turnId } = await finishedTurn(server, { model: 'plain/m' })
  const sent: (string | null)[] = []
  const recording: typeof fetch = (input, init) => {
    sent.push(new Headers(init?.headers).get('authorization'))
    return fetch(input, init)
  }
  let count = 0
  const token = async () => `t${++count}`
  const client = clientOf(server, { token, fetch: recording })
  await client.turn(turnId).done()
  await client.threads({ limit: 1 })
  expect(sent).toEqual(['Bearer t1', 'Bearer t2'])
})
