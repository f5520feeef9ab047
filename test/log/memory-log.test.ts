import { describe, test } from 'vitest'
import { MemoryLog } from '../../src/log/memory-log.ts'
import { describeTurnLog, fakeClock } from '../../src/testing/index.ts'

describeTurnLog(
  'MemoryLog',
  async ({ retentionMs }) => {
    const clock = fakeClock()
    const log = new MemoryLog({ retentionMs, clock })
    return { log, elapse: (ms) => clock.advance(ms), dispose: () => log.close() }
  },
  { describe, test },
)
