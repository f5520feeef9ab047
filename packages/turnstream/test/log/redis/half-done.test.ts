import { createClient } from '@redis/client'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { appendTo } from '../../../../conformance/src/turn-log/append.ts'
import { deltas, eventsUpTo, outputsOf } from '../../../../conformance/src/turn-log/texts.ts'
import type { TurnLog } from '../../../../core/src/log/turn-log.ts'
import type { Script } from '../../../src/log/redis/client.ts'
import { RedisKeys } from '../../../src/log/redis/keys.ts'
import { BEGIN_DELETION, END_DELETION, OPEN_TURN } from '../../../src/log/redis/scripts/thread.ts'
import {
  CLAIM_EVENTS,
  CLAIM_PROCESSED,
  CREATE_RUN,
  CREATE_TURN,
  REMOVE_EVENTS,
  REMOVE_PROCESSED,
} from '../../../src/log/redis/scripts/turn.ts'
import { OpenLogs, until } from './support.ts'

const LEASE_MS = 600_000

const server = await startRedis()
const redis = createClient({ url: server.url })
const opened: OpenLogs[] = []

beforeAll(async () => {
  await redis.connect()
})

afterEach(async () => {
  for (const logs of opened.splice(0)) await logs.close()
})

afterAll(async () => {
  redis.destroy()
  await server.stop()
})

function ofRun(keys: RedisKeys): string[] {
  const { meta, state, events, chunks, response, fence } = keys.run('run')
  return [meta, state, events, chunks, response, fence]
}

async function open(): Promise<{ log: TurnLog; keys: RedisKeys }> {
  const logs = new OpenLogs({ url: server.url })
  opened.push(logs)
  return { log: await logs.open(), keys: new RedisKeys(logs.prefix) }
}

/** One step of a process that dies after it. */
async function step(script: Script, keys: string[], args: (string | number)[]): Promise<unknown> {
  return redis.eval(script.lua, { keys, arguments: args.map(String) })
}

function ofThread(keys: RedisKeys): string[] {
  const { record, turns, replaced } = keys.thread('thread')
  return [record, turns, replaced]
}

/** The step of a `create` that takes a place in the thread. */
function openTurn(keys: RedisKeys, turnId: string, leaseMs: number, replaces = '') {
  return step(OPEN_TURN, ofThread(keys), [turnId, leaseMs, LEASE_MS, '', 'beef', replaces, ''])
}

/** The step of a `create` that makes log A. */
async function makeRun(keys: RedisKeys, turnId: string, leaseMs: number): Promise<void> {
  const { state, events, meta, fence } = keys.run('run')
  await step(CREATE_RUN, [state, events, meta, fence], [turnId, leaseMs, LEASE_MS, '', 'cafe'])
}

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => 'resolved',
    (error: unknown) => (error as { code: string }).code,
  )
}

const orphan = { turnId: 'turn', threadId: 'thread', runId: 'run', owner: 'a' }

/** Many places in the thread, all replaced. */
async function replacedMany(keys: RedisKeys, count: number): Promise<void> {
  const { record, turns, replaced } = keys.thread('thread')
  const ids = Array.from({ length: count }, (_, at) => `t${at + 1}`)
  await redis.zAdd(
    turns,
    ids.map((value, at) => ({ value, score: at + 1 })),
  )
  await redis.hSet(
    replaced,
    ids.flatMap((id) => [id, 'later']),
  )
  await redis.hSet(record, { made: String(count), createdAt: '1', updatedAt: '1', creation: 'c' })
}

describe('after a process died in the middle', () => {
  test('L5 a claim that only fenced log A blocks others for a limited time', async () => {
    const { log, keys } = await open()
    const old = await log.create(orphan, 1)
    await appendTo(log, old, 'events', deltas('run', 1, 2))
    await until(async () => (await log.expired(5)).length === 1)
    const { state, events, chunks, meta, response } = keys.run('run')
    const claim = [1, '', 'nonce', 300, LEASE_MS, old.creation]
    expect(await step(CLAIM_EVENTS, [state, events, chunks, meta, response], claim)).toEqual([
      '2',
      '2',
    ])
    expect(await codeOf(log.claim('turn', 'b', LEASE_MS))).toBe('LEASE_HELD')
    expect(await codeOf(appendTo(log, old, 'events', deltas('run', 3, 3)))).toBe('LEASE_LOST')
    let lease = await log.claim('turn', 'b', LEASE_MS).catch(() => undefined)
    await until(async () => {
      lease ??= await log.claim('turn', 'b', LEASE_MS).catch(() => undefined)
      return lease !== undefined
    })
    expect(lease).toMatchObject({ epoch: 3, next: { events: 3, processed: 1 } })
    // The dead one comes to life again.
    const turn = keys.turn('turn')
    const late = [2, 'nonce', 'c', LEASE_MS, LEASE_MS, old.creation]
    const second = [turn.meta, turn.state, turn.processed, turn.items]
    expect(await step(CLAIM_PROCESSED, second, late)).toEqual([])
    if (lease === undefined) throw new Error('no lease')
    await appendTo(log, lease, 'events', eventsUpTo('run', 3, 3), { seal: true })
    await appendTo(log, lease, 'processed', outputsOf('turn', 'a'), { seal: true })
    expect(await log.getTurn('turn')).toMatchObject({ sealed: true, epoch: 3, owner: 'b' })
  })

  test('L5 a claim that fenced both logs holds its lease until it expires', async () => {
    const { log, keys } = await open()
    const { creation } = await log.create(orphan, 1)
    await until(async () => (await log.expired(5)).length === 1)
    const run = keys.run('run')
    const turn = keys.turn('turn')
    await step(
      CLAIM_EVENTS,
      [run.state, run.events, run.chunks, run.meta, run.response],
      [1, '', 'n', 1, LEASE_MS, creation],
    )
    const second = [turn.meta, turn.state, turn.processed, turn.items]
    await step(CLAIM_PROCESSED, second, [2, 'n', 'b', 200, LEASE_MS, creation])
    expect(await codeOf(log.claim('turn', 'c', LEASE_MS))).toBe('LEASE_HELD')
    await until(async () => (await codeOf(log.claim('turn', 'c', LEASE_MS))) === 'resolved')
    expect(await log.getTurn('turn')).toMatchObject({ epoch: 3, owner: 'c' })
  })

  test('L5 one of many concurrent claims in several processes wins', async () => {
    const logs = new OpenLogs({ url: server.url })
    opened.push(logs)
    const all = await Promise.all(Array.from({ length: 5 }, () => logs.open()))
    const log = all[0] as TurnLog
    for (let round = 0; round < 5; round += 1) {
      const turnId = `turn-${round}`
      await log.create({ ...orphan, turnId, runId: `run-${round}`, threadId: turnId }, 1)
      await until(async () => (await log.expired(5)).includes(turnId))
      const claims = Array.from({ length: 20 }, (_, at) =>
        codeOf((all[at % 5] as TurnLog).claim(turnId, `owner-${at}`, LEASE_MS)),
      )
      const codes = await Promise.all(claims)
      expect(codes.filter((code) => code === 'resolved')).toHaveLength(1)
      expect(codes.filter((code) => code === 'LEASE_HELD')).toHaveLength(19)
    }
  })

  test('L3 a partial create is completed by repeating it', async () => {
    const { log, keys } = await open()
    await step(OPEN_TURN, ofThread(keys), ['turn', LEASE_MS, LEASE_MS, '', 'beef', '', ''])
    expect(await log.getTurn('turn')).toBeUndefined()
    expect((await log.listTurns('thread')).items).toEqual([])
    await makeRun(keys, 'turn', LEASE_MS)
    expect(await log.getTurnOfRun('run')).toBeUndefined()
    const lease = await log.create(orphan, LEASE_MS)
    expect(lease).toMatchObject({ epoch: 1, runId: 'run', next: { events: 1, processed: 1 } })
    expect((await log.listTurns('thread')).items).toMatchObject([{ turnId: 'turn', ordinal: 1 }])
  })

  test('D4 a partial turn blocks its thread and run no longer than its lease', async () => {
    const { log, keys } = await open()
    await openTurn(keys, 'never', 1500)
    // It ends first: whoever finds the thread free and the run not takes a place in the thread for nothing.
    await makeRun(keys, 'never', 100)
    expect(await codeOf(log.create(orphan, LEASE_MS))).toBe('THREAD_BUSY')
    await until(async () => (await codeOf(log.create(orphan, LEASE_MS))) === 'resolved')
    expect(await log.getTurnOfRun('run')).toMatchObject({ turnId: 'turn', ordinal: 2 })
  })

  test('D4 a turn whose run id is taken blocks no thread', async () => {
    const { log, keys } = await open()
    await makeRun(keys, 'other', LEASE_MS)
    expect(await codeOf(log.create(orphan, LEASE_MS))).toBe('TURN_EXISTS')
    await log.create({ turnId: 'next', threadId: 'thread', owner: 'a' }, LEASE_MS)
    expect((await log.listTurns('thread')).items).toMatchObject([{ turnId: 'next' }])
  })

  test('D4 the busy mark of an ended turn blocks nothing', async () => {
    const { log, keys } = await open()
    const lease = await log.create(orphan, LEASE_MS)
    await appendTo(log, lease, 'events', eventsUpTo('run', 1), { seal: true })
    await appendTo(log, lease, 'processed', outputsOf('turn', 'a'), { seal: true })
    const { record } = keys.thread('thread')
    await redis.hSet(record, { open: 'turn', openUntil: '9999999999999' })
    await redis.zAdd(keys.leases, { value: 'turn', score: 1 })
    await redis.zAdd(keys.leases, { value: 'never', score: 1 })
    const next = { ...orphan, turnId: 'next', runId: 'next' }
    expect(await log.create(next, LEASE_MS)).toMatchObject({ epoch: 1 })
    expect(await log.expired(5)).toEqual([])
    expect(await redis.zRange(keys.leases, 0, -1)).toEqual(['next'])
  })

  test('L9 a stale index is repaired', async () => {
    const { log, keys } = await open()
    await log.create(orphan, LEASE_MS)
    await redis.zAdd(keys.leases, { value: 'turn', score: 1 })
    expect(await log.expired(5)).toEqual([])
    expect(await redis.zScore(keys.leases, 'turn')).toBeGreaterThan(1_000_000)
  })

  test('L10 a partial deletion leaves no turn and can be repeated', async () => {
    const { log, keys } = await open()
    const lease = await log.create(orphan, LEASE_MS)
    await appendTo(log, lease, 'events', deltas('run', 1, 2))
    await step(REMOVE_EVENTS, ofRun(keys), [lease.creation, LEASE_MS])
    expect(await log.getTurn('turn')).toBeUndefined()
    expect(await codeOf(appendTo(log, lease, 'events', deltas('run', 3, 3)))).toBe('LEASE_LOST')
    expect(await log.deleteTurn('turn')).toBe(true)
    expect(await log.deleteTurn('turn')).toBe(false)
    expect(await log.create(orphan, LEASE_MS)).toMatchObject({ epoch: 2 })
  })

  test('L10 a turn whose creator died while its thread was deleted is removed with its lease', async () => {
    const { log, keys } = await open()
    await openTurn(keys, 'turn', 1)
    await makeRun(keys, 'turn', 1)
    expect(await log.deleteThread('thread')).toBe(true)
    const fields = ['runId', 'run', 'threadId', 'thread', 'ordinal', '1', 'owner', 'a']
    const { state, processed, meta } = keys.turn('turn')
    const indexed = Date.now() + LEASE_MS
    const args = ['nonce', 1, LEASE_MS, indexed, 'cafe', 1, ...fields]
    await step(CREATE_TURN, [state, processed, meta], args)
    await redis.zAdd(keys.leases, { value: 'turn', score: 1 })
    await until(async () => {
      expect(await log.expired(5)).toEqual([])
      return (await log.getTurn('turn')) === undefined
    })
    expect(await redis.zRange(keys.leases, 0, -1)).toEqual([])
  })

  describe('V14 a creation that died', () => {
    /** A turn that ended and may be replaced. */
    async function replaceable(log: TurnLog) {
      const first = { turnId: 'first', threadId: 'thread', owner: 'a' }
      const lease = await log.create(first, LEASE_MS)
      await appendTo(log, lease, 'events', eventsUpTo('first', 1), { seal: true })
      await appendTo(log, lease, 'processed', outputsOf('first', 'a'), { seal: true })
    }
    const listed = async (log: TurnLog, replaced = false) =>
      (await log.listTurns('thread', { replaced })).items.map(({ turnId }) => turnId)

    test('before the turn existed has replaced nothing, and may be repeated', async () => {
      const { log, keys } = await open()
      await replaceable(log)
      await openTurn(keys, 'turn', LEASE_MS, 'first')
      await makeRun(keys, 'turn', LEASE_MS)
      expect(await listed(log)).toEqual(['first'])
      await log.create({ ...orphan, replaces: 'first' }, LEASE_MS)
      expect(await listed(log)).toEqual(['turn'])
    })

    test('before it was confirmed has replaced others when it is ended', async () => {
      const { log, keys } = await open()
      await replaceable(log)
      const [, ordinal, , from] = (await openTurn(keys, 'turn', 1, 'first')) as string[]
      expect([ordinal, from]).toEqual(['2', '1'])
      await makeRun(keys, 'turn', 1)
      const { state, processed, meta } = keys.turn('turn')
      const place = ['runId', 'run', 'threadId', 'thread', 'ordinal', '2', 'owner', 'a']
      const fields = [...place, 'replaces', 'first', 'replacesFrom', '1']
      const args = ['nonce', 1, LEASE_MS, Date.now() + LEASE_MS, 'cafe', 1, ...fields]
      await step(CREATE_TURN, [state, processed, meta], args)
      await redis.zAdd(keys.leases, { value: 'turn', score: 1 })
      await until(async () => (await log.expired(5)).length === 1)
      const lease = await log.claim('turn', 'b', LEASE_MS)
      await appendTo(log, lease, 'events', eventsUpTo('run', 1), { seal: true })
      await appendTo(log, lease, 'processed', outputsOf('turn', 'a'), { seal: true })
      await until(async () => (await listed(log)).length === 1)
      expect(await listed(log)).toEqual(['turn'])
      expect(await listed(log, true)).toEqual(['first', 'turn'])
    })
  })

  test('V14 twenty thousand replaced turns are skipped', async () => {
    const { log, keys } = await open()
    await replacedMany(keys, 20_000)
    const last = { turnId: 'last', threadId: 'thread', owner: 'a' }
    await log.create(last, LEASE_MS)
    const { items } = await log.listTurns('thread', { first: 'newest', limit: 1 })
    expect(items.map(({ turnId }) => turnId)).toEqual(['last'])
    expect((await log.listTurns('thread')).items.map(({ turnId }) => turnId)).toEqual(['last'])
  })

  test('L10 a partial thread deletion blocks new turns only for a while and removes none', async () => {
    const { log, keys } = await open()
    const { record, turns } = keys.thread('thread')
    const lease = await log.create(orphan, LEASE_MS)
    await appendTo(log, lease, 'events', eventsUpTo('run', 1), { seal: true })
    await appendTo(log, lease, 'processed', outputsOf('turn', 'a'), { seal: true })
    await step(BEGIN_DELETION, [record, turns], ['dead', 200])
    const next = { ...orphan, turnId: 'next', runId: 'next' }
    expect(await codeOf(log.create(next, LEASE_MS))).toBe('THREAD_BUSY')
    await until(async () => (await codeOf(log.create(next, LEASE_MS))) === 'resolved')
    expect(await step(END_DELETION, ofThread(keys), ['dead'])).toBe(0)
    await step(BEGIN_DELETION, [record, turns], ['dead', 200, 'next'])
    expect((await log.listTurns('thread')).items).toMatchObject([
      { turnId: 'turn' },
      { turnId: 'next' },
    ])
    expect(await log.deleteThread('thread')).toBe(true)
    expect(await log.getTurn('next')).toBeUndefined()
    expect(await redis.exists([record, turns])).toBe(0)
  })

  test('L10 a late deletion does not touch the recreated turn', async () => {
    const { log, keys } = await open()
    const { creation } = await log.create(orphan, LEASE_MS)
    await log.deleteTurn('turn')
    const lease = await log.create(orphan, LEASE_MS)
    await appendTo(log, lease, 'events', deltas('run', 1, 2))
    expect(await step(REMOVE_EVENTS, ofRun(keys), [creation, LEASE_MS])).toBe(0)
    const { meta, state, processed, items } = keys.turn('turn')
    expect(await step(REMOVE_PROCESSED, [meta, state, processed, items], [creation])).toBe(0)
    await appendTo(log, lease, 'events', eventsUpTo('run', 3, 3), { seal: true })
    await appendTo(log, lease, 'processed', outputsOf('turn', 'a'), { seal: true })
  })

  test('L5 a claim of a deleted turn takes nothing of the recreated one', async () => {
    const { log, keys } = await open()
    const { creation } = await log.create(orphan, 1)
    await log.deleteTurn('turn')
    const lease = await log.create(orphan, LEASE_MS)
    const { state, events, chunks, meta, response } = keys.run('run')
    const claim = [lease.epoch, '', 'nonce', 300, LEASE_MS, creation]
    expect(await step(CLAIM_EVENTS, [state, events, chunks, meta, response], claim)).toEqual([])
    await appendTo(log, lease, 'events', deltas('run', 1, 2))
  })

  test('L3 one of several concurrent creators of a turn gets it and can write to both logs', async () => {
    const logs = new OpenLogs({ url: server.url })
    opened.push(logs)
    const all = await Promise.all(Array.from({ length: 4 }, () => logs.open()))
    for (let round = 0; round < 10; round += 1) {
      const turn = {
        ...orphan,
        turnId: `turn-${round}`,
        runId: `run-${round}`,
        threadId: `${round}`,
      }
      const made = await Promise.allSettled(all.map((log) => log.create(turn, LEASE_MS)))
      const leases = made.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
      const [lease] = leases
      expect(leases).toHaveLength(1)
      if (lease === undefined) throw new Error('no lease')
      const log = all[made.findIndex(({ status }) => status === 'fulfilled')] as TurnLog
      await appendTo(log, lease, 'events', eventsUpTo(turn.runId, 2), { seal: true })
      await appendTo(log, lease, 'processed', outputsOf(turn.turnId, 'a'), { seal: true })
    }
  })
})
