import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { redisCommand, startRedis, startRedisCluster } from '../../scripts/redis-server.mjs'

const script = new URL('../../scripts/redis-server.mjs', import.meta.url).href
const cleanups: (() => Promise<void> | void)[] = []

// Servers are started here, on a machine that may have much else to do.
const TIMEOUT = 60_000

afterEach(async () => {
  vi.unstubAllEnvs()
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

async function start(options?: Parameters<typeof startRedis>[0]) {
  const redis = await startRedis(options)
  cleanups.push(() => redis.stop())
  return redis
}

function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-test-'))
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe('a server', { timeout: TIMEOUT }, () => {
  test('answers at its address until it is stopped, and leaves nothing behind', async () => {
    const redis = await start()
    expect(redis.url).toBe(`redis://127.0.0.1:${redis.port}`)
    expect(await redisCommand(redis, 'PING')).toBe('PONG')
    expect(isRunning(redis.pid)).toBe(true)
    expect(existsSync(redis.directory)).toBe(true)

    await redis.stop()
    expect(isRunning(redis.pid)).toBe(false)
    expect(existsSync(redis.directory)).toBe(false)
    await expect(redisCommand(redis, 'PING')).rejects.toThrow('ECONNREFUSED')
    await expect(redis.stop()).resolves.toBeUndefined()
  })

  test('has its own port and directory among several', async () => {
    const all = await Promise.all([start(), start(), start()])
    expect(new Set(all.map(({ port }) => port)).size).toBe(3)
    expect(new Set(all.map(({ directory }) => directory)).size).toBe(3)
    for (const [index, redis] of all.entries()) await redisCommand(redis, 'SET', 'me', `${index}`)
    const values = await Promise.all(all.map((redis) => redisCommand(redis, 'GET', 'me')))
    expect(values).toEqual(['0', '1', '2'])
  })

  test('tries another port if the first is taken', async () => {
    const first = await start()
    // The draw falls on the first server's port once, then elsewhere.
    const draw = (first.port + 0.5 - 12_000) / 10_000
    vi.spyOn(Math, 'random').mockReturnValueOnce(draw)
    const second = await start()
    expect(second.port).not.toBe(first.port)
    expect(await redisCommand(second, 'PING')).toBe('PONG')
  })

  test('reports why it did not start, and leaves nothing behind', async () => {
    const { port } = await start()
    const temporary = temporaryDirectory()
    vi.stubEnv('TMPDIR', temporary)
    await expect(startRedis({ port })).rejects.toThrow('Address already in use')
    await expect(startRedis({ args: ['--no-such-option', 'x'] })).rejects.toThrow(
      /redis-server did not start; it said:[^]*no-such-option/,
    )
    expect(readdirSync(temporary)).toEqual([])
  })

  test.each(['always', 'everysec'] as const)(
    'keeps its data over a restart with appendonly %s',
    async (appendonly) => {
      const redis = await start({ appendonly })
      const { pid, port } = redis
      await redisCommand(redis, 'SET', 'key', 'é\r\n')
      expect(await redisCommand(redis, 'CONFIG', 'GET', 'appendfsync')).toContain(appendonly)
      await redis.restart()
      expect(redis.port).toBe(port)
      expect(redis.pid).not.toBe(pid)
      expect(isRunning(pid)).toBe(false)
      expect(await redisCommand(redis, 'GET', 'key')).toBe('é\r\n')
    },
  )

  test('keeps every acknowledged write over SIGKILL with appendonly always', async () => {
    const redis = await start({ appendonly: 'always' })
    let acknowledged = 0
    const writes = (async () => {
      for (;;) acknowledged = Number(await redisCommand(redis, 'INCR', 'n'))
    })()
    writes.catch(() => {})
    await vi.waitUntil(() => acknowledged >= 20, { interval: 1, timeout: 10_000 })
    await redis.kill()
    expect(isRunning(redis.pid)).toBe(false)
    await expect(writes).rejects.toThrow(/ECONN|EPIPE|close/i)

    await redis.restart()
    const kept = Number(await redisCommand(redis, 'GET', 'n'))
    // The last write may have been kept and its answer lost.
    expect([acknowledged, acknowledged + 1]).toContain(kept)
  })

  test('loses its data on a restart without appendonly', async () => {
    const redis = await start()
    await redisCommand(redis, 'SET', 'key', 'value')
    await redis.restart()
    expect(await redisCommand(redis, 'GET', 'key')).toBe('')
  })

  test('keeps a directory that was given to it', async () => {
    const directory = temporaryDirectory()
    const first = await start({ directory, appendonly: 'everysec' })
    await redisCommand(first, 'SET', 'key', 'value')
    await first.stop()
    const second = await start({ directory, appendonly: 'everysec' })
    expect(second.directory).toBe(directory)
    expect(await redisCommand(second, 'GET', 'key')).toBe('value')
  })

  test('is stopped even while it is suspended', async () => {
    const redis = await start()
    redis.process.kill('SIGSTOP')
    await redis.stop()
    expect(isRunning(redis.pid)).toBe(false)
  })

  test.each(['SIGKILL', 'SIGTERM'] as const)('exits when its parent gets %s', async (signal) => {
    const program = `
      import { startRedis } from ${JSON.stringify(script)}
      const { host, port, directory } = await startRedis()
      console.log(JSON.stringify({ host, port, directory }))`
    const parent = spawn(process.execPath, ['--input-type=module', '--eval', program])
    cleanups.push(() => void parent.kill('SIGKILL'))
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const redis = JSON.parse(line.toString()) as { host: string; port: number; directory: string }
    expect(await redisCommand(redis, 'PING')).toBe('PONG')

    parent.kill(signal)
    const isGone = async () => {
      const answer = await redisCommand(redis, 'PING').catch((error: Error) => error.message)
      return answer.includes('ECONNREFUSED') && !existsSync(redis.directory)
    }
    await vi.waitUntil(isGone, { interval: 5, timeout: 20_000 })
    expect(await isGone()).toBe(true)
  })
})

describe('a cluster', { timeout: TIMEOUT }, () => {
  test('distributes all slots among its masters, and each redirects foreign keys', {
    tags: ['slow'],
  }, async () => {
    const cluster = await startRedisCluster()
    cleanups.push(() => cluster.stop())
    expect(cluster.rootNodes).toEqual(cluster.nodes.map(({ host, port }) => ({ host, port })))
    expect(cluster.nodes).toHaveLength(3)

    for (const node of cluster.nodes) {
      const info = await redisCommand(node, 'CLUSTER', 'INFO')
      expect(info).toContain('cluster_state:ok')
      expect(info).toContain('cluster_slots_ok:16384')
      // Slot 12182 of "foo" is one of the last third.
      const answer = redisCommand(node, 'SET', 'foo', 'bar')
      if (node === cluster.nodes[2]) expect(await answer).toBe('OK')
      else await expect(answer).rejects.toThrow(`MOVED 12182 127.0.0.1:${cluster.nodes[2]?.port}`)
    }

    await cluster.stop()
    expect(
      cluster.nodes.some(({ pid, directory }) => isRunning(pid) || existsSync(directory)),
    ).toBe(false)
  })

  test('that cannot start reports why and leaves nothing behind', async () => {
    const temporary = temporaryDirectory()
    vi.stubEnv('TMPDIR', temporary)
    const options = { args: ['--no-such-option', 'x'] }
    await expect(startRedisCluster(options)).rejects.toThrow('no-such-option')
    await expect(startRedisCluster({ nodes: 0 })).rejects.toThrow('at least one node')
    expect(readdirSync(temporary)).toEqual([])
  })
})
