/** A store that fails: every answer says so by its code, and readiness is told truthfully. */

import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { fakeClock } from '../../../conformance/src/index.ts'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../../core/src/index.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { Environment } from '../../src/log/embedded/environment.ts'
import { Readiness } from '../../src/server/routes/server.ts'
import { MemoryLog, openRedisLog } from '../../src/server.ts'
import { folderOfTest, openLog } from '../log/embedded/support.ts'
import { call, finishedTurn, heldTurn, sealed, startServer } from './support.ts'

/** A log in memory whose calls fail for as long as `code` is set. */
function failingLog() {
  const state: { code?: ErrorCode } = {}
  const log = new Proxy(new MemoryLog(), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function') return value
      return (...args: unknown[]) => {
        if (state.code === undefined || name === 'close') return value.apply(target, args)
        const error = new TurnstreamError(state.code, 'redis://user:password@10.0.0.7')
        if (name !== 'tail') return Promise.reject(error)
        throw error
      }
    },
  })
  return { log: log as TurnLog, state }
}

const CODES = ['STORE_UNAVAILABLE', 'STORE_FULL', 'STORE_FAILED', 'STORE_CLOSED'] as const
const REQUESTS: readonly [request: string, body?: object][] = [
  ['POST /api/v2/submit', { prompt: 'Hi' }],
  ['GET /api/v2/runs/r'],
  ['POST /api/v2/runs/r/cancel', {}],
  ['GET /api/v2/threads'],
  ['POST /api/v2/threads', { title: 'A' }],
  ['GET /api/v2/threads/h'],
  ['PATCH /api/v2/threads/h', { title: 'A' }],
  ['DELETE /api/v2/threads/h'],
  ['GET /xapi/turns/t'],
  ['GET /xapi/turns/t/stream'],
  ['GET /xapi/threads/h'],
  ['GET /readyz'],
]

describe.each(CODES)('%s', (code) => {
  test.each(REQUESTS)('is returned by %s, without internal details', async (request, body) => {
    const { log, state } = failingLog()
    // Time stands still, so that nobody looks for orphans meanwhile and meets the same store.
    const server = await startServer({ log, clock: fakeClock() })
    state.code = code
    const { status, summary } = ERROR_CODES[code]
    const [method = '', path = ''] = request.split(' ')
    const response = await fetch(`${server.url}${path}`, {
      method,
      ...(body !== undefined && {
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      }),
    })
    expect(response.status).toBe(status)
    const requestId = response.headers.get('x-request-id')
    expect(await response.json()).toEqual({ error: { code, message: summary, requestId } })
    expect(server.errors).toEqual([{ error: expect.objectContaining({ code }), requestId }])
  })

  test('passes, and stored data is still there', async () => {
    const { log, state } = failingLog()
    const clock = fakeClock()
    const server = await startServer({ log, clock })
    const { turnId } = await finishedTurn(server)
    state.code = code
    expect((await fetch(`${server.url}/readyz`)).ok).toBe(false)
    expect((await fetch(`${server.url}/healthz`)).ok).toBe(true)
    delete state.code
    await clock.advance(10_000)
    expect((await call(server, 'GET /readyz')).status).toBe(200)
    expect((await call(server, `GET /xapi/turns/${turnId}`)).json.sealed).toBe(true)
  })
})

describe('readiness', () => {
  /** Never answers, and says how often it was asked. */
  class SilentLog extends MemoryLog {
    asked = 0
    override listThreads(): Promise<never> {
      this.asked += 1
      return new Promise(() => {})
    }
  }

  test('fails when the store does not answer for two seconds', async () => {
    const clock = fakeClock()
    const server = await startServer({ log: new SilentLog(), clock })
    let isAnswered = false
    const ready = call(server, 'GET /readyz').finally(() => {
      isAnswered = true
    })
    while (!isAnswered) await clock.advance(500)
    const { status, json } = await ready
    expect([status, json.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
  })

  test('checks the store once for concurrent probes', async () => {
    const clock = fakeClock()
    const log = new SilentLog()
    const readiness = new Readiness({ log, clock, providers: [], isOpen: () => true })
    const checks = Promise.allSettled([1, 2, 3].map(() => readiness.check()))
    await clock.advance(1999)
    expect(clock.pending()).toBe(1)
    await clock.advance(1)
    expect((await checks).map(({ status }) => status)).toEqual(Array(3).fill('rejected'))
    expect(log.asked).toBe(1)
    readiness.check().catch(() => {})
    expect(log.asked).toBe(2)
  })

  test('fails as soon as the server closes, while it still answers', async () => {
    const server = await startServer({ shutdownGraceMs: 60_000 })
    const { call: running, turnId } = await heldTurn(server)
    const closed = server.close()
    const ready = await call(server, 'GET /readyz')
    expect([ready.status, ready.json.error.code]).toEqual([503, 'SERVER_SHUTDOWN'])
    expect((await call(server, 'GET /healthz')).status).toBe(200)
    const reading = await fetch(`${server.url}/xapi/turns/${turnId}/stream`)
    running.finish()
    expect(await reading.text()).toContain('turn_complete')
    await closed
  })
})

describe('a full embedded store', () => {
  test('refuses a turn with STORE_FULL, stores nothing, and accepts it later', async () => {
    const clock = fakeClock()
    const server = await startServer({ log: await openLog(folderOfTest()), clock })
    const body = { prompt: 'Hi', runId: 'run', threadId: 'thread' }
    const commit = vi.spyOn(Environment.prototype, 'commit')
    commit.mockRejectedValue(new TurnstreamError('STORE_FULL', '/secret/path'))
    const refused = await call(server, 'POST /api/v2/submit', { body })
    expect([refused.status, refused.json.error]).toEqual([
      507,
      {
        code: 'STORE_FULL',
        message: ERROR_CODES.STORE_FULL.summary,
        requestId: expect.any(String),
      },
    ])
    const notReady = await call(server, 'GET /readyz')
    expect([notReady.status, notReady.json.error.code]).toEqual([507, 'STORE_FULL'])
    commit.mockRestore()
    await clock.advance(9999)
    expect((await call(server, 'GET /readyz')).status).toBe(507)
    await clock.advance(1)
    expect((await call(server, 'GET /readyz')).status).toBe(200)
    expect((await call(server, 'GET /api/v2/runs/run')).status).toBe(404)
    expect((await call(server, 'POST /api/v2/submit', { body })).status).toBe(202)
    await sealed(server.log, 'run')
    expect((await call(server, 'GET /api/v2/runs/run')).json.status).toBe('complete')
  })
})

describe('Redis', () => {
  async function redis() {
    const started = await startRedis({ appendonly: 'always' })
    onTestFinished(() => started.stop())
    return started
  }

  test('that is unreachable at startup is STORE_UNAVAILABLE', async () => {
    const server = await redis()
    const { url } = server
    await server.stop()
    await expect(openRedisLog({ url, unavailableAfterMs: 200 })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
    })
  })

  test('that goes away is reported, and acknowledged data is there when it is back', async () => {
    const server = await redis()
    const log = await openRedisLog({ url: server.url, unavailableAfterMs: 1000, onError: () => {} })
    onTestFinished(() => log.close())
    const gateway = await startServer({ log })
    const { turnId, runId } = await finishedTurn(gateway)
    await server.kill()
    const denied = await call(gateway, 'GET /readyz')
    expect([denied.status, denied.json.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
    const body = { prompt: 'Hi', runId: 'later' }
    const refused = await call(gateway, 'POST /api/v2/submit', { body })
    expect([refused.status, refused.json.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
    expect(refused.headers.get('retry-after')).toBe('1')
    expect((await call(gateway, 'GET /healthz')).status).toBe(200)
    await server.restart()
    const ready = async () => (await call(gateway, 'GET /readyz')).status
    await expect.poll(ready, { timeout: 20_000 }).toBe(200)
    expect((await call(gateway, `GET /api/v2/runs/${runId}`)).json.status).toBe('complete')
    expect((await call(gateway, `GET /xapi/turns/${turnId}`)).json.sealed).toBe(true)
    const again = await call(gateway, 'POST /api/v2/submit', { body })
    expect(again.status).toBe(202)
  }, 30_000)
})
