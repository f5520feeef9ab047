import { createClient } from '@redis/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startRedis, startRedisCluster } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, eventsUpTo, outputsOf } from '../../../../conformance/src/turn-log/texts.ts'
import type { LogRecord, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { OpenLogs, until } from './support.ts'

const LEASE_MS = 600_000

const server = await startRedis()
const cluster = await startRedisCluster()
const admins = [server, ...cluster.nodes].map(({ url }) => createClient({ url }))
const opened: OpenLogs[] = []

beforeAll(async () => {
  await Promise.all(admins.map((admin) => admin.connect()))
})

afterEach(async () => {
  for (const logs of opened.splice(0)) await logs.close()
})

afterAll(async () => {
  for (const admin of admins) admin.destroy()
  await Promise.all([server.stop(), cluster.stop()])
})

const rootNodes = cluster.rootNodes.map((socket) => ({ socket }))
const servers = [
  { name: 'one server', server: { url: server.url }, nodes: 1, admins: admins.slice(0, 1) },
  { name: 'a Cluster', server: { cluster: { rootNodes } }, nodes: 3, admins: admins.slice(1) },
]

function logsOn(server: (typeof servers)[number]['server']): OpenLogs {
  const logs = new OpenLogs(server)
  opened.push(logs)
  return logs
}

function follow(log: TurnLog, turnId: string, name: 'events' | 'processed', signal: AbortSignal) {
  const seen: LogRecord[] = []
  const ended = (async () => {
    for await (const each of log.tail(turnId, name, '0-0', signal)) {
      if (!('resync' in each)) seen.push(each)
    }
  })()
  return { seen, ended }
}

describe.each(servers)('several processes on $name', ({ server, nodes, admins }) => {
  const connections = async () => {
    const lists = await Promise.all(admins.map((admin) => admin.clientList()))
    // The other nodes of a Cluster are no clients.
    return (
      lists.flat().filter(({ libName }) => libName?.startsWith('node-redis')).length - admins.length
    )
  }
  const channels = async () => {
    const lists = await Promise.all(admins.map((admin) => admin.pubSubShardChannels()))
    return lists.flat()
  }

  test('L9 one writes, another reads, a third cancels', async () => {
    const logs = logsOn(server)
    const [writer, reader, third] = await Promise.all([logs.open(), logs.open(), logs.open()])
    const turn = { turnId: 'turn', threadId: 'thread', runId: 'run', owner: 'owner' }
    const lease = await writer.create(turn, LEASE_MS)
    const { signal } = new AbortController()
    const events = follow(reader, 'turn', 'events', signal)
    const processed = follow(reader, 'turn', 'processed', signal)
    const cancelled = writer.cancelled(lease, signal)
    for (const record of deltas('run', 1, 20)) await appendTo(writer, lease, 'events', [record])
    await until(() => events.seen.length === 20)
    expect(await third.requestCancel('turn', 'enough')).toBe(true)
    expect(await cancelled).toBe('enough')
    await appendTo(writer, lease, 'events', eventsUpTo('run', 21, 21), { seal: true })
    await appendTo(writer, lease, 'processed', outputsOf('turn', 'ab'), { seal: true })
    await Promise.all([events.ended, processed.ended])
    expect(events.seen).toHaveLength(21)
    expect(processed.seen).toHaveLength(4)
    expect(await third.getTurnOfRun('run')).toMatchObject({ sealed: true, cancelReason: 'enough' })
  })

  test('L9 the number of connections is constant, and closed readers leave nothing behind', async () => {
    const logs = logsOn(server)
    const log = await logs.open()
    const leases = await Promise.all(
      Array.from({ length: 50 }, (_, at) =>
        log.create({ turnId: `turn-${at}`, threadId: `thread-${at}`, owner: 'owner' }, LEASE_MS),
      ),
    )
    const end = new AbortController()
    const first = leases.map(({ turnId }) => follow(log, turnId, 'events', end.signal))
    await until(async () => (await channels()).length === 50)
    const before = await connections()
    expect(before).toBeLessThanOrEqual(2 * nodes)
    const more = Array.from({ length: 3 }, () => leases)
      .flat()
      .map(({ turnId }) => follow(log, turnId, 'events', end.signal))
    for (const lease of leases) await appendTo(log, lease, 'events', deltas(lease.runId, 1, 3))
    await until(() => [...first, ...more].every(({ seen }) => seen.length === 3))
    expect(await connections()).toBe(before)
    expect(await channels()).toHaveLength(50)
    // All readers of a log get the same object.
    for (const [at, { seen }] of more.entries()) expect(seen[2]).toBe(first[at % 50]?.seen[2])
    end.abort()
    await Promise.all([...first, ...more].map(({ ended }) => ended))
    await until(async () => (await channels()).length === 0)
  })

  test('L8 a slow reader does not block the writer and continues from the store', async () => {
    const logs = logsOn(server)
    const log = await logs.open()
    const lease = await log.create({ turnId: 'turn', threadId: 'thread', owner: 'owner' }, LEASE_MS)
    const { signal } = new AbortController()
    await appendTo(log, lease, 'events', deltas('turn', 1, 1))
    const slow = log.tail('turn', 'events', '0-0', signal)[Symbol.asyncIterator]()
    expect((await slow.next()).value).toMatchObject({ offset: '1-1' })
    const quick = follow(log, 'turn', 'events', signal)
    const count = 6000
    for (let seq = 2; seq < count; seq += 200) {
      await appendTo(log, lease, 'events', deltas('turn', seq, Math.min(seq + 199, count - 1)))
    }
    await appendTo(log, lease, 'events', eventsUpTo('turn', count, count), { seal: true })
    await quick.ended
    expect(quick.seen.map(({ offset }) => offset)).toEqual(
      Array.from({ length: count }, (_, at) => `1-${at + 1}`),
    )
    for (let seq = 2; seq <= count; seq += 1) {
      expect((await slow.next()).value).toEqual(quick.seen[seq - 1])
    }
    expect((await slow.next()).done).toBe(true)
  })
})
