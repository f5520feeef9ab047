import { describe, test } from 'vitest'
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
