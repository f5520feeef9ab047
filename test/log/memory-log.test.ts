import { describe, expect, test } from 'vitest'
import { MemoryLog } from '../../src/log/memory-log.ts'
import { describeTurnLog, fakeClock, type TurnLogUnderTest } from '../../src/testing/index.ts'
import { ofTenant } from './of-tenant.ts'

const runner = { describe, test }

async function underTest(retentionMs: number): Promise<TurnLogUnderTest> {
  const clock = fakeClock()
  const log = new MemoryLog({ retentionMs, clock })
  return { log, elapse: (ms) => clock.advance(ms), dispose: () => log.close() }
}

describeTurnLog('MemoryLog', ({ retentionMs }) => underTest(retentionMs), runner)

describeTurnLog(
  'MemoryLog of a tenant',
  async ({ retentionMs }) => ofTenant(await underTest(retentionMs), 'acme'),
  runner,
)

test('a turn that is made while its thread is deleted is in the thread that it makes', async () => {
  const log = new MemoryLog()
  const turn = { threadId: 'thread', owner: 'me' }
  await log.create({ ...turn, turnId: 'first' }, 1000)
  const deleted = log.deleteThread('thread')
  await log.create({ ...turn, turnId: 'second' }, 1000)
  expect(await deleted).toBe(true)
  expect((await log.listTurns('thread')).items).toMatchObject([{ turnId: 'second', ordinal: 1 }])
})
