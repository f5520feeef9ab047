// @module-tag slow
import { afterAll, beforeAll, describe, test, vi } from 'vitest'
import { startRedisCluster } from '../../../../../scripts/redis-server.mjs'
import { describeTurnLog } from '../../../../conformance/src/index.ts'
import { timeOf, underTest } from './support.ts'

let cluster: Awaited<ReturnType<typeof startRedisCluster>>
beforeAll(async () => {
  cluster = await startRedisCluster()
})
afterAll(() => cluster.stop())

// Time is the server's and passes as it does. The suite has a limit of its own, which names what it waits for.
vi.setConfig({ testTimeout: 30_000 })

describeTurnLog(
  'Redis Cluster',
  ({ retentionMs }) => {
    const [node] = cluster.nodes
    if (node === undefined) throw new Error('the cluster has no nodes')
    const rootNodes = cluster.rootNodes.map((socket) => ({ socket }))
    return underTest({ cluster: { rootNodes } }, retentionMs, () => timeOf(node))
  },
  // Every case has keys of its own, and some wait for keys to expire.
  { describe, test: test.concurrent },
)
