import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import type { Caller } from '../../../src/server/auth/authenticate.ts'
import { LimitedError } from '../../../src/server/errors.ts'
import { type GatewayLimits, KeyLimits } from '../../../src/server/limits/key-limits.ts'
import { UNLIMITED } from '../unlimited.ts'

const ONE: Caller = { tenant: 'acme', key: 'one' }
const OTHER: Caller = { tenant: 'acme', key: 'other' }

function newLimits(limits: Partial<GatewayLimits> = {}) {
  const clock = fakeClock(1_000_000)
  return { clock, limits: new KeyLimits({ ...UNLIMITED, ...limits }, clock) }
}

/** The code and the seconds of a refusal, or 'admitted'. */
function outcome(ask: () => unknown): string {
  try {
    ask()
    return 'admitted'
  } catch (error) {
    if (!(error instanceof LimitedError)) throw error
    return `${error.code} ${error.retryAfterS}`
  }
}

describe('the submits of a key', () => {
  test('are admitted up to the limit, and again when the first is a minute old, to the ms', async () => {
    const { clock, limits } = newLimits({ submitsPerMinute: 2 })
    const submit = () => outcome(() => limits.admitTurn(ONE)())
    expect([submit(), submit(), submit()]).toEqual([
      ...['admitted', 'admitted', 'SUBMITS_LIMITED 60'],
    ])
    await clock.advance(59_000)
    expect(submit()).toBe('SUBMITS_LIMITED 1')
    await clock.advance(999)
    expect(submit()).toBe('SUBMITS_LIMITED 1')
    await clock.advance(1)
    expect(submit()).toBe('admitted')
  })

  test('get a retry-after in whole seconds, rounded up', async () => {
    const { clock, limits } = newLimits({ submitsPerMinute: 1 })
    limits.admitTurn(ONE)
    for (const [passed, told] of [
      [1, 60],
      [998, 60],
      [1, 59],
      [57_500, 2],
    ] as const) {
      await clock.advance(passed)
      expect(outcome(() => limits.admitTurn(ONE))).toBe(`SUBMITS_LIMITED ${told}`)
    }
  })

  test('do not count when the running turns limit refused them', async () => {
    const { clock, limits } = newLimits({ submitsPerMinute: 2, maxRunningTurns: 1 })
    const leave = limits.admitTurn(ONE)
    await clock.advance(30_000)
    for (let each = 0; each < 10; each++) {
      expect(outcome(() => limits.admitTurn(ONE))).toBe('TURNS_LIMITED 5')
    }
    leave()
    limits.admitTurn(ONE)
    expect(outcome(() => limits.admitTurn(ONE))).toBe('SUBMITS_LIMITED 30')
  })
})

describe('the running turns of a key', () => {
  test('are admitted up to the limit, and again for each that ends', () => {
    const { limits } = newLimits({ maxRunningTurns: 2 })
    const leave = [limits.admitTurn(ONE), limits.admitTurn(ONE)]
    expect(outcome(() => limits.admitTurn(ONE))).toBe('TURNS_LIMITED 5')
    leave[0]?.()
    expect(outcome(() => limits.admitTurn(ONE))).toBe('admitted')
    expect(outcome(() => limits.admitTurn(ONE))).toBe('TURNS_LIMITED 5')
  })

  test('release their slot once, however often they end', () => {
    const { limits } = newLimits({ maxRunningTurns: 2 })
    const leave = limits.admitTurn(ONE)
    limits.admitTurn(ONE)
    leave()
    leave()
    limits.admitTurn(ONE)
    expect(outcome(() => limits.admitTurn(ONE))).toBe('TURNS_LIMITED 5')
  })
})

describe('the open streams of a key', () => {
  test('are admitted up to the limit, and again for each that closes', () => {
    const { limits } = newLimits({ maxOpenStreams: 1 })
    const slot = limits.takeStream(ONE)
    expect(outcome(() => limits.takeStream(ONE))).toBe('STREAMS_LIMITED 5')
    slot.free()
    slot.free()
    expect(outcome(() => limits.takeStream(ONE))).toBe('admitted')
    expect(outcome(() => limits.takeStream(ONE))).toBe('STREAMS_LIMITED 5')
  })
})

describe('keys', () => {
  const some = { submitsPerMinute: 1, maxRunningTurns: 1, maxOpenStreams: 1 }
  const OTHERS: Record<string, Caller> = {
    'another key of the tenant': OTHER,
    'a key of the same name of another tenant': { tenant: 'zeta', key: 'one' },
    'names that would be the same if they were only put together': { tenant: 'acm', key: 'eone' },
  }

  test.each(Object.entries(OTHERS))('are independent: %s', (_name, other) => {
    const { limits } = newLimits(some)
    limits.admitTurn(ONE)
    limits.takeStream(ONE)
    expect(outcome(() => limits.admitTurn(ONE))).toBe('SUBMITS_LIMITED 60')
    expect(outcome(() => limits.admitTurn(other))).toBe('admitted')
    expect(outcome(() => limits.takeStream(other))).toBe('admitted')
  })

  test('include the requests with a stream token', () => {
    const { limits } = newLimits(some)
    limits.takeStream(ONE)
    const bearer = { ...ONE, grant: { turnId: 't' } }
    expect(outcome(() => limits.takeStream(bearer))).toBe('STREAMS_LIMITED 5')
  })

  test('are forgotten when idle, without a timer', async () => {
    const { clock, limits } = newLimits({ submitsPerMinute: 5 })
    for (let each = 0; each < 1000; each++) limits.admitTurn({ tenant: 'acme', key: `${each}` })()
    const leave = limits.admitTurn({ tenant: 'acme', key: 'running' })
    const slot = limits.takeStream({ tenant: 'acme', key: 'streaming' })
    expect(limits.size).toBe(1002)
    expect(clock.pending()).toBe(0)
    await clock.advance(30_000)
    limits.admitTurn({ tenant: 'acme', key: 'recent' })()
    await clock.advance(30_000)
    limits.takeStream(OTHER).free()
    expect(limits.size).toBe(4)
    leave()
    slot.free()
    await clock.advance(60_000)
    limits.takeStream({ tenant: 'acme', key: 'new' })
    expect(limits.size).toBe(1)
  })

  test('have their full limit, and no more, when they return', async () => {
    const { clock, limits } = newLimits({ submitsPerMinute: 2, maxRunningTurns: 1 })
    limits.admitTurn(ONE)()
    await clock.advance(60_000)
    limits.admitTurn(OTHER)
    expect(limits.size).toBe(1)
    limits.admitTurn(ONE)()
    limits.admitTurn(ONE)()
    expect(outcome(() => limits.admitTurn(ONE))).toBe('SUBMITS_LIMITED 60')
  })

  test('are forgotten even after the clock was set back', async () => {
    let now = 1_000_000
    const limits = new KeyLimits({}, { now: () => now, after: () => () => {} })
    limits.takeStream(ONE).free()
    now = 0
    limits.takeStream(OTHER)
    expect(limits.size).toBe(1)
  })
})

describe('limits', () => {
  test('have defaults', () => {
    const limits = new KeyLimits({}, fakeClock())
    const leave = Array.from({ length: 10 }, () => limits.admitTurn(ONE))
    expect(outcome(() => limits.admitTurn(ONE))).toBe('TURNS_LIMITED 5')
    for (const each of leave) each()
    for (let each = 10; each < 60; each++) limits.admitTurn(ONE)()
    expect(outcome(() => limits.admitTurn(ONE))).toBe('SUBMITS_LIMITED 60')
    for (let each = 0; each < 200; each++) limits.takeStream(ONE)
    expect(outcome(() => limits.takeStream(ONE))).toBe('STREAMS_LIMITED 5')
  })

  test('that are infinite are disabled', () => {
    const { limits } = newLimits()
    for (let each = 0; each < 1000; each++) {
      limits.admitTurn(ONE)
      limits.takeStream(ONE)
    }
    expect(limits.size).toBe(1)
  })

  test.each([0, -1, 1.5, Number.NaN, -Infinity])('cannot be %s', (value) => {
    const clock = fakeClock()
    for (const name of ['submitsPerMinute', 'maxRunningTurns', 'maxOpenStreams']) {
      expect(() => new KeyLimits({ [name]: value }, clock)).toThrow(
        `${name} must be an integer from 1, or Infinity for no limit, not ${value}`,
      )
    }
  })
})

describe('the large bodies of a key', () => {
  function reader(limits: KeyLimits) {
    const started: string[] = []
    const finish = new Map<string, () => void>()
    const read = (caller: Caller, name: string) =>
      limits.readBody(caller, () => {
        started.push(name)
        return new Promise<void>((resolve) => void finish.set(name, resolve))
      })
    return { started, finish, read }
  }

  test('are read four at a time, without delaying another key', async () => {
    const { limits } = newLimits()
    const { started, finish, read } = reader(limits)
    const reads = ['1', '2', '3', '4', '5', '6'].map((name) => read(ONE, name))
    const other = read(OTHER, 'other')
    await expect.poll(() => started).toEqual(['1', '2', '3', '4', 'other'])
    finish.get('2')?.()
    await reads[1]
    await expect.poll(() => started.at(-1)).toBe('5')
    for (const name of ['1', '3', '4', '5', 'other']) finish.get(name)?.()
    await expect.poll(() => started.at(-1)).toBe('6')
    finish.get('6')?.()
    await Promise.all([...reads, other])
  })

  test('let others pass once when they are slow to arrive', async () => {
    const { clock, limits } = newLimits()
    const { started, finish, read } = reader(limits)
    const reads = ['1', '2', '3', '4', '5', '6', '7', '8', '9'].map((name) => read(ONE, name))
    await clock.advance(99)
    expect(started).toEqual(['1', '2', '3', '4'])
    await clock.advance(1)
    expect(started).toEqual(['1', '2', '3', '4', '5', '6', '7', '8'])
    finish.get('1')?.()
    await reads[0]
    expect(started).toHaveLength(8)
    finish.get('8')?.()
    await reads[7]
    await expect.poll(() => started.at(-1)).toBe('9')
    for (const go of finish.values()) go()
    await Promise.all(reads)
    expect(clock.pending()).toBe(0)
  })
})
