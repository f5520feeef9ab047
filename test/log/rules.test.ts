import { describe, expect, test } from 'vitest'
import {
  type Append,
  appended,
  claimed,
  firstState,
  freshRecords,
  hasRunOut,
  isSealed,
  leaseOf,
  renewed,
  type WriteState,
} from '../../src/log/rules.ts'
import type { LogName } from '../../src/log/turn-log.ts'

const IDS = { turnId: 'turn', runId: 'run', creation: 'first' }
const FIRST = firstState(100)

function append(state: WriteState, log: LogName, seqs: number[], seal = false): Append {
  const records = seqs.map((seq) => ({ seq, data: '' }))
  return { lease: leaseOf(IDS, state), log, records, seal }
}

function after(state: WriteState, log: LogName, head: number, seal = false): WriteState {
  return appended(state, append(state, log, [], seal), head)
}

function code(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('L3 what is new of an append', () => {
  const open = after(FIRST, 'events', 3)
  const sealed = after(FIRST, 'events', 3, true)

  test.each<[string, WriteState, number[], number[] | string]>([
    ['is all that comes next', open, [4, 5], [4, 5]],
    ['is what comes after the head', open, [2, 3, 4], [4]],
    ['is nothing of a repetition', open, [1, 2, 3], []],
    ['is nothing of nothing', open, [], []],
    ['is not asked for after a gap', open, [5], 'LOG_SEQUENCE_GAP'],
    ['is nothing of a repetition after the seal', sealed, [2, 3], []],
    ['is refused after the seal', sealed, [3, 4], 'LOG_SEALED'],
    ['is refused after the seal, with a gap, too', sealed, [9], 'LOG_SEALED'],
    ['is refused after the seal, even if it is nothing', sealed, [], 'LOG_SEALED'],
  ])('%s', (_what, state, seqs, expected) => {
    const fresh = code(() => freshRecords(state, append(state, 'events', seqs)))
    expect(Array.isArray(fresh) ? fresh.map(({ seq }) => seq) : fresh).toEqual(expected)
  })

  test('is nobody else’s to say than the newest lease’s', () => {
    const old = append(open, 'events', [4])
    const state = claimed(open, 'turn', 100, 50)
    expect(code(() => freshRecords(state, old))).toBe('LEASE_LOST')
  })
})

describe('a state', () => {
  test('is sealed when both logs are', () => {
    const events = after(FIRST, 'events', 1, true)
    expect([FIRST, events, after(events, 'processed', 1, true)].map(isSealed)).toEqual([
      false,
      false,
      true,
    ])
  })

  test('stays as it is when another comes of it', () => {
    const before = structuredClone(FIRST)
    claimed(after(FIRST, 'events', 2, true), 'turn', 100, 50)
    expect(FIRST).toEqual(before)
  })

  test('stays sealed', () => {
    const sealed = after(FIRST, 'events', 1, true)
    expect(after(sealed, 'events', 1).logs.events.sealed).toBe(true)
  })
})

describe('a lease', () => {
  test.each([
    [99, false],
    [100, true],
    [101, true],
  ])('until 100 has run out at %d: %s', (now, expected) => {
    expect(hasRunOut(FIRST, now)).toBe(expected)
  })

  test.each([
    ['before it has run out', FIRST, 99, 'LEASE_HELD'],
    [
      'of a sealed turn',
      after(after(FIRST, 'events', 1, true), 'processed', 1, true),
      100,
      'LOG_SEALED',
    ],
  ])('cannot be claimed %s', (_what, state, now, expected) => {
    expect(code(() => claimed(state, 'turn', now, 50))).toBe(expected)
  })

  test('that is claimed goes on in each log where it is', () => {
    const state = claimed(after(after(FIRST, 'events', 7), 'processed', 2), 'turn', 100, 50)
    const next = { events: 8, processed: 3 }
    expect(leaseOf(IDS, state)).toEqual({ ...IDS, epoch: 2, until: 150, next })
    expect(state.logs.events.epochs.at(-1)).toEqual({ epoch: 2, from: 8 })
    expect(state.logs.processed.epochs.at(-1)).toEqual({ epoch: 2, from: 3 })
  })

  test('can be renewed until another claims the turn, also after it ran out', () => {
    const lease = leaseOf(IDS, FIRST)
    expect(renewed(FIRST, { lease, now: 99, leaseMs: 50 }).until).toBe(149)
    expect(renewed(FIRST, { lease, now: 100, leaseMs: 50 }).until).toBe(150)
    const stolen = claimed(FIRST, 'turn', 100, 50)
    expect(code(() => renewed(stolen, { lease, now: 120, leaseMs: 50 }))).toBe('LEASE_LOST')
  })
})
