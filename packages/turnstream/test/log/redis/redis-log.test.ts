import { afterAll, describe, test, vi } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { describeTurnLog } from '../../../../conformance/src/index.ts'
import { timeOf, underTest } from './support.ts'

const server = await startRedis()
afterAll(() => server.stop())

// Time is the server's and passes as it does. The suite has a limit of its own, which names what it waits for.
vi.setConfig({ testTimeout: 30_000 })

describeTurnLog(
  'Redis',
  ({ retentionMs }) => underTest({ url: server.url }, retentionMs, () => timeOf(server)),
  // Every case has keys of its own. Those that wait for keys to expire take seconds.
  {
    describe,
    test: (name, body) =>
      // oxlint-disable-next-line vitest/expect-expect, vitest/valid-title -- they are the suite's
      test.concurrent(name, { tags: /\bexpires?\b/.test(name) ? ['slow'] : [] }, body),
  },
)
