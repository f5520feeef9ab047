/** A Redis that loses what it acknowledged: without `appendfsync always`, or by a failover. */
import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../scripts/redis-server.mjs'
import { openRedisLog } from '../../../src/log/redis/redis-log.ts'
import { deltas } from '../../../src/testing/turn-log/texts.ts'

test('L3 a server that comes back without its newest records is noticed by the next append', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-lossy-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const [data, earlier] = [join(directory, 'data'), join(directory, 'earlier')]
  mkdirSync(data)
  const server = await startRedis({ appendonly: 'always', directory: data })
  onTestFinished(() => server.stop())
  const log = await openRedisLog({ url: server.url, onError: () => {} })
  onTestFinished(() => log.close())
  const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, 600_000)
  for (const record of deltas('turn', 1, 5)) await log.append(lease, 'events', [record])
  cpSync(data, earlier, { recursive: true })
  for (const record of deltas('turn', 6, 10)) await log.append(lease, 'events', [record])
  await server.kill()
  rmSync(data, { recursive: true })
  cpSync(earlier, data, { recursive: true })
  await server.restart()
  const next = log.append(lease, 'events', deltas('turn', 11, 11))
  await expect(next).rejects.toMatchObject({ code: 'LOG_SEQUENCE_GAP' })
})
