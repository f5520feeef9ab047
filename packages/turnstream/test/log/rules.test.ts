import { describe, expect, test } from 'vitest'
import type { LogName } from '../../../core/src/log/turn-log.ts'
import {
  appended,
  checkEpoch,
  claimed,
  countKnown,
  firstState,
  hasRunOut,
  isSealed,
  leaseOf,
  type WriteState,
} from '../../src/log/rules.ts'

const IDS = { turnId: 'turn', runId: 'run', creation: 'first' }
const TURN = { facts: { turnId: 'turn', runId: 'run' }, creation: 'first' }
const FIRST = firstState(100)

function write(state: WriteState, [first, count]: [number, number], isSeal = false) {
  const seal = isSeal ? { response: undefined, outcome: undefined } : undefined
  return { lease: leaseOf(TURN, state, 100), first, count, seal }
}

function after(state: WriteState, log: LogName, head: number, isSeal = false): WriteState {
  return appended(state, log, head, isSeal)
}

function known({ epoch, logs }: WriteState, each: ReturnType<typeof write>): number {
  return countKnown({ epoch, ...logs.events }, each.lease, 'events', each)
}

function code(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('L3 the already stored part of a batch', () => {
  const open = after(FIRST, 'events', 3)
  const sealed = after(FIRST, 'events', 3, true)

  test.each<[string, WriteState, [number, number], number | string]>([
    ['nothing of what comes next', open, [4, 2], 0],
    ['all up to the head', open, [2, 3], 2],
    ['all of a repetition', open, [1, 3], 3],
    ['all of an early repetition', open, [1, 1], 1],
    ['nothing of nothing', open, [4, 0], 0],
    ['is unknown after a gap', open, [5, 1], 'LOG_SEQUENCE_GAP'],
    ['all of a repetition after the seal', sealed, [2, 2], 2],
    ['more is refused after the seal', sealed, [3, 2], 'LOG_SEALED'],
    ['more is refused after the seal, also with a gap', sealed, [9, 1], 'LOG_SEALED'],
  ])('%s', (_what, state, records, expected) => {
    expect(code(() => known(state, write(state, records)))).toEqual(expected)
  })

  test.each<[string, WriteState, [number, number], number | string]>([
    ['with what comes next', open, [4, 1], 0],
    ['with the last record, which is there', open, [2, 2], 2],
    ['with an earlier record', open, [1, 2], 'RECORD_INVALID'],
    ['again', sealed, [3, 1], 1],
    ['again with an earlier record', sealed, [1, 1], 1],
    ['again with more', sealed, [3, 2], 'LOG_SEALED'],
  ])('when the log is sealed %s', (_what, state, records, expected) => {
    expect(code(() => known(state, write(state, records, true)))).toEqual(expected)
  })

  test('is only decided for the newest lease', () => {
    const old = write(open, [4, 1])
    expect(code(() => known(claimed(open, 'turn', 100, 50), old))).toBe('LEASE_LOST')
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

  test('is not changed by deriving another', () => {
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
  ])('until 100 is expired at %d: %s', (now, expected) => {
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

  test('that is claimed continues each log at its end', () => {
    const state = claimed(after(after(FIRST, 'events', 7), 'processed', 2), 'turn', 100, 50)
    const next = { events: 8, processed: 3 }
    expect(leaseOf(TURN, state, 7)).toEqual({ ...IDS, epoch: 2, until: 7, next })
    expect(state.until).toBe(150)
    expect(state.logs.events.epochs.at(-1)).toEqual({ epoch: 2, from: 8 })
    expect(state.logs.processed.epochs.at(-1)).toEqual({ epoch: 2, from: 3 })
  })

  test('is valid until another claim, even after it expired', () => {
    const lease = leaseOf(TURN, FIRST, 100)
    expect(() => checkEpoch(FIRST, lease)).not.toThrow()
    const stolen = claimed(FIRST, 'turn', 100, 50)
    expect(code(() => checkEpoch(stolen, lease))).toBe('LEASE_LOST')
  })
})
