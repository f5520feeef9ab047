/** Real servers of Redis, each with one thing wrong. */

import { describe, expect, onTestFinished, test } from 'vitest'
import { redisCommand, startRedis } from '../../../../../scripts/redis-server.mjs'
import type { Check } from '../../../../conformance/src/endpoint/check.ts'
import { FORMAT } from '../../../src/log/redis/keys.ts'
import { freePort } from '../support.ts'
import { bothReports, checkNamed, defaults, PATIENCE } from './support.ts'

type Redis = Awaited<ReturnType<typeof startRedis>>

const PASSWORD = 'planted-Secret/pass-0123456789'

async function redis(options: Parameters<typeof startRedis>[0] = {}): Promise<Redis> {
  const server = await startRedis(options)
  onTestFinished(async () => {
    await server.stop()
  })
  return server
}

function urlOf({ port }: { port: number }, user = ''): string {
  return `redis://${user}127.0.0.1:${port}`
}

/** The address in the environment, as an operator would have it. */
async function reportOn(store: string) {
  const reports = await bothReports(defaults({ env: { TURNSTREAM_STORE: store } }))
  const { checks } = reports.report
  return {
    ...reports,
    failed: checks.filter(({ verdict }) => verdict === 'fail'),
    warned: checks.filter(({ verdict }) => verdict === 'warn'),
    named: (name: string): Check | undefined => checkNamed(reports.report, name),
  }
}

describe('a Redis', PATIENCE, () => {
  test('that is set up correctly passes all checks', async () => {
    const server = await redis({ appendonly: 'everysec' })
    const { code, named, failed, warned } = await reportOn(urlOf(server))
    expect([code, failed, warned]).toEqual([0, [], []])
    expect(named('store')?.found).toMatch(
      /^Redis at redis:\/\/127\.0\.0\.1:\d+, round trip \d+\.\d ms$/,
    )
    expect(named('store version')?.found).toMatch(/^Redis [78]\./)
    expect(named('store writes')?.found).toBe('accepted')
    expect(named('store eviction')?.found).toBe('noeviction')
    expect(named('store persistence')?.found).toBe('append-only file')
    expect(named('store format')?.found).toBe('nothing written yet')
    expect(named('clock')).toEqual({ name: 'clock', verdict: 'ok', found: 'agrees with Redis' })
  })

  test('with a wrong password fails without printing it', async () => {
    const server = await redis({ args: ['--requirepass', 'another'] })
    const user = `:${encodeURIComponent(PASSWORD)}@`
    const { code, text, json, failed } = await reportOn(urlOf(server, user))
    expect(code).toBe(1)
    expect(failed).toEqual([
      {
        name: 'store',
        verdict: 'fail',
        found: expect.stringContaining('WRONGPASS'),
        fix: expect.stringContaining('TURNSTREAM_STORE=redis://<user>:<password>@<host>:<port>'),
      },
    ])
    for (const secret of [PASSWORD, encodeURIComponent(PASSWORD)]) {
      expect(`${text}${json}`).not.toContain(secret)
    }
  })

  test('that requires a password fails without one', async () => {
    const server = await redis({ args: ['--requirepass', PASSWORD] })
    const { failed } = await reportOn(urlOf(server))
    expect(failed).toMatchObject([
      {
        name: 'store',
        found: expect.stringContaining('NOAUTH'),
        fix: expect.stringContaining('TURNSTREAM_STORE='),
      },
    ])
  })

  test('that is unreachable fails with a command to test it', async () => {
    const port = await freePort()
    const { failed } = await reportOn(urlOf({ port }))
    expect(failed).toMatchObject([
      {
        name: 'store',
        found: expect.stringContaining('connection refused'),
        fix: expect.stringContaining(`redis-cli -h 127.0.0.1 -p ${port} ping`),
      },
    ])
  })

  test('with an eviction policy and maxmemory fails', async () => {
    const server = await redis({
      appendonly: 'everysec',
      args: ['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'],
    })
    const { code, failed } = await reportOn(urlOf(server))
    expect(code).toBe(1)
    expect(failed).toEqual([
      {
        name: 'store eviction',
        verdict: 'fail',
        found: 'allkeys-lru: turns are evicted when memory is full',
        fix: expect.stringContaining('redis-cli config set maxmemory-policy noeviction'),
      },
    ])
  })

  test('with an eviction policy and no maxmemory warns', async () => {
    const server = await redis({
      appendonly: 'everysec',
      args: ['--maxmemory-policy', 'volatile-ttl'],
    })
    const { code, warned } = await reportOn(urlOf(server))
    expect([code, warned]).toMatchObject([0, [{ name: 'store eviction' }]])
  })

  test('without persistence warns', async () => {
    const { code, warned } = await reportOn(urlOf(await redis()))
    expect(code).toBe(0)
    expect(warned).toEqual([
      {
        name: 'store persistence',
        verdict: 'warn',
        found: expect.stringContaining('lost if Redis crashes'),
        fix: expect.stringContaining('redis-cli config set appendonly yes'),
      },
    ])
  })

  test('that is a replica fails and names the primary', async () => {
    const master = await redis()
    const follows = ['--replicaof', '127.0.0.1', String(master.port)]
    const replica = await redis({ args: follows })
    const { failed } = await reportOn(urlOf(replica))
    expect(failed).toEqual([
      {
        name: 'store writes',
        verdict: 'fail',
        found: `this Redis is a read-only replica of 127.0.0.1:${master.port}`,
        fix: `Use the primary: --store redis://127.0.0.1:${master.port}`,
      },
    ])
  })

  test('with a read-only user fails', async () => {
    const server = await redis({ appendonly: 'everysec' })
    await redisCommand(
      server,
      'ACL',
      'SETUSER',
      'reader',
      'on',
      `>${PASSWORD}`,
      '~*',
      '+@read',
      '+@connection',
      '+info',
      '+time',
      '+multi',
      '+discard',
    )
    const { text, failed } = await reportOn(
      urlOf(server, `reader:${encodeURIComponent(PASSWORD)}@`),
    )
    expect(failed).toMatchObject([
      {
        name: 'store writes',
        found: expect.stringContaining('NOPERM'),
        fix: expect.stringContaining('acl setuser'),
      },
    ])
    expect(text).not.toContain(PASSWORD)
  })

  test('that is out of memory fails', async () => {
    const server = await redis({ appendonly: 'everysec', args: ['--maxmemory', '1'] })
    const { failed } = await reportOn(urlOf(server))
    expect(failed).toMatchObject([
      {
        name: 'store writes',
        found: expect.stringContaining('OOM'),
        fix: expect.stringContaining('config set maxmemory'),
      },
    ])
  })

  test('with keys of a newer version fails', async () => {
    const server = await redis({ appendonly: 'everysec' })
    await redisCommand(server, 'SET', 'codex:format', String(FORMAT + 1))
    const { failed } = await reportOn(urlOf(server))
    expect(failed).toMatchObject([
      {
        name: 'store format',
        found: `the keys have format ${FORMAT + 1}; this version reads ${FORMAT}`,
        fix: expect.stringContaining('--store-prefix <word>'),
      },
    ])
  })

  test('is left unchanged', async () => {
    const server = await redis({ appendonly: 'everysec' })
    await redisCommand(server, 'SET', 'codex:format', String(FORMAT))
    const changes = async () =>
      /rdb_changes_since_last_save:(\d+)/.exec(await redisCommand(server, 'INFO'))?.[1]
    const before = await changes()
    await reportOn(urlOf(server))
    expect(await changes()).toBe(before)
    expect(await redisCommand(server, 'GET', 'codex:format')).toBe(String(FORMAT))
    expect(await redisCommand(server, 'DBSIZE')).toBe('1')
  })
})

test(
  'instances that share a Redis are warned without a stream token secret',
  PATIENCE,
  async () => {
    const server = await redis({ appendonly: 'everysec' })
    const env = { TURNSTREAM_STORE: urlOf(server), TURNSTREAM_KEYS_FILE: 'turnstream.keys' }
    const { report } = await bothReports(defaults({ env }))
    expect(checkNamed(report, 'stream tokens')).toMatchObject({
      verdict: 'warn',
      fix: expect.stringContaining('TURNSTREAM_STREAM_TOKEN_SECRET='),
    })
    const secret = 'planted-Secret-of-at-least-32-characters'
    const told = await bothReports(
      defaults({ env: { ...env, TURNSTREAM_STREAM_TOKEN_SECRET: secret } }),
    )
    expect(checkNamed(told.report, 'stream tokens')?.verdict).toBe('ok')
    expect(`${told.text}${told.json}`).not.toContain(secret)
  },
)
