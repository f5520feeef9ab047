import { timingSafeEqual } from 'node:crypto'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { isKeyName, KeyRing, sha256Of } from '../../../src/server/auth/key-ring.ts'
import { ACME, entry, OTHER } from './support.ts'

vi.mock('node:crypto', async (original) => {
  const real = await original<typeof import('node:crypto')>()
  return { ...real, timingSafeEqual: vi.fn<typeof timingSafeEqual>(real.timingSafeEqual) }
})

const compare = vi.mocked(timingSafeEqual)
beforeEach(() => {
  compare.mockClear()
})

const owner = { tenant: 'acme', name: 'web' }

describe('a key ring', () => {
  test('maps a key to its tenant', () => {
    const ring = new KeyRing([entry(ACME), entry(OTHER, 'umbrella', 'ci')])
    expect(ring.find(ACME)).toEqual(owner)
    expect(ring.find(OTHER)).toEqual({ tenant: 'umbrella', name: 'ci' })
    expect(ring.size).toBe(2)
  })

  test('uses standard SHA-256', () => {
    // printf abc | sha256sum
    const sha256 = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad'
    expect(new KeyRing([{ ...owner, sha256 }]).find('abc')).toEqual(owner)
    expect(new KeyRing([{ ...owner, sha256: sha256.toUpperCase() }]).find('abc')).toEqual(owner)
    expect(sha256Of('abc')).toBe(sha256)
  })

  test('takes keys in plain text', () => {
    const ring = new KeyRing([{ ...owner, key: 'abc' }])
    expect(ring.find('abc')).toEqual(owner)
    expect(ring.fingerprintOf(owner)).toBe(sha256Of('abc'))
    ring.replace([{ ...owner, key: 'def' }, entry(OTHER, 'umbrella', 'ci')])
    expect([ring.find('abc'), ring.find('def')]).toEqual([undefined, owner])
    for (const key of ['', 'two words', 'x'.repeat(513)]) {
      expect(() => new KeyRing([{ ...owner, key }])).toThrow('1 to 512 printable ASCII characters')
    }
  })

  test.each([
    ['nothing', ''],
    ['another', `${ACME}x`],
    ['the beginning of one', ACME.slice(0, -1)],
    ['one in capitals', ACME.toUpperCase()],
    ['one with a space', ` ${ACME}`],
    ['one with a line end', `${ACME}\n`],
    ['its own hash', sha256Of(ACME)],
    ['a name of every object', '__proto__'],
    ['what no header can hold', 'schlüssel'],
  ])('does not know %s', (_name, key) => {
    expect(new KeyRing([entry(ACME), entry(OTHER, 'umbrella')]).find(key)).toBeUndefined()
  })

  test('is empty without keys', () => {
    const ring = new KeyRing([])
    expect([ring.find(ACME), ring.fingerprintOf(owner), ring.size]).toEqual([
      undefined,
      undefined,
      0,
    ])
  })

  test('accepts keys of up to 512 characters and does not hash longer ones', () => {
    const longest = 'x'.repeat(512)
    const ring = new KeyRing([entry(longest), entry(`${longest}x`, 'umbrella')])
    expect(ring.find(longest)).toEqual(owner)
    compare.mockClear()
    expect(ring.find(`${longest}x`)).toBeUndefined()
    expect(ring.find('x'.repeat(1_000_000))).toBeUndefined()
    expect(compare).not.toHaveBeenCalled()
  })

  test('finds keys by tenant and name', () => {
    const ring = new KeyRing([entry(ACME)])
    expect(ring.fingerprintOf(owner)).toBe(sha256Of(ACME))
    for (const [tenant, name] of [
      ['acme', 'Web'],
      ['web', 'acme'],
      ['acme:web', ''],
      ['', 'acme:web'],
    ] as const) {
      expect(ring.fingerprintOf({ tenant, name })).toBeUndefined()
    }
  })
})

describe('replacing all keys', () => {
  test('takes effect immediately for all of them', () => {
    const ring = new KeyRing([entry(ACME)])
    ring.replace([entry(OTHER, 'umbrella')])
    expect([ring.find(ACME), ring.fingerprintOf(owner)]).toEqual([undefined, undefined])
    expect(ring.find(OTHER)?.tenant).toBe('umbrella')
    ring.replace([])
    expect(ring.find(OTHER)).toBeUndefined()
  })

  test('notifies listeners afterwards until they unsubscribe', () => {
    const ring = new KeyRing([entry(ACME)])
    const seen: number[] = []
    const stop = ring.onReplace(() => seen.push(ring.size))
    ring.replace([entry(ACME), entry(OTHER, 'umbrella')])
    expect(() => ring.replace([{ ...entry(ACME), name: '' }])).toThrow('a key needs')
    ring.replace([])
    stop()
    ring.replace([entry(ACME)])
    expect(seen).toEqual([2, 0])
  })

  test.each([
    ['tenant', { tenant: 'Acme', name: 'web', sha256: sha256Of('x') }],
    ['name', { tenant: 'acme', name: 'a:b', sha256: sha256Of('x') }],
    ['hash', { tenant: 'acme', name: 'b', sha256: 'x' }],
  ])('with an invalid %s is refused and changes nothing', (_what, bad) => {
    const ring = new KeyRing([entry(ACME)])
    expect(() => ring.replace([entry(OTHER), bad])).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    )
    expect([ring.find(ACME), ring.find(OTHER), ring.size]).toEqual([owner, undefined, 1])
  })
})

describe('a key name', () => {
  test.each(['web', 'Web', '2026-04.a_b', 'x'.repeat(64), '0'])('%s is valid', (name) => {
    expect(isKeyName(name)).toBe(true)
  })

  test.each(['', '.', '-a', '_a', 'a b', 'a:b', 'a\n', 'ä', 'x'.repeat(65), '../a'])(
    '%j is invalid',
    (name) => {
      expect(isKeyName(name)).toBe(false)
    },
  )
})

describe('a comparison', () => {
  const COUNT = 40
  const keys = Array.from({ length: COUNT }, (_, index) => `ts_key-number-${index}`)
  const ring = new KeyRing(keys.map((key, index) => entry(key, 'acme', `k${index}`)))

  /** How many bytes were compared with how many, in order. */
  function workOf(key: string): number[][] {
    compare.mockClear()
    ring.find(key)
    return compare.mock.calls.map(([a, b]) => [a.byteLength, b.byteLength])
  }

  const whole = Array.from({ length: COUNT }, () => [32, 32])

  test.each([
    ['the first key', keys[0]],
    ['one in the middle', keys[COUNT / 2]],
    ['the last key', keys[COUNT - 1]],
    ['no key', 'ts_no-such-key'],
    ['almost a key', `${keys[0]}x`],
    ['one character', 'x'],
    ['as many as there may be', 'x'.repeat(512)],
  ])('covers every byte of every hash, for %s', (_name, key = '') => {
    expect(workOf(key)).toEqual(whole)
  })

  test('is constant-time and uses the hash of the candidate', () => {
    compare.mockClear()
    ring.find('a-guess')
    for (const [, given] of compare.mock.calls) {
      expect(Buffer.from(given as Buffer).toString('hex')).toBe(sha256Of('a-guess'))
    }
    expect(new Set(compare.mock.calls.map(([kept]) => kept)).size).toBe(COUNT)
  })
})
