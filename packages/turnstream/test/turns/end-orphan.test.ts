import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { type FakeClock, fakeClock } from '../../../conformance/src/index.ts'
import { appendTo } from '../../../conformance/src/turn-log/append.ts'
import type { StreamEvent, StreamOutput } from '../../../core/src/index.ts'
import type { LogName, LogRecord, OutputRecord, TurnLog } from '../../../core/src/log/turn-log.ts'
import {
  call,
  cancel,
  delta,
  done,
  fail,
  finish,
  open,
  output,
  responseDone,
  start,
  TURN_ID,
  thought,
  usage,
} from '../../../core/test/processor/events.ts'
import { randomTurn } from '../../../core/test/processor/turns.ts'
import { endOrphan } from '../../src/server.ts'
import { HookedLog } from '../log/hooked-log.ts'
import { Death, mortalLog } from './mortal-log.ts'
import { type Cut, cutsOf, lastOutputs, type Recording, recordTurn, writeCut } from './recording.ts'
import { checkSettled, checkSnapshotSettled, settled, terminalsIn } from './whole-turn.ts'

const LEASE_MS = 1000
const forever = new AbortController().signal

/** A turn with everything that can happen to an item, watched by a processor that shows much. */
const EVENTS: StreamEvent[] = [
  start(),
  open('turn-1-user-prompt', { origin: 'user' }),
  done('turn-1-user-prompt', 'What is in the file?', 'user'),
  open('thought', { item_type: 'reasoning' }),
  delta('thought', 'The file must be '),
  delta('thought', 'read first.'),
  open('gone'),
  delta('gone', 'Let me see what I can do about '),
  thought('thought', 'The file must be read first.'),
  usage(10, 5),
  cancel('gone', 'attempt_reset'),
  open('call', { item_type: 'function_call', name: 'read_file', call_id: 'c1' }),
  delta('call', '{"path":"a'),
  delta('call', '.txt"}'),
  call('call', 'c1', '{"path":"a.txt"}'),
  output('result', 'c1', '{"text":"nothing"}'),
  open('half'),
  delta('half', 'This answer broke off in the middle of '),
  fail('half', 'BROKEN', 'why'),
  open('never-shown'),
  finish('never-shown', { type: 'cancelled', id: 'never-shown' }),
  open('answer'),
  delta('answer', 'The file is empty, '),
  delta('answer', 'as far as I can see, '),
  delta('answer', 'and so is the folder.'),
  open('left-open'),
  delta('left-open', 'One more thing, before you go'),
  responseDone(),
]
const PAUSES = [0, 0, 0, 1200, 0]
const RECORDING = await recordTurn(EVENTS, { batchGradient: [2], pauses: PAUSES })

interface Orphan {
  log: HookedLog
  clock: FakeClock
  /** Every record of `processed`, also those that were superseded. */
  shown: string[]
}

async function orphan(recording: Recording, cut: Cut): Promise<Orphan> {
  const clock = fakeClock(1_000_000)
  const log = new HookedLog({ clock })
  await writeCut(log, recording, cut, LEASE_MS)
  const shown = recording.outputs.slice(0, cut.outputs).map(({ data }) => data)
  const append = log.append.bind(log)
  log.append = async (lease, name, records, options) => {
    const offset = await append(lease, name, records, options)
    if (name === 'processed') shown.push(...records.map(({ data }) => data))
    return offset
  }
  await clock.advance(LEASE_MS)
  return { log, clock, shown }
}

function options(clock: FakeClock, owner = 'another') {
  return { owner, leaseMs: LEASE_MS, clock }
}

async function readAll(log: TurnLog, name: LogName, after = '0-0'): Promise<LogRecord[]> {
  const records: LogRecord[] = []
  for await (const record of log.tail(TURN_ID, name, after, forever)) {
    if ('resync' in record) throw new Error(`resync: ${record.resync}`)
    records.push(record)
  }
  return records
}

async function checkEnded({ log, shown }: Orphan, recording: Recording, cut: Cut): Promise<void> {
  const events = (await readAll(log, 'events')).map(({ data }) => data)
  const wasSealed = cut.events === recording.events.length
  expect(events.slice(0, cut.events)).toEqual(recording.events.slice(0, cut.events))
  if (wasSealed) expect(events).toHaveLength(cut.events)
  else checkSettled(events)
  expect(terminalsIn(events)).toHaveLength(1)
  expect(terminalsIn(events.slice(-1))).toHaveLength(1)

  const { records, sealed } = await log.snapshot(TURN_ID)
  expect(sealed).toBe(true)
  const state = records.map(({ data }) => data)
  expect(terminalsIn(state)).toHaveLength(1)
  expect(terminalsIn(state.slice(-1))).toHaveLength(1)
  const shownBefore = new Set(
    recording.outputs.slice(0, cut.outputs).map(({ data }) => JSON.parse(data).itemId as string),
  )
  const expected = await lastOutputs(events)
  for (const [key, last] of expected) {
    const isText = last.type === 'message' || last.type === 'thinking'
    const isCancelled = isText && last.errorCode === 'ITEM_CANCELLED'
    if (isCancelled && !shownBefore.has(key)) expected.delete(key)
  }
  const found = records.map(({ key, data }) => [key, settled(JSON.parse(data))])
  expect(new Map(found as [string, StreamOutput][])).toEqual(
    new Map([...expected].map(([key, last]) => [key, settled(last)])),
  )
  if (!wasSealed) checkSnapshotSettled(state)
  checkGrowth(shown)
}

/** What a reader who was there all the time has seen. */
function checkGrowth(shown: readonly string[]): void {
  const latest = new Map<string, { status: string; content: string }>()
  expect(terminalsIn(shown)).toHaveLength(1)
  for (const [index, text] of shown.entries()) {
    const { type, itemId, status, content } = JSON.parse(text) as Record<string, string>
    if (itemId === undefined || content === undefined || status === undefined) {
      if (type === 'turn_started') expect(index).toBe(0)
      continue
    }
    const before = latest.get(itemId)
    if (status === 'create') expect(before).toBeUndefined()
    if (status === 'update') expect(before).toBeDefined()
    if (before !== undefined) {
      expect(before.status).not.toBe('complete')
      if (status !== 'complete') expect(content.startsWith(before.content)).toBe(true)
    }
    latest.set(itemId, { status, content })
  }
}

// The store and the clock are fast, but there are many ways to die.
describe('endOrphan', { timeout: 120_000 }, () => {
  test('L5 ends a turn correctly, wherever its owner stopped', async () => {
    const cuts = cutsOf(RECORDING)
    expect(cuts.length).toBeGreaterThan(200)
    for (const cut of cuts) {
      const left = await orphan(RECORDING, cut)
      expect(await endOrphan(left.log, TURN_ID, options(left.clock))).toBe('ended')
      await checkEnded(left, RECORDING, cut)
    }
  })

  test('L5 ends any turn correctly, wherever its owner stopped', async () => {
    const pauses = fc.array(fc.constantFrom(0, 0, 0, 1500), { minLength: 1, maxLength: 20 })
    const gradient = fc.constantFrom([], [1], [10, 10, 20])
    await fc.assert(
      fc.asyncProperty(randomTurn, pauses, gradient, fc.nat(), async (turn, pauses, steps, at) => {
        const recording = await recordTurn(turn.events, { pauses, batchGradient: steps })
        const cuts = cutsOf(recording)
        const cut = cuts[at % cuts.length]!
        const left = await orphan(recording, cut)
        expect(await endOrphan(left.log, TURN_ID, options(left.clock))).toBe('ended')
        await checkEnded(left, recording, cut)
      }),
      { numRuns: caseCount(300) },
    )
  })

  test('L5 a claimer may die at any of its calls: the next one ends the turn, once', async () => {
    const all = cutsOf(RECORDING)
    const step = Math.round(all.length / caseCount(all.length / 7))
    const cuts = all.filter((_, index) => index % step === 0)
    let deaths = 0
    for (const cut of cuts) {
      for (const reaches of [false, true]) {
        for (let at = 1, isDead = true; isDead; at += 1) {
          const left = await orphan(RECORDING, cut)
          const mortal = mortalLog(left.log, at, reaches)
          const result = await endOrphan(mortal, TURN_ID, options(left.clock)).catch(
            (error: unknown) => error,
          )
          isDead = result instanceof Death
          deaths += Number(isDead)
          await left.clock.advance(LEASE_MS)
          const next = await endOrphan(left.log, TURN_ID, options(left.clock, 'a third'))
          expect(['ended', 'sealed']).toContain(next)
          await checkEnded(left, RECORDING, cut)
        }
      }
    }
    expect(deaths).toBeGreaterThan(cuts.length * 10)
  })

  test('L5 one of several concurrent claimers ends the turn', async () => {
    for (const cut of cutsOf(RECORDING).filter((_, index) => index % 7 === 0)) {
      const left = await orphan(RECORDING, cut)
      const results = await Promise.all(
        ['b', 'c', 'd'].map((owner) => endOrphan(left.log, TURN_ID, options(left.clock, owner))),
      )
      expect(results.filter((result) => result === 'ended')).toHaveLength(1)
      await checkEnded(left, RECORDING, cut)
    }
  })

  test('waiting readers of both logs see the end and finish', async () => {
    for (const cut of cutsOf(RECORDING).filter((_, index) => index % 7 === 0)) {
      const { log, clock } = await orphan(RECORDING, cut)
      const waiting = [readAll(log, 'events'), readAll(log, 'processed')]
      await clock.advance(0)
      await endOrphan(log, TURN_ID, options(clock))
      const [events, outputs] = await Promise.all(waiting)
      expect(events).toEqual(await readAll(log, 'events'))
      expect(terminalsIn(outputs!.map(({ data }) => data).slice(-1))).toHaveLength(1)
      const latest = new Map(outputs!.map((record) => [(record as OutputRecord).key, record]))
      const { records } = await log.snapshot(TURN_ID)
      expect(new Map(records.map((record) => [record.key, record]))).toEqual(latest)
    }
  })

  test('the former owner can no longer write', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    const lease = await writeCut(log, RECORDING, { events: 5, outputs: 1 }, LEASE_MS)
    await clock.advance(LEASE_MS)
    await endOrphan(log, TURN_ID, options(clock))
    const late = appendTo(log, lease, 'events', [{ seq: 6, data: RECORDING.events[5]! }])
    await expect(late).rejects.toMatchObject({ code: 'LEASE_LOST' })
  })

  test('does not touch a turn with a valid lease, or a sealed one', async () => {
    const clock = fakeClock()
    const log = new HookedLog({ clock })
    await writeCut(log, RECORDING, { events: 5, outputs: 1 }, LEASE_MS)
    await clock.advance(LEASE_MS - 1)
    expect(await endOrphan(log, TURN_ID, options(clock))).toBe('held')
    await clock.advance(1)
    expect(await endOrphan(log, TURN_ID, options(clock))).toBe('ended')
    await clock.advance(LEASE_MS)
    expect(await endOrphan(log, TURN_ID, options(clock))).toBe('sealed')
    expect((await log.getTurn(TURN_ID))?.epoch).toBe(2)
  })

  test('passes on store errors', async () => {
    const log = new HookedLog()
    const result = endOrphan(log, TURN_ID, { owner: 'another', leaseMs: LEASE_MS })
    await expect(result).rejects.toMatchObject({ code: 'TURN_UNKNOWN' })
  })
})
