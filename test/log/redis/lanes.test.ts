import { describe, expect, test } from 'vitest'
import { Batches } from '../../../src/log/redis/batches.ts'
import { Calls } from '../../../src/log/redis/calls.ts'
import type { RedisConnection } from '../../../src/log/redis/connection.ts'
import { RedisKeys } from '../../../src/log/redis/keys.ts'
import { Lanes } from '../../../src/log/redis/lanes.ts'
import type { Lease } from '../../../src/log/turn-log.ts'
import { fakeClock } from '../../../src/testing/index.ts'
import { deltas } from '../../../src/testing/turn-log/texts.ts'

const MINUTE_MS = 60_000

/** A connection on which the answer to every call is the one that is given, when it is given. */
function answering() {
  const waiting: ((reply: unknown) => void)[] = []
  const send = () => new Promise<unknown>((resolve) => waiting.push(resolve))
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
  return { connection, answer }
}

function setUp() {
  const { connection, answer } = answering()
  const clock = fakeClock()
  const calls = new Calls(connection, { unavailableAfterMs: 60 * MINUTE_MS, clock })
  const lanes = new Lanes({
    keys: new RedisKeys('codex'),
    calls,
    batches: new Batches(calls, connection),
    clock,
    onError: () => {},
    settle: async () => {},
  })
  return { lanes, clock, answer }
}

function lease(turnId: string, epoch = 1, creation = 'first'): Lease {
  const next = { events: 1, processed: 1 }
  return { turnId, runId: turnId, creation, epoch, until: 0, next }
}

describe('lanes', () => {
  test('there is one for each turn, creation, log and epoch, whichever object the lease is', () => {
    const { lanes } = setUp()
    const all = [
      lanes.of(lease('a'), 'events'),
      lanes.of(lease('a'), 'processed'),
      lanes.of(lease('a', 2), 'events'),
      lanes.of(lease('a', 1, 'second'), 'events'),
      lanes.of(lease('b'), 'events'),
    ]
    expect(new Set(all).size).toBe(5)
    expect([
      lanes.of(lease('a'), 'events'),
      lanes.of(lease('a'), 'processed'),
      lanes.of(lease('a', 2), 'events'),
      lanes.of(lease('a', 1, 'second'), 'events'),
      lanes.of(lease('b'), 'events'),
    ]).toEqual(all)
  })

  test('a lane is kept that is used, and forgotten when nobody used it for more than a minute', async () => {
    const { lanes, clock } = setUp()
    const used = lanes.of(lease('used'), 'events')
    const other = lanes.of(lease('used'), 'processed')
    const unused = lanes.of(lease('unused'), 'events')
    for (let round = 0; round < 4; round += 1) {
      await clock.advance(MINUTE_MS)
      expect(lanes.of(lease('used'), 'events')).toBe(used)
      lanes.of(lease(`new ${round}`), 'events')
    }
    expect(lanes.of(lease('used'), 'events')).toBe(used)
    expect(lanes.of(lease('used'), 'processed')).not.toBe(other)
    expect(lanes.of(lease('unused'), 'events')).not.toBe(unused)
  })

  test('a lane is not forgotten within a minute, however many others there are', async () => {
    const { lanes, clock } = setUp()
    await clock.advance(MINUTE_MS - 1)
    const kept = lanes.of(lease('kept'), 'events')
    for (const turn of ['b', 'c', 'd']) {
      await clock.advance(MINUTE_MS / 3 - 1)
      lanes.of(lease(turn), 'events')
    }
    expect(lanes.of(lease('kept'), 'events')).toBe(kept)
  })

  test('a lane that waits for an answer is not forgotten, and not idle', async () => {
    const { lanes, clock, answer } = setUp()
    const busy = lanes.of(lease('busy'), 'events')
    const appended = busy.append(deltas('busy', 1, 1), false)
    let isIdle = false
    const idle = lanes.idle().then(() => {
      isIdle = true
    })
    for (let round = 0; round < 4; round += 1) {
      await clock.advance(MINUTE_MS)
      lanes.of(lease(`new ${round}`), 'events')
    }
    expect(isIdle).toBe(false)
    expect(busy.isIdle).toBe(false)
    await answer(1)
    expect(await appended).toBe('1-1')
    await idle
    expect(busy.isIdle).toBe(true)
    expect(lanes.of(lease('busy'), 'events')).toBe(busy)
  })

  test.each([
    ['no list', null],
    ['a list without places', ['x', '1:1']],
  ])('an answer that is %s is STORE_CORRUPT for each append', async (_name, reply) => {
    const { lanes, answer } = setUp()
    const append = (seq: number) => {
      const all = ['a', 'b'].map((turn) =>
        lanes.of(lease(turn), 'events').append(deltas(turn, seq, seq), false),
      )
      return Promise.allSettled(all)
    }
    // The first record of a lease does not go in a batch.
    const first = append(1)
    await answer(1)
    await first
    const settled = append(2)
    await answer(reply)
    expect(await settled).toMatchObject([
      { reason: { code: 'STORE_CORRUPT' } },
      { reason: { code: 'STORE_CORRUPT' } },
    ])
  })
})
