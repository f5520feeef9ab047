/** A Redis that loses what it acknowledged: without `appendfsync always`, or by a failover. */

import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas } from '../../../../conformance/src/turn-log/texts.ts'
import { openRedisLog } from '../../../src/server.ts'

test('L3 an append notices, in every tenant, that the server lost its newest records', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'turnstream-lossy-'))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const [data, earlier] = [join(directory, 'data'), join(directory, 'earlier')]
  mkdirSync(data)
  const server = await startRedis({ appendonly: 'always', directory: data })
  onTestFinished(() => server.stop())
  const opened = await openRedisLog({ url: server.url, onError: () => {} })
  onTestFinished(() => opened.close())
  const turn = { turnId: 'turn', threadId: 'thread', owner: 'owner' }
  const writers = ['default', 'acme', 'beta'].map(async (tenant) => {
    const log = opened.ofTenant(tenant)
    return { log, lease: await log.create(turn, 600_000) }
  })
  const all = await Promise.all(writers)
  const write = async (first: number, last: number) => {
    for (const record of deltas('turn', first, last)) {
      await Promise.all(all.map(({ log, lease }) => appendTo(log, lease, 'events', [record])))
    }
  }
  await write(1, 5)
  cpSync(data, earlier, { recursive: true })
  await write(6, 10)
  await server.kill()
  rmSync(data, { recursive: true })
  cpSync(earlier, data, { recursive: true })
  await server.restart()
  for (const { log, lease } of all) {
    const next = appendTo(log, lease, 'events', deltas('turn', 11, 11))
    await expect(next).rejects.toMatchObject({ code: 'LOG_SEQUENCE_GAP' })
  }
})
