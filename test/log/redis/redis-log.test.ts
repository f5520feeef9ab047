import { afterAll, describe, test, vi } from 'vitest'
import { redisCommand, startRedis, startRedisCluster } from '../../../scripts/redis-server.mjs'
import { describeTurnLog } from '../../../src/testing/index.ts'
import { underTest } from './support.ts'

const server = await startRedis()
const cluster = await startRedisCluster()
afterAll(async () => {
  await Promise.all([server.stop(), cluster.stop()])
})

async function timeOf(node: { host: string; port: number }): Promise<number> {
  const [seconds = '', micros = ''] = (await redisCommand(node, 'TIME')).match(/^\d+$/gm) ?? []
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
}

// Time passes here as it does everywhere, and the suite has a limit of its own, which says what it waits for.
vi.setConfig({ testTimeout: 30_000 })

const runner = { describe, test }

describeTurnLog(
  'Redis',
  ({ retentionMs }) => underTest({ url: server.url }, retentionMs, () => timeOf(server)),
  runner,
)

describeTurnLog(
  'Redis Cluster',
  ({ retentionMs }) => {
    const { rootNodes, nodes } = cluster
    const options = { rootNodes: rootNodes.map((socket) => ({ socket })) }
    return underTest({ cluster: options }, retentionMs, () => timeOf(nodes[0] ?? server))
  },
  runner,
)
