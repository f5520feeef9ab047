import { describe, test } from 'vitest'
import {
  describeTurnLog,
  fakeClock,
  type TurnLogUnderTest,
} from '../../../../conformance/src/index.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { ofTenant } from '../of-tenant.ts'
import { temporaryFolder } from './support.ts'

const runner = { describe, test }

async function underTest(retentionMs: number): Promise<TurnLogUnderTest> {
  const { folder, remove } = temporaryFolder()
  const clock = fakeClock()
  clock.step(1e12) // time of day and monotonic time differ, as on any machine
  const fast = { sync: 'system', commitIntervalMs: 1 } as const
  const open = () => openEmbeddedLog({ directory: folder, retentionMs, clock, ...fast })
  let log = await open()
  return {
    log,
    elapse: (ms) => clock.advance(ms),
    reopen: async () => {
      await log.close()
      log = await open()
      return log
    },
    dispose: async () => {
      await log.close()
      remove()
    },
  }
}

describeTurnLog('EmbeddedLog', ({ retentionMs }) => underTest(retentionMs), runner)

describeTurnLog(
  'EmbeddedLog of a tenant',
  async ({ retentionMs }) => ofTenant(await underTest(retentionMs), 'acme'),
  runner,
)
