import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { deltas, responseDone } from '../../../../conformance/src/turn-log/texts.ts'
import { type StreamEvent, TurnstreamError } from '../../../../core/src/index.ts'
import type { Lease, WriterOptions } from '../../../../core/src/log/turn-log.ts'
import { RedisClient } from '../../../src/log/redis/client.ts'
import type { RedisConnection } from '../../../src/log/redis/connection.ts'
import { RedisKeys } from '../../../src/log/redis/keys.ts'
import { AppendQueue, openWriter, type WriterStore } from '../../../src/log/redis/writer.ts'

/** A connection on which the answer to every call is the one that is given, when it is given. */
function answering() {
  const waiting: ((reply: unknown) => void)[] = []
  const sent: (readonly string[])[] = []
  const send = (_key: string, args: readonly string[]) => {
    sent.push(args)
    return new Promise<unknown>((resolve) => waiting.push(resolve))
  }
  const connection: RedisConnection = {
    spansSlots: true,
    send,
    sendToAll: async () => [],
    subscribe: async () => {},
    unsubscribe: async () => {},
    close: async () => {},
  }
  const answer = async (reply: unknown) => {
    while (waiting.length === 0) await new Promise((resolve) => setImmediate(resolve))
    for (const resolve of waiting.splice(0)) resolve(reply)
  }
  return { connection, answer, sent }
}

function setUp() {
  const { connection, answer, sent } = answering()
  const clock = fakeClock()
  const client = new RedisClient(connection, 3_600_000, clock)
  let isOpen = true
  const store: WriterStore = {
    keys: new RedisKeys('codex'),
    client,
    appends: new AppendQueue(client, connection),
    clock,
    onError: () => {},
    settle: async () => {},
    checkOpen: () => {
      if (!isOpen) throw new TurnstreamError('STORE_CLOSED', 'the log was closed')
    },
    writers: new Set(),
  }
  const close = () => {
    isOpen = false
  }
  const open = (turnId: string, options?: WriterOptions<StreamEvent>) =>
    openWriter(lease(turnId), 'events', store, options)
  return { store, answer, sent, open, close }
}

function lease(turnId: string): Lease {
  const next = { events: 1, processed: 1 }
  return { turnId, runId: turnId, creation: 'first', epoch: 1, until: 0, next }
}

function eventsOf(turnId: string, first: number, last: number): StreamEvent[] {
  return deltas(turnId, first, last).map(({ data }) => JSON.parse(data) as StreamEvent)
}

function end(turnId: string, seq: number): StreamEvent {
  return JSON.parse(responseDone(turnId, seq)) as StreamEvent
}

describe('the writers of a store', () => {
  test('are registered until they are closed, failed or sealed', async () => {
    const { store, open, answer } = setUp()
    const [closed, failed, sealed] = [open('closed'), open('failed'), open('sealed')]
    expect([...store.writers]).toEqual([closed, failed, sealed])
    closed.close()
    expect([...store.writers]).toEqual([failed, sealed])
    for (const event of eventsOf('failed', 1, 1)) failed.write(event)
    const [flush] = await Promise.allSettled([
      failed.flush(),
      // Refused, and the turn is gone.
      answer(''),
    ])
    expect(flush).toMatchObject({ reason: { code: 'LEASE_LOST' } })
    expect([...store.writers]).toEqual([sealed])
    const seal = sealed.seal(end('sealed', 1))
    expect(store.writers.size).toBe(1)
    await answer(1)
    await seal
    expect(store.writers.size).toBe(0)
  })

  test('send one batch at a time and combine what arrives meanwhile', async () => {
    const { open, answer, sent } = setUp()
    const writer = open('turn')
    for (const event of eventsOf('turn', 1, 3)) writer.write(event)
    await new Promise((resolve) => setImmediate(resolve))
    expect(sent).toHaveLength(1)
    for (const event of eventsOf('turn', 4, 300)) writer.write(event)
    await new Promise((resolve) => setImmediate(resolve))
    expect(sent).toHaveLength(1)
    const flush = writer.flush()
    // 3, 256 and the other 41.
    for (let count = 1; count <= 3; count++) {
      await answer(1)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await flush
    expect(sent).toHaveLength(3)
  })

  test('send pending records when the store is closed, and then nothing', async () => {
    const { open, answer, close } = setUp()
    const writer = open('turn')
    for (const event of eventsOf('turn', 1, 300)) writer.write(event)
    const flush = writer.flush()
    close()
    await answer(1)
    await answer(1)
    await flush
    for (const event of eventsOf('turn', 301, 301)) writer.write(event)
    await expect(writer.flush()).rejects.toMatchObject({ code: 'STORE_CLOSED' })
  })

  test.each([
    ['no list', null],
    ['a list without places', ['x', '1:1']],
  ])('each fail with STORE_CORRUPT when the reply is %s', async (_name, reply) => {
    const { open, answer } = setUp()
    const writers = ['a', 'b'].map((turnId) => open(turnId))
    const write = (seq: number) =>
      Promise.allSettled(
        writers.map((writer, at) => {
          for (const event of eventsOf('ab'[at] ?? '', seq, seq)) writer.write(event)
          return writer.flush()
        }),
      )
    // The first record of a lease does not go in a batch.
    const first = write(1)
    await answer(1)
    await first
    const settled = write(2)
    await answer(reply)
    expect(await settled).toMatchObject([
      { reason: { code: 'STORE_CORRUPT' } },
      { reason: { code: 'STORE_CORRUPT' } },
    ])
  })
})
