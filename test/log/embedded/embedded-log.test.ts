import { describe, test } from 'vitest'
import { openEmbeddedLog } from '../../../src/log/embedded/open.ts'
import { describeTurnLog, fakeClock } from '../../../src/testing/index.ts'
import { temporaryFolder } from './support.ts'

describeTurnLog(
  'EmbeddedLog',
  async ({ retentionMs }) => {
    const { folder, remove } = temporaryFolder()
    const clock = fakeClock()
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
  },
  { describe, test },
)
