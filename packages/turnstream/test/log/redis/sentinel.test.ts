import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { findRedis, startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, eventsUpTo } from '../../../../conformance/src/turn-log/texts.ts'
import { openRedisLog } from '../../../src/server.ts'
import { Proxy } from './proxy.ts'
import { OpenLogs, until } from './support.ts'

const master = await startRedis()
const folder = mkdtempSync(join(tmpdir(), 'turnstream-sentinel-'))
const sentinel = await startSentinel()

afterAll(async () => {
  sentinel.child.kill('SIGKILL')
  await master.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

async function startSentinel() {
  const { server, env } = findRedis()
  const port = await freePort()
  const config = join(folder, 'sentinel.conf')
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${folder}`,
    `sentinel monitor primary 127.0.0.1 ${master.port} 1`,
  ]
  writeFileSync(config, `${lines.join('\n')}\n`)
  const child = spawn(server, [config, '--sentinel'], { env: { ...process.env, ...env } })
  for await (const chunk of child.stdout) if (String(chunk).includes('+monitor')) break
  return { child, port }
}

function options(port: number) {
  return { sentinel: { name: 'primary', sentinelRootNodes: [{ host: '127.0.0.1', port }] } }
}

test('L9 a log is found through Sentinel, written and followed', async () => {
  const logs = new OpenLogs(options(sentinel.port))
  const [log, reader] = await Promise.all([logs.open(), logs.open()])
  const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'a' }, 600_000)
  const seen: string[] = []
  const ended = (async () => {
    for await (const each of reader.tail('turn', 'events', '0-0', new AbortController().signal)) {
      if (!('resync' in each)) seen.push(each.offset)
    }
  })()
  await appendTo(log, lease, 'events', deltas('turn', 1, 2))
  await until(() => seen.length === 2)
  await appendTo(log, lease, 'events', eventsUpTo('turn', 3, 3), { seal: true })
  await ended
  expect(seen).toEqual(['1-1', '1-2', '1-3'])
  expect(await log.storedBytes()).toBeGreaterThan(0)
  await logs.close()
})

test('L9 a silent connection to the master is replaced', async () => {
  const proxy = await Proxy.start(master)
  const { sentinel: found } = options(sentinel.port)
  const nodeAddressMap = { [`127.0.0.1:${master.port}`]: { host: '127.0.0.1', port: proxy.port } }
  const logs = new OpenLogs({ sentinel: { ...found, nodeAddressMap } }, { silentAfterMs: 400 })
  const log = await logs.open()
  const lease = await log.create({ turnId: 'silent', threadId: 'silent', owner: 'a' }, 600_000)
  const cancelled = log.cancelled(lease, new AbortController().signal)
  proxy.silence()
  expect(await appendTo(log, lease, 'events', deltas('silent', 1, 2))).toBe('1-2')
  await log.requestCancel('silent', 'enough')
  expect(await cancelled).toBe('enough')
  await logs.close()
  await proxy.stop()
})

test('L9 no reachable Sentinel is STORE_UNAVAILABLE', async () => {
  const open = openRedisLog({ ...options(await freePort()), unavailableAfterMs: 300 })
  await expect(open).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
})
