/** Snapshots that others replace before they are stored cost nothing. */

import { expect, onTestFinished, test, vi } from 'vitest'
import { startRedis } from '../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import type { TurnLog } from '../../../core/src/log/turn-log.ts'
import { OutputEncoder } from '../../../core/src/protocol/output-codec.ts'
import { openRedisLog } from '../../src/server.ts'
import { createTurn, openLog } from '../server/streams/server.ts'

async function openRedis(): Promise<TurnLog> {
  const server = await startRedis()
  onTestFinished(() => server.stop())
  const log = await openRedisLog({ url: server.url, onError: () => {} })
  onTestFinished(() => log.close())
  return log
}

const STORES = [
  { store: 'memory', open: () => openLog('memory') },
  { store: 'embedded', open: () => openLog('embedded') },
  { store: 'Redis', open: openRedis },
]

const TEXTS = Array.from({ length: 100 }, (_, at) => 'x'.repeat(at + 1))

test.each(STORES)('of 100 snapshots stored together, one is encoded: $store', async ({ open }) => {
  const log = await open()
  const lease = await createTurn(log, 'turn')
  const encode = vi.spyOn(OutputEncoder.prototype, 'encode')
  onTestFinished(() => encode.mockRestore())
  const records = TEXTS.map((content, at) => ({
    seq: at + 1,
    data: JSON.stringify({ type: 'message', itemId: 'a', status: 'update', content }),
  }))
  await appendTo(log, lease, 'processed', records)
  expect(encode.mock.calls.map(([output]) => output)).toEqual([
    expect.objectContaining({ content: TEXTS.at(-1) }),
  ])
  const stored = await log.snapshot('turn')
  expect(stored.records.map(({ output }) => output)).toMatchObject([{ content: TEXTS.at(-1) }])
})
