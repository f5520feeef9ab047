import { describe, expect, test, vi } from 'vitest'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { HistoryItem } from '../../../core/src/formats/submission.ts'
import { MemoryLog } from '../../src/server.ts'
import { ThreadChain } from '../../src/turns/thread-chain.ts'
import { canContinue, findContinued } from '../../src/turns/thread-index.ts'
import { answer, broken, end } from './payloads.ts'
import { newRig, PROMPT, type Round, tick } from './rig.ts'

const ANSWER: Round = [...answer('1', 'Hello'), end()]
const TOLD: HistoryItem = { type: 'message', origin: 'agent', content: 'Hello' }

/** The turn that a request continues after this prompt and answer. */
async function found(log: MemoryLog) {
  return findContinued(log, await ThreadChain.read([PROMPT, TOLD, PROMPT]))
}

async function submitted(log: MemoryLog, rounds: readonly Round[], clock = fakeClock(1_000_000)) {
  const rig = newRig({ log, rounds, clock })
  const { answerKey } = await ThreadChain.read([PROMPT])
  await rig.submit({ threadId: 't' }, { answerKey })
  return rig
}

test('a turn is found by its conversation once its end is visible, and until it expires', async () => {
  let store = () => {}
  const clock = fakeClock(1_000_000)
  const log = new MemoryLog({ clock, retentionMs: 60_000 })
  const add = log.keyedRecords.add.bind(log.keyedRecords)
  vi.spyOn(log.keyedRecords, 'add').mockImplementation(async (...record) => {
    await new Promise<void>((resolve) => {
      store = resolve
    })
    await add(...record)
  })
  const rig = await submitted(log, [ANSWER], clock)
  await tick(clock)
  expect(await log.getTurn('r')).toMatchObject({ status: 'in_progress' })
  expect(await found(log)).toBeUndefined()
  store()
  await rig.settled()
  expect(await log.getTurn('r')).toMatchObject({ status: 'complete' })
  expect(await found(log)).toEqual({ turnId: 'r', threadId: 't' })
  await clock.advance(59_000)
  expect(await found(log)).toEqual({ turnId: 'r', threadId: 't' })
  await clock.advance(1001)
  expect(await found(log)).toBeUndefined()
  expect(rig.errors).toEqual([])
})

test('a conversation that took place in two threads is found in neither', async () => {
  const log = new MemoryLog()
  for (const [runId, threadId] of [
    ['r1', 'a'],
    ['r2', 'a'],
    ['r3', 'b'],
    ['r4', 'b'],
  ] as const) {
    const rig = newRig({ log, rounds: [ANSWER] })
    const { answerKey } = await ThreadChain.read([PROMPT])
    await rig.submit({ runId, threadId }, { answerKey })
    await rig.settled()
    const expected = threadId === 'a' ? { turnId: runId, threadId } : undefined
    expect(await found(log)).toEqual(expected)
  }
})

test('conversations of different users are different', async () => {
  const keys = await Promise.all(
    [undefined, 'ann', 'bob'].map(
      async (user) => (await ThreadChain.read([PROMPT, TOLD], user)).keys,
    ),
  )
  expect(new Set(keys.flat()).size).toBe(3)
})

test('a store that cannot record it neither fails nor holds the end of the turn', async () => {
  const broken = new MemoryLog()
  vi.spyOn(broken.keyedRecords, 'add').mockRejectedValue(new Error('no records today'))
  const failing = await submitted(broken, [ANSWER])
  await failing.settled()
  expect(await failing.log.getTurn('r')).toMatchObject({ status: 'complete', sealed: true })
  expect(failing.errors).toEqual(['no records today'])

  const unanswering = new MemoryLog()
  vi.spyOn(unanswering.keyedRecords, 'add').mockReturnValue(new Promise(() => {}))
  const silent = await submitted(unanswering, [ANSWER])
  await tick(silent.clock)
  expect(await silent.log.getTurn('r')).toMatchObject({ status: 'in_progress' })
  await silent.clock.advance(1000)
  await silent.settled()
  expect(await silent.log.getTurn('r')).toMatchObject({ status: 'complete', sealed: true })
  expect(silent.errors).toEqual(['STORE_UNAVAILABLE'])
})

test.each<[string, Round]>([
  ['failed', [...answer('1', 'Hello'), broken('HTTP_500')]],
  ['was cut off', answer('1', 'Hello')],
])('a turn that %s is not found', async (_, round) => {
  const log = new MemoryLog()
  await (await submitted(log, [round])).settled()
  expect(await found(log)).toBeUndefined()
})

test('a turn whose submitter did not ask for it is not found', async () => {
  const log = new MemoryLog()
  const rig = newRig({ log, rounds: [ANSWER] })
  await rig.submit({ threadId: 't' })
  await rig.settled()
  expect(await found(log)).toBeUndefined()
})

describe('a thread can be continued after a turn', () => {
  /** Turns of these rounds, and whether the thread can be continued after each of them. */
  async function continuable(rounds: readonly Round[]): Promise<boolean[]> {
    const log = new MemoryLog()
    const rig = newRig({ log, rounds })
    const turnIds = rounds.map((_, index) => `turn-${index}`)
    for (const runId of turnIds) {
      await rig.submit({ runId, threadId: 't' })
      if (rounds[turnIds.indexOf(runId)] === CANCELLED) await rig.runner.cancel(runId, 'stop')
      await rig.settled()
    }
    return Promise.all(turnIds.map((turnId) => canContinue(log, { threadId: 't', turnId })))
  }
  const CANCELLED: Round = () => {}
  const FAILED: Round = [broken('HTTP_500')]

  test('that is the newest, or only followed by failed and cancelled ones', async () => {
    expect(await continuable([ANSWER, ANSWER])).toEqual([false, true])
    expect(await continuable([ANSWER, FAILED, CANCELLED])).toEqual([true, true, true])
    expect(await continuable([ANSWER, FAILED, ANSWER, FAILED])).toEqual([false, false, true, true])
  })

  test('that exists, in this thread', async () => {
    const log = new MemoryLog()
    const rig = newRig({ log, rounds: [ANSWER, ANSWER] })
    await rig.submit({ runId: 'a', threadId: 't' })
    await rig.settled()
    expect(await canContinue(log, { threadId: 't', turnId: 'b' })).toBe(false)
    expect(await canContinue(log, { threadId: 'u', turnId: 'a' })).toBe(false)
    // Created again in another thread.
    await log.deleteTurn('a')
    await rig.submit({ runId: 'a', threadId: 'u' })
    await rig.settled()
    expect(await canContinue(log, { threadId: 't', turnId: 'a' })).toBe(false)
  })

  test('that was not replaced', async () => {
    const log = new MemoryLog()
    const rig = newRig({ log, rounds: [ANSWER, FAILED] })
    await rig.submit({ runId: 'a', threadId: 't' })
    await rig.settled()
    await rig.submit({ runId: 'b', threadId: 't', replaces: 'a' })
    await rig.settled()
    expect(await canContinue(log, { threadId: 't', turnId: 'a' })).toBe(false)
  })
})
