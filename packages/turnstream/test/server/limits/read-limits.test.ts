import { describe, expect, test, vi } from 'vitest'
import { MemoryLog } from '../../../src/server.ts'
import { ACME, guardedServer, OTHER, withKey } from '../auth/support.ts'
import { type Answer, call, finishedTurn, startServer, type TestServer } from '../support.ts'
import { UNLIMITED } from '../unlimited.ts'

/** A store whose lists of threads wait for the test. */
function heldLog() {
  const log = new MemoryLog()
  const release: (() => void)[] = []
  const hold = async () => {
    await new Promise<void>((resolve) => void release.push(resolve))
    return { items: [] }
  }
  vi.spyOn(log, 'listThreads').mockImplementation(hold)
  return { log, release }
}

function list(server: TestServer, key?: string): Promise<Answer> {
  return call(server, 'GET /api/v2/threads', key === undefined ? {} : { headers: withKey(key) })
}

function told({ status, headers, json }: Answer): string {
  return status === 200 ? '200' : `${status} ${json.error.code} ${headers.get('retry-after')}`
}

describe('the reads of a key', () => {
  test('are refused above the limit and allowed again when one ends', async () => {
    const { log, release } = heldLog()
    const server = await startServer({ log, limits: { ...UNLIMITED, maxConcurrentReads: 2 } })
    const reads = [list(server), list(server)]
    await expect.poll(() => release.length).toBe(2)
    expect(told(await list(server))).toBe('429 READS_LIMITED 5')
    for (const go of release.splice(0)) go()
    for (const answer of await Promise.all(reads)) expect(told(answer)).toBe('200')
    const again = list(server)
    await expect.poll(() => release.length).toBe(1)
    release[0]?.()
    expect(told(await again)).toBe('200')
  })

  test('run four at a time while the others wait', async () => {
    const { log, release } = heldLog()
    const server = await startServer({ log })
    const reads = Array.from({ length: 6 }, () => list(server))
    await expect.poll(() => release.length).toBe(4)
    release.shift()?.()
    await expect.poll(() => release.length).toBe(4)
    for (let each = 0; each < 5; each++) {
      await expect.poll(() => release.length).toBeGreaterThan(0)
      release.shift()?.()
    }
    for (const answer of await Promise.all(reads)) expect(told(answer)).toBe('200')
  })

  test('release their slot when they fail', async () => {
    const server = await startServer({ limits: { ...UNLIMITED, maxConcurrentReads: 1 } })
    for (let each = 0; each < 10; each++) {
      expect((await call(server, 'GET /api/v2/runs/unknown')).status).toBe(404)
    }
    const { runId } = await finishedTurn(server)
    expect((await call(server, `GET /api/v2/runs/${runId}`)).status).toBe(200)
  })

  test('do not affect another key', async () => {
    const { log, release } = heldLog()
    const server = await guardedServer({ log, limits: { ...UNLIMITED, maxConcurrentReads: 1 } })
    // Tenants have logs of their own.
    const held = vi.spyOn(log.ofTenant('acme'), 'listThreads')
    held.mockImplementation(async () => {
      await new Promise<void>((resolve) => void release.push(resolve))
      return { items: [] }
    })
    const read = list(server, ACME)
    await expect.poll(() => release.length).toBe(1)
    expect(told(await list(server, ACME))).toBe('429 READS_LIMITED 5')
    expect(told(await list(server, OTHER))).toBe('200')
    release[0]?.()
    await read
  })
})
