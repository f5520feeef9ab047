/** How many threads a key may create in a minute, and a tenant may store. */

import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { MemoryLog } from '../../../src/server.ts'
import { folderOfTest, openLog } from '../../log/embedded/support.ts'
import { ACME, guardedServer, OTHER, withKey } from '../auth/support.ts'
import { type Answer, call, heldTurn, startServer, type TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'

type Create = (server: TestServer, threadId?: string, key?: string) => Promise<Answer>

const headersOf = (key?: string) => (key === undefined ? {} : withKey(key))

const createThread: Create = (server, threadId, key) =>
  call(server, 'POST /api/v2/threads', {
    body: threadId === undefined ? {} : { threadId },
    headers: headersOf(key),
  })

const submit: Create = (server, threadId, key) =>
  call(server, 'POST /api/v2/submit', {
    body: { prompt: 'Hi', ...(threadId !== undefined && { threadId }) },
    headers: headersOf(key),
  })

const submitAndStream: Create = (server, threadId = crypto.randomUUID(), key) =>
  call(server, `POST /xapi/threads/${threadId}/turn`, {
    body: { prompt: 'Hi' },
    headers: headersOf(key),
  })

const chat: Create = (server, _threadId, key) =>
  call(server, 'POST /v1/chat/completions', {
    body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
    headers: headersOf(key),
  })

function told({ status, headers, json }: Answer): string {
  if (status < 400) return `${status}`
  return `${status} ${json.error.code} ${headers.get('retry-after')}`
}

describe('new threads per minute', () => {
  test('are counted together with submits', async () => {
    const clock = fakeClock()
    const server = await startServer({ clock, limits: { ...UNLIMITED, submitsPerMinute: 2 } })
    expect(told(await createThread(server, 'a'))).toBe('201')
    expect(told(await submit(server))).toBe('202')
    expect(told(await createThread(server, 'b'))).toBe('429 SUBMITS_LIMITED 60')
    expect(told(await submit(server))).toBe('429 SUBMITS_LIMITED 60')
    await clock.advance(60_000)
    expect(told(await createThread(server, 'b'))).toBe('201')
  })

  test('do not count existing threads, nor affect another tenant', async () => {
    const limits = { ...UNLIMITED, submitsPerMinute: 1 }
    const server = await guardedServer({ clock: fakeClock(), limits })
    expect(told(await createThread(server, 'a', ACME))).toBe('201')
    for (let each = 0; each < 3; each++) {
      expect(told(await createThread(server, 'a', ACME))).toBe('200')
    }
    expect(told(await createThread(server, 'b', ACME))).toBe('429 SUBMITS_LIMITED 60')
    expect(told(await createThread(server, 'a', OTHER))).toBe('201')
  })
})

describe.each([
  ['POST /api/v2/threads', createThread],
  ['POST /api/v2/submit', submit],
  ['POST /xapi/threads/{threadId}/turn', submitAndStream],
  ['POST /v1/chat/completions', chat],
])('a tenant at its thread limit: %s', (_route, create) => {
  const limits = { ...UNLIMITED, maxThreads: 2 }
  const refusal = create === chat ? '429 rate_limit_exceeded 60' : '429 THREADS_LIMITED 60'

  test('gets no new thread or turn; existing threads and other tenants are unaffected', async () => {
    const log = new MemoryLog()
    const server = await guardedServer({ log, limits })
    for (const id of ['a', 'b']) expect(told(await createThread(server, id, ACME))).toBe('201')
    const turns = vi.spyOn(log.ofTenant('acme'), 'create')
    expect(told(await create(server, undefined, ACME))).toBe(refusal)
    expect(turns).not.toHaveBeenCalled()
    expect((await submit(server, 'a', ACME)).status).toBe(202)
    expect((await create(server, undefined, OTHER)).status).toBeLessThan(300)
    expect(server.errors).toEqual([])
  })

  test('can create one after a deletion', async () => {
    const server = await startServer({ limits })
    for (const id of ['a', 'b']) await createThread(server, id)
    expect(told(await create(server))).toBe(refusal)
    expect((await call(server, 'DELETE /api/v2/threads/a')).status).toBe(204)
    expect((await create(server)).status).toBeLessThan(300)
    expect(told(await create(server))).toBe(refusal)
  })
})

test('is not exceeded by concurrent creations', async () => {
  const server = await startServer({ limits: { ...UNLIMITED, maxThreads: 3 } })
  const answers = await Promise.all(Array.from({ length: 10 }, () => createThread(server)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(3)
})

test('gets the stored turn for a repeated submit', async () => {
  const server = await startServer({ limits: { ...UNLIMITED, maxThreads: 1 } })
  const { turnId, threadId } = await heldTurn(server, { runId: 'run' })
  const again = { prompt: 'Hi', providerId: 'held', runId: 'run' }
  const answer = await call(server, 'POST /api/v2/submit', { body: again })
  expect(answer.json).toEqual({ runId: 'run', turnId, threadId })
})

test('is counted once a minute, and every 5 s while it is full', async () => {
  const clock = fakeClock()
  const log = new MemoryLog({ clock })
  const count = vi.spyOn(log, 'countThreads')
  const server = await startServer({ clock, log, limits: { ...UNLIMITED, maxThreads: 3 } })
  for (const id of ['a', 'b']) await createThread(server, id)
  expect(count).toHaveBeenCalledTimes(1)
  // As another instance would.
  await log.putThread({ threadId: 'c' })
  await clock.advance(60_000)
  expect(told(await createThread(server))).toBe('429 THREADS_LIMITED 60')
  expect(told(await createThread(server))).toBe('429 THREADS_LIMITED 60')
  expect(count).toHaveBeenCalledTimes(2)
  await log.deleteThread('c')
  await clock.advance(5000)
  expect(told(await createThread(server))).toBe('201')
  expect(count).toHaveBeenCalledTimes(3)
})

test('is counted per tenant in the embedded store, in steps', async () => {
  const log = await openLog(folderOfTest())
  const other = log.ofTenant('acme')
  const put = (each: typeof log, count: number) =>
    Promise.all(Array.from({ length: count }, (_, at) => each.putThread({ threadId: `h${at}` })))
  await Promise.all([put(log, 2001), put(other, 1000)])
  expect(await log.countThreads()).toBe(2001)
  expect(await other.countThreads()).toBe(1000)
  await log.deleteThread('h7')
  expect(await log.countThreads()).toBe(2000)
})
