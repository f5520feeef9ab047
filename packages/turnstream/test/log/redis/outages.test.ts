import { createServer } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import {
  redisCommand,
  startRedis,
  startRedisCluster,
} from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import {
  deltas,
  eventsUpTo,
  message,
  turnStarted,
} from '../../../../conformance/src/turn-log/texts.ts'
import type { LogRecord, TurnLog } from '../../../../core/src/log/turn-log.ts'
import { seededRandom } from '../../../../core/test/formats/random.ts'
import { FORMAT } from '../../../src/log/redis/keys.ts'
import { openRedisLog, type RedisLogOptions } from '../../../src/server.ts'
import { Proxy } from './proxy.ts'
import { OpenLogs, until } from './support.ts'

type Server = Awaited<ReturnType<typeof startRedis>>

const LEASE_MS = 600_000
const ends: (() => Promise<void>)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})

async function start(options: Parameters<typeof startRedis>[0] = {}): Promise<Server> {
  const server = await startRedis(options)
  ends.push(() => server.stop())
  return server
}

function logsOn(url: string, unavailableAfterMs = 20_000): OpenLogs {
  const logs = new OpenLogs({ url }, { unavailableAfterMs })
  ends.push(() => logs.close())
  return logs
}

/** Follows a log from its beginning; `seen` grows while the test goes on. */
function follow(log: TurnLog, turnId: string, name: 'events' | 'processed' = 'events') {
  const seen: LogRecord[] = []
  const ended = (async () => {
    for await (const each of log.tail(turnId, name, '0-0', new AbortController().signal)) {
      if ('resync' in each) throw new Error('a tail began anew')
      seen.push(each)
    }
  })()
  // Awaited by the test; until then it must not count as unhandled.
  ended.catch(() => {})
  return { seen, ended }
}

const turn = { turnId: 'turn', threadId: 'thread', owner: 'owner' }

/** Writes a turn one record at a time, without waiting for each, and lets `meanwhile` happen in the middle. */
async function writeTurn(log: TurnLog, count: number, meanwhile: (seq: number) => Promise<void>) {
  const lease = await log.create(turn, LEASE_MS)
  const records = eventsUpTo('turn', count)
  const offsets: Promise<string>[] = []
  for (const record of records) {
    offsets.push(appendTo(log, lease, 'events', [record], { seal: record.seq === count }))
    await meanwhile(record.seq)
  }
  return { records, offsets: await Promise.all(offsets) }
}

describe('a Redis outage', () => {
  test('L9 a restart in the middle neither loses nor repeats records, for writer and reader', async () => {
    const server = await start({ appendonly: 'always' })
    const logs = logsOn(server.url)
    const [writer, reader] = await Promise.all([logs.open(), logs.open()])
    let followed: ReturnType<typeof follow> | undefined
    const { records, offsets } = await writeTurn(writer, 600, async (seq) => {
      if (seq === 2) followed = follow(reader, 'turn')
      if (seq === 100) await until(() => (followed?.seen.length ?? 0) > 0)
      if (seq === 300) await server.restart()
      if (seq === 450) {
        await server.kill()
        await server.restart()
      }
    })
    expect(offsets.at(-1)).toBe('1-600')
    await followed?.ended
    expect(followed?.seen.map(({ data }) => data)).toEqual(records.map(({ data }) => data))
    expect(followed?.seen.map(({ offset }) => offset)).toEqual(offsets)
  })

  test.each([1, 2, 3, 4, 5, 6])(
    'L9 cut connections neither lose nor repeat records (seed %i)',
    { tags: ['slow'] },
    async (seed) => {
      const server = await start()
      const proxy = await Proxy.start(server)
      ends.push(() => proxy.stop())
      const logs = logsOn(proxy.url)
      const [writer, reader] = await Promise.all([logs.open(), logs.open()])
      const random = seededRandom(seed)
      const lease = await writer.create(turn, LEASE_MS)
      const events = follow(reader, 'turn')
      const processed = follow(reader, 'turn', 'processed')
      proxy.cutEvery(() => 100 + Math.floor(random() * 12_000))
      const records = eventsUpTo('turn', 1200)
      const pending: Promise<string>[] = []
      for (let at = 0; at < records.length; ) {
        const batch = records.slice(at, at + 1 + Math.floor(random() * 30))
        at += batch.length
        const seal = at >= records.length
        pending.push(appendTo(writer, lease, 'events', batch, { seal }))
        const data = seal ? turnStarted('turn') : message('turn', 'item', `${at}`)
        const output = { seq: pending.length, data }
        const other = appendTo(writer, lease, 'processed', [output], { seal })
        if (random() < 0.5) await Promise.all([pending.at(-1), other])
      }
      await Promise.all(pending)
      proxy.stopCutting()
      await Promise.all([events.ended, processed.ended])
      expect(proxy.cuts).toBeGreaterThan(0)
      expect(events.seen.map(({ data }) => data)).toEqual(records.map(({ data }) => data))
      expect(processed.seen.at(-1)?.offset).toBe(`1-${pending.length}`)
      const order = processed.seen.map(({ offset }) => Number(offset.slice(2)))
      expect(order).toEqual(order.toSorted((a, b) => a - b))
      const again = follow(writer, 'turn')
      await again.ended
      expect(again.seen).toEqual(events.seen)
    },
  )

  test('L9 scripts that the server lost are loaded again', async () => {
    const server = await start()
    const log = await logsOn(server.url).open()
    const { offsets } = await writeTurn(log, 300, async (seq) => {
      if (seq % 50 === 0) await redisCommand(server, 'SCRIPT', 'FLUSH')
    })
    expect(offsets.at(-1)).toBe('1-300')
    const { seen, ended } = follow(log, 'turn')
    await ended
    expect(seen).toHaveLength(300)
  })

  test('L9 that lasts too long is STORE_UNAVAILABLE, and works afterwards', async () => {
    const server = await start({ appendonly: 'always' })
    const log = await logsOn(server.url, 1000).open()
    const lease = await log.create(turn, LEASE_MS)
    await appendTo(log, lease, 'events', deltas('turn', 1, 3))
    const reading = follow(log, 'turn')
    await until(() => reading.seen.length === 3)
    await server.kill()
    const calls = [
      appendTo(log, lease, 'events', deltas('turn', 4, 4)),
      appendTo(log, lease, 'processed', [{ seq: 1, data: turnStarted('turn') }]),
      log.getTurn('turn'),
      log.snapshot('turn'),
      log.renew(lease, LEASE_MS),
    ]
    for (const call of await Promise.allSettled(calls)) {
      expect(call).toMatchObject({ status: 'rejected', reason: { code: 'STORE_UNAVAILABLE' } })
    }
    await server.restart()
    // The caller repeats what it does not know the fate of; the connection comes back in its own time.
    await until(async () => {
      const offset = await appendTo(log, lease, 'events', deltas('turn', 4, 4)).catch(() => '')
      return offset === '1-4'
    })
    await appendTo(log, lease, 'events', eventsUpTo('turn', 5, 5), { seal: true })
    await reading.ended
    expect(reading.seen.map(({ offset }) => offset)).toEqual(['1-1', '1-2', '1-3', '1-4', '1-5'])
  })

  test('L9 a silent server is STORE_UNAVAILABLE, and received records are not added twice', async () => {
    const server = await start()
    const log = await logsOn(server.url, 200).open()
    const lease = await log.create(turn, LEASE_MS)
    process.kill(server.pid ?? 0, 'SIGSTOP')
    const append = appendTo(log, lease, 'events', deltas('turn', 1, 2))
    await expect(append).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    process.kill(server.pid ?? 0, 'SIGCONT')
    await until(async () => {
      const offset = await appendTo(log, lease, 'events', deltas('turn', 1, 2)).catch(() => '')
      return offset === '1-2'
    })
    expect(await appendTo(log, lease, 'events', eventsUpTo('turn', 3, 3), { seal: true })).toBe(
      '1-3',
    )
    const { seen, ended } = follow(log, 'turn')
    await ended
    expect(seen.map(({ offset }) => offset)).toEqual(['1-1', '1-2', '1-3'])
  })

  test('L9 lost notifications are compensated by polling', async () => {
    const server = await start()
    const logs = logsOn(server.url)
    const [writer, reader] = await Promise.all([logs.open(), logs.open()])
    const lease = await writer.create(turn, LEASE_MS)
    const { seen, ended } = follow(reader, 'turn')
    const cancelled = writer.cancelled(lease, new AbortController().signal)
    for (let seq = 1; seq <= 5; seq += 1) {
      await redisCommand(server, 'CLIENT', 'KILL', 'TYPE', 'pubsub')
      await appendTo(writer, lease, 'events', deltas('turn', seq, seq))
      await until(() => seen.length === seq)
    }
    await redisCommand(server, 'CLIENT', 'KILL', 'TYPE', 'pubsub')
    await reader.requestCancel('turn', 'enough')
    expect(await cancelled).toBe('enough')
    await appendTo(writer, lease, 'events', eventsUpTo('turn', 6, 6), { seal: true })
    await ended
  })
})

describe('an unresponsive Redis connection', () => {
  const SILENT_AFTER_MS = 400

  async function proxied(options: Partial<RedisLogOptions> = {}) {
    const server = await start()
    const proxy = await Proxy.start(server)
    ends.push(() => proxy.stop())
    const logs = new OpenLogs({ url: proxy.url }, { silentAfterMs: SILENT_AFTER_MS, ...options })
    ends.push(() => logs.close())
    return { server, proxy, logs, log: await logs.open() }
  }

  /** Asks again and again; how often it took. */
  async function callsUntilAnswer(log: TurnLog): Promise<number> {
    let calls = 0
    await until(async () => {
      calls += 1
      return (await log.getTurn('turn').catch(() => undefined)) !== undefined
    })
    return calls
  }

  test('L9 is replaced while calls wait, which then succeed', async () => {
    const { proxy, logs, log } = await proxied()
    const lease = await log.create(turn, LEASE_MS)
    const reading = follow(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 1))
    await until(() => reading.seen.length === 1)
    const cancelled = log.cancelled(lease, new AbortController().signal)
    proxy.silence()
    const appends = [2, 3, 4].map((seq) => appendTo(log, lease, 'events', deltas('turn', seq, seq)))
    await log.renew(lease, LEASE_MS)
    expect(await Promise.all(appends)).toEqual(['1-2', '1-3', '1-4'])
    await log.requestCancel('turn', 'enough')
    expect(await cancelled).toBe('enough')
    await appendTo(log, lease, 'events', eventsUpTo('turn', 5, 5), { seal: true })
    await reading.ended
    expect(reading.seen.map(({ offset }) => offset)).toEqual(['1-1', '1-2', '1-3', '1-4', '1-5'])
    const silence = expect.stringMatching(/did not reply|Socket timeout/)
    expect(logs.reported).toContainEqual(
      expect.objectContaining({ code: 'STORE_UNAVAILABLE', message: silence }),
    )
  })

  test('L9 is replaced when idle', async () => {
    const { proxy, log } = await proxied()
    const before = proxy.accepted
    proxy.silence()
    await until(() => proxy.accepted >= before + 2)
    expect(await log.create(turn, LEASE_MS)).toMatchObject({ epoch: 1 })
  })

  test('L9 is replaced although calls keep it busy', async () => {
    const { proxy, log } = await proxied({ unavailableAfterMs: 300 })
    // A busy machine may take longer to connect.
    await until(() =>
      log.getTurn('turn').then(
        () => true,
        () => false,
      ),
    )
    await log.create(turn, LEASE_MS)
    proxy.silence()
    const calls = await callsUntilAnswer(log)
    expect(calls).toBeGreaterThan(1)
  })

  test('L9 is replaced again while it hangs before its first reply', async () => {
    const { proxy, log } = await proxied({ unavailableAfterMs: 300 })
    // A busy machine may take longer to connect.
    await until(() =>
      log.getTurn('turn').then(
        () => true,
        () => false,
      ),
    )
    await log.create(turn, LEASE_MS)
    proxy.isDeaf = true
    proxy.silence()
    const before = proxy.accepted
    await until(() => proxy.accepted >= before + 4)
    proxy.isDeaf = false
    expect(await callsUntilAnswer(log)).toBeGreaterThan(0)
  })

  test('L9 is replaced in a Cluster', { tags: ['slow'] }, async () => {
    const cluster = await startRedisCluster()
    ends.push(() => cluster.stop())
    const proxies = await Promise.all(cluster.nodes.map((node) => Proxy.start(node)))
    ends.push(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))))
    const nodeAddressMap = Object.fromEntries(
      cluster.nodes.map(({ host, port }, at) => {
        return [`${host}:${port}`, { host: '127.0.0.1', port: proxies[at]?.port ?? 0 }]
      }),
    )
    const rootNodes = cluster.rootNodes.map((socket) => ({ socket }))
    const logs = new OpenLogs(
      { cluster: { rootNodes, nodeAddressMap } },
      { silentAfterMs: SILENT_AFTER_MS },
    )
    ends.push(() => logs.close())
    const log = await logs.open()
    const lease = await log.create(turn, LEASE_MS)
    const reading = follow(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 1))
    await until(() => reading.seen.length === 1)
    const cancelled = log.cancelled(lease, new AbortController().signal)
    for (const proxy of proxies) proxy.silence()
    expect(await appendTo(log, lease, 'events', deltas('turn', 2, 2))).toBe('1-2')
    await log.requestCancel('turn', 'enough')
    expect(await cancelled).toBe('enough')
    await appendTo(log, lease, 'events', eventsUpTo('turn', 3, 3), { seal: true })
    await reading.ended
    expect(reading.seen).toHaveLength(3)
  })

  test('L9 is STORE_UNAVAILABLE at startup', async () => {
    const { proxy } = await proxied()
    proxy.isDeaf = true
    const open = openRedisLog({ url: proxy.url, unavailableAfterMs: 200 })
    await expect(open).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  test('L9 does not prevent closing the log', async () => {
    const { proxy, log } = await proxied({ unavailableAfterMs: 200, silentAfterMs: 60_000 })
    const lease = await log.create(turn, LEASE_MS)
    proxy.silence()
    const append = appendTo(log, lease, 'events', deltas('turn', 1, 1))
    const closed = log.close()
    await expect(append).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    await closed
  })

  test.each([
    ['no reply at all', 'HTTP/1.1 400 Bad Request\r\n\r\n'],
    ['a text without end', '$99999999999\r\n'],
    ['an array without end', '*1000000\r\n'],
    ['an unexpected push', '>3\r\n$8\r\nsmessage\r\n$1\r\nx\r\n'],
  ])('L9 is replaced when it sends %s', async (_what, bytes) => {
    const { proxy, log } = await proxied()
    const lease = await log.create(turn, LEASE_MS)
    const reading = follow(log, 'turn')
    await appendTo(log, lease, 'events', deltas('turn', 1, 1))
    await until(() => reading.seen.length === 1)
    const before = proxy.accepted
    proxy.inject(bytes)
    await until(() => proxy.accepted >= before + 2)
    await appendTo(log, lease, 'events', eventsUpTo('turn', 2, 2), { seal: true })
    await reading.ended
    expect(reading.seen.map(({ offset }) => offset)).toEqual(['1-1', '1-2'])
  })

  test('L9 is replaced when it sends a reply too many', async () => {
    const { proxy, log } = await proxied()
    const lease = await log.create(turn, LEASE_MS)
    await appendTo(log, lease, 'events', deltas('turn', 1, 1))
    const before = proxy.accepted
    // Nothing is read yet: a poll in flight would take the bytes for its reply.
    proxy.inject('+OK\r\n')
    await until(() => proxy.accepted >= before + 2)
    await appendTo(log, lease, 'events', eventsUpTo('turn', 2, 2), { seal: true })
    const { seen, ended } = follow(log, 'turn')
    await ended
    expect(seen.map(({ offset }) => offset)).toEqual(['1-1', '1-2'])
  })
})

describe('a Redis that refuses', () => {
  test('L9 because it is full is STORE_FULL, and acknowledged data stays', async () => {
    const server = await start({ args: ['--maxmemory', '4mb', '--maxmemory-policy', 'noeviction'] })
    const log = await logsOn(server.url).open()
    const lease = await log.create(turn, LEASE_MS)
    const text = 'x'.repeat(20_000)
    let acknowledged = 0
    const fill = async () => {
      for (let seq = 1; seq < 2000; seq += 1) {
        const data = eventsUpTo('turn', seq, seq)[0]?.data.replace('"complete"', `"${text}"`) ?? ''
        await appendTo(log, lease, 'events', [{ seq, data }])
        acknowledged = seq
      }
    }
    await expect(fill()).rejects.toMatchObject({ code: 'STORE_FULL' })
    expect(acknowledged).toBeGreaterThan(10)
    const signal = AbortSignal.timeout(60_000)
    let read = 0
    for await (const each of log.tail('turn', 'events', '0-0', signal)) {
      expect(each).toMatchObject({ offset: `1-${read + 1}` })
      read += 1
      if (read === acknowledged) break
    }
    await redisCommand(server, 'CONFIG', 'SET', 'maxmemory', '0')
    const next = eventsUpTo('turn', acknowledged + 1, acknowledged + 1)
    expect(await appendTo(log, lease, 'events', next, { seal: true })).toBe(`1-${acknowledged + 1}`)
  })

  test('L9 because it is not running is STORE_UNAVAILABLE at once', async () => {
    const free = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => free.once('listening', resolve))
    const { port } = free.address() as { port: number }
    await new Promise((resolve) => free.close(resolve))
    const url = `redis://127.0.0.1:${port}`
    await expect(openRedisLog({ url })).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
    const cluster = { rootNodes: [{ url }] }
    await expect(openRedisLog({ cluster })).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  test('L9 a wrong or missing password is STORE_UNAVAILABLE, without printing it', async () => {
    const server = await start({ args: ['--requirepass', 'right-secret'] })
    const host = `127.0.0.1:${server.port}`
    const opened = async (url: string) => {
      const reported: unknown[] = []
      const onError = (error: unknown) => reported.push(error)
      const error: unknown = await openRedisLog({ url, onError }).catch((reason: unknown) => reason)
      return { error, reported }
    }
    for (const url of [`redis://:wrong-secret@${host}`, `redis://${host}`]) {
      const { error, reported } = await opened(url)
      expect(error).toMatchObject({ code: 'STORE_UNAVAILABLE' })
      expect(textOf([error, ...reported])).not.toContain('secret')
    }
    for (const url of [`redis:/x:wrong-secret@${host}:x`, `http://:wrong-secret@${host}`]) {
      const { error, reported } = await opened(url)
      expect(error).toMatchObject({ code: 'OPTION_INVALID' })
      expect(textOf([error, ...reported])).not.toContain('secret')
    }
    const log = await openRedisLog({ url: `redis://:right-secret@${host}` })
    await log.close()
  })

  test.each([
    ['an older', FORMAT - 1],
    ['a newer', FORMAT + 1],
  ])('L10 keys of %s format are STORE_VERSION with advice', async (_age, format) => {
    const server = await start()
    await redisCommand(server, 'SET', 'other:format', String(format))
    const open = openRedisLog({ url: server.url, prefix: 'other' })
    const advice = expect.stringContaining('use another prefix')
    await expect(open).rejects.toMatchObject({ code: 'STORE_VERSION', message: advice })
    expect(await redisCommand(server, 'GET', 'other:format')).toBe(String(format))
  })

  test.each([
    { prefix: 'a{b}' },
    { prefix: '' },
    { retentionMs: 0 },
    { unavailableAfterMs: Number.NaN },
    { silentAfterMs: 0 },
  ])('an invalid option is OPTION_INVALID: %o', async (options) => {
    await expect(openRedisLog(options)).rejects.toMatchObject({ code: 'OPTION_INVALID' })
  })
})

/** All that an error says, with its causes. */
function textOf(errors: readonly unknown[]): string {
  const parts: string[] = []
  for (let error of errors) {
    while (error instanceof Error) {
      parts.push(String(error), error.stack ?? '', JSON.stringify(error))
      error = error.cause
    }
  }
  return parts.join('\n')
}
