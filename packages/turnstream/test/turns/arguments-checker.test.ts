import { setImmediate as nextTick } from 'node:timers/promises'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ArgumentsChecker } from '../../src/turns/arguments-checker.ts'

/** Takes longer than the universe exists for arguments that do not match. */
const ENDLESS = { properties: { a: { type: 'string', pattern: '^(a+)+$' } } }
const NEVER = { a: `${'a'.repeat(100)}!` }
const SLOW_ANYWAY = { properties: { a: { pattern: '^b+$' } } }

interface Check {
  readonly tenant?: string
  readonly signal?: AbortSignal
}

function newChecker(limitMs = 200, maxWaiting = 100) {
  const checker = new ArgumentsChecker({ limitMs, maxWaiting, idleMs: 50 })
  return (schema: object, args: Record<string, unknown>, options: Check = {}) => {
    const { tenant = 'one', signal = new AbortController().signal } = options
    const found = checker.check({ ...schema }, args, JSON.stringify(args), { tenant, signal })
    return found.then((fault) => fault ?? 'matches')
  }
}

describe('a check that may be expensive', () => {
  test('finds the same as one on the event loop', async () => {
    const check = newChecker(10_000)
    expect(await check(SLOW_ANYWAY, { a: 'bb' })).toBe('matches')
    expect(await check(SLOW_ANYWAY, { a: 'bc' })).toBe('a: String does not match pattern.')
    expect(await check({ properties: { a: { format: 'date' } } }, { a: 'now' })).toBe(
      'a: String does not match format "date".',
    )
  })

  test('ends at its limit, while other work runs', async () => {
    const check = newChecker()
    let isOver = false
    const result = check(ENDLESS, NEVER)
    result.catch(() => {
      isOver = true
    })
    let ticks = 0
    while (!isOver) {
      await nextTick()
      ticks += 1
    }
    await expect(result).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' })
    expect(ticks).toBeGreaterThan(100)
  })

  test('does not disturb the next one', async () => {
    const check = newChecker()
    await expect(check(ENDLESS, NEVER)).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' })
    expect(await check(ENDLESS, { a: 'aa' })).toBe('matches')
  })

  test('of one tenant leaves a thread to the others', async () => {
    const check = newChecker(2000)
    await check(SLOW_ANYWAY, { a: 'b' }, { tenant: 'two' })
    const leaving = new AbortController()
    onTestFinished(() => leaving.abort())
    const order: string[] = []
    const endless = [1, 2, 3].map(() =>
      check(ENDLESS, NEVER, { signal: leaving.signal }).catch(() => order.push('endless')),
    )
    await check(SLOW_ANYWAY, { a: 'b' }, { tenant: 'two' })
    order.push('two')
    leaving.abort()
    await Promise.all(endless)
    expect(order).toEqual(['two', 'endless', 'endless', 'endless'])
  })

  test('is refused when too many of its tenant wait', async () => {
    const check = newChecker(200, 2)
    const results = await Promise.allSettled([1, 2, 3, 4].map(() => check(ENDLESS, NEVER)))
    const reasons = results.map((each) => (each.status === 'rejected' ? String(each.reason) : ''))
    expect(reasons.filter((each) => each.includes('too many calls wait'))).toHaveLength(1)
    expect(reasons.filter((each) => each.includes('timed out'))).toHaveLength(3)
  })

  test('is not started when its turn was stopped', async () => {
    const check = newChecker()
    const stopped = new AbortController()
    const first = check(ENDLESS, NEVER)
    const second = check(ENDLESS, NEVER, { signal: stopped.signal })
    stopped.abort(new Error('stopped'))
    await expect(second).rejects.toThrow('stopped')
    await expect(first).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' })
  })

  test('of references that double at every level ends at its limit', async () => {
    const twice = (name: string) => ({ allOf: [{ $ref: name }, { $ref: name }] })
    const levels = Array.from({ length: 40 }, (_, at) => [`l${at}`, twice(`#/$defs/l${at + 1}`)])
    const $defs = { ...Object.fromEntries(levels), l40: { type: 'object' } }
    const check = newChecker()
    const result = check({ $ref: '#/$defs/l0', $defs }, {})
    await expect(result).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' })
  })

  test('that throws says why', async () => {
    const check = newChecker(10_000)
    const result = check({ properties: { a: { pattern: '(' } } }, { a: '' })
    await expect(result).rejects.toThrow(/Invalid regular expression/)
  })
})
