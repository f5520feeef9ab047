import { createHmac } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { fakeClock } from '../../../../conformance/src/index.ts'
import { StreamTokens, TOKEN_LIFETIME_MS } from '../../../src/server/routes/stream-tokens.ts'

const SECRET = 'a secret of at least 32 characters'
const fingerprint = 'the hash of the key'
const caller = { tenant: 'acme', key: 'web', fingerprint }
const grant = { turnId: 'turn' }

/** The key that made the token is the one that has its name. */
const keys = { fingerprintOf: () => fingerprint }

function hmac(text: string, secret = SECRET): string {
  return createHmac('sha256', secret).update(text).digest('base64url')
}

/** What a payload says of who made it. */
const maker = { tenant: 'acme', key: 'web', mark: hmac(`key ${fingerprint}`).slice(0, 16) }

function setUp() {
  const clock = fakeClock()
  const tokens = new StreamTokens({ secret: SECRET, clock })
  return { clock, tokens, ...tokens.issue(caller, grant) }
}

/** A token with any content, signed as the server would. */
function signed(payload: string, { version = 'v1', secret = SECRET } = {}): string {
  const text = `${version}.${Buffer.from(payload).toString('base64url')}`
  return `${text}.${hmac(text, secret)}`
}

function codeOf(tokens: StreamTokens, token: string): string {
  try {
    tokens.verify(token, keys)
  } catch (error) {
    const { code, message } = error as { code: string; message: string }
    if (token.length > 8) expect(message).not.toContain(token.slice(0, 64))
    return code
  }
  return 'it was taken'
}

describe('a token', () => {
  test.each([
    [{ turnId: 'turn' }],
    [{ threadId: 'thread' }],
    [{ turnId: '__proto__' }],
    [{ threadId: 'a/b?c#ü🧵"\\' }],
    [{ turnId: '🧵'.repeat(100) }],
    [{ turnId: '"'.repeat(200) }],
  ])('for %j names its issuer and its scope', (grant) => {
    const { tokens, clock } = setUp()
    const { token, expiresAt } = tokens.issue(caller, grant)
    expect(tokens.verify(token, keys)).toEqual({ ...caller, grant })
    expect(expiresAt).toBe(clock.now() + 5 * 60_000)
    expect(token).toMatch(/^[\w.-]+$/)
  })

  test('works with names of maximum length', () => {
    const { tokens } = setUp()
    const who = { tenant: 'x'.repeat(64), key: 'x'.repeat(64), fingerprint }
    const what = { threadId: '\u{ffff}'.repeat(200) }
    expect(tokens.verify(tokens.issue(who, what).token, keys)).toEqual({ ...who, grant: what })
  })

  test('is its payload, signed with HMAC-SHA256 over version and payload', () => {
    const { tokens, token, expiresAt } = setUp()
    expect(token).toBe(signed(JSON.stringify({ ...maker, ...grant, expiresAt })))
    expect(tokens.verify(token, keys).grant).toEqual(grant)
  })

  test('is invalid when its key is revoked or replaced under the same name', () => {
    const { tokens, token } = setUp()
    for (const now of [undefined, '', 'the hash of another']) {
      expect(() => tokens.verify(token, { fingerprintOf: () => now })).toThrow(
        expect.objectContaining({ code: 'TOKEN_INVALID' }),
      )
    }
  })

  test('reveals nothing that helps to guess the key', () => {
    const { tokens, token } = setUp()
    const { mark, ...others } = JSON.parse(payloadOf(token)) as Record<string, unknown>
    expect(Object.keys(others)).toEqual(['tenant', 'key', 'turnId', 'expiresAt'])
    const elsewhere = new StreamTokens({ secret: `${SECRET}!`, clock: fakeClock() })
    expect(payloadOf(elsewhere.issue(caller, grant).token)).not.toContain(mark)
    expect(payloadOf(tokens.issue(caller, grant).token)).toContain(mark)
  })

  test('expires after five minutes, to the millisecond', async () => {
    const { tokens, token, clock } = setUp()
    await clock.advance(TOKEN_LIFETIME_MS - 1)
    expect(codeOf(tokens, token)).toBe('it was taken')
    await clock.advance(1)
    expect(codeOf(tokens, token)).toBe('TOKEN_EXPIRED')
    await clock.advance(1_000_000_000)
    expect(codeOf(tokens, token)).toBe('TOKEN_EXPIRED')
  })

  test('is accepted by another instance with the same secret and a skewed clock', async () => {
    const { token, expiresAt } = setUp()
    const behind = fakeClock(expiresAt - 2 * TOKEN_LIFETIME_MS)
    expect(codeOf(new StreamTokens({ secret: SECRET, clock: behind }), token)).toBe('it was taken')
    const far = fakeClock(expiresAt - 2 * TOKEN_LIFETIME_MS - 1)
    expect(codeOf(new StreamTokens({ secret: SECRET, clock: far }), token)).toBe('TOKEN_INVALID')
  })
})

describe('the secret', () => {
  test('is random by default, so other processes refuse the token', () => {
    const clock = fakeClock()
    const [one, two] = [new StreamTokens({ clock }), new StreamTokens({ clock })]
    const { token } = one.issue(caller, grant)
    expect([codeOf(one, token), codeOf(two, token)]).toEqual(['it was taken', 'TOKEN_INVALID'])
  })

  test.each(['', 'short', 'x'.repeat(31)])('%j is too short and not printed', (secret) => {
    expect(() => new StreamTokens({ secret, clock: fakeClock() })).toThrow(
      expect.objectContaining({
        code: 'OPTION_INVALID',
        message: expect.not.stringContaining(secret === '' ? '!' : secret),
      }),
    )
  })

  test('may have 32 characters', () => {
    expect(() => new StreamTokens({ secret: 'x'.repeat(32), clock: fakeClock() })).not.toThrow()
  })
})

describe('a forged token is refused', () => {
  test('with any character changed', () => {
    const { tokens, token } = setUp()
    const others = 'AZaz09-_.+/=%  \0ü'
    for (let at = 0; at < token.length; at++) {
      for (const other of others) {
        if (token[at] === other) continue
        const forged = token.slice(0, at) + other + token.slice(at + 1)
        expect([forged, codeOf(tokens, forged)]).toEqual([forged, 'TOKEN_INVALID'])
      }
    }
  })

  test('with any character missing or repeated', () => {
    const { tokens, token } = setUp()
    for (let at = 0; at < token.length; at++) {
      const shorter = token.slice(0, at) + token.slice(at + 1)
      const longer = token.slice(0, at + 1) + token.slice(at)
      expect([at, codeOf(tokens, shorter)]).toEqual([at, 'TOKEN_INVALID'])
      expect([at, codeOf(tokens, longer)]).toEqual([at, 'TOKEN_INVALID'])
    }
  })

  test('with any encoding of its last bits', () => {
    // 43 characters hold two bits more than 32 bytes: a lenient reader takes four spellings of each.
    const { tokens, token } = setUp()
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const mac = (text: string) => Buffer.from(text.split('.')[2] ?? '', 'base64url')
    const spellings = alphabet.split('').map((last) => token.slice(0, -1) + last)
    const same = spellings.filter((each) => mac(each).equals(mac(token)))
    expect(same.length).toBe(4)
    expect(same.filter((each) => codeOf(tokens, each) === 'it was taken')).toEqual([token])
  })

  const later = 2_000_000_000_000
  const payload = (fields: Record<string, unknown>) =>
    JSON.stringify({ ...maker, turnId: 'turn', expiresAt: later, ...fields })

  test.each<[string, (token: string) => string]>([
    ['nothing', () => ''],
    ['dots', () => '..'],
    ['the name of a version', () => 'v1..'],
    ['another secret', (token) => signed(payloadOf(token), { secret: `${SECRET}!` })],
    ['another version', (token) => signed(payloadOf(token), { version: 'v2' })],
    ['no version', (token) => token.slice(3)],
    ['no signature', (token) => token.slice(0, token.lastIndexOf('.'))],
    ['an empty signature', (token) => token.slice(0, token.lastIndexOf('.') + 1)],
    ['half a signature', (token) => token.slice(0, -21)],
    ['a signature of nothing', (token) => `${token.slice(0, -43)}${'A'.repeat(43)}`],
    ['a fourth part', (token) => `${token}.${token.slice(-43)}`],
    ['another content', (token) => `v1.${base64(payload({}))}.${token.slice(-43)}`],
    [
      'a later end',
      (token) => `v1.${base64(payload({ expiresAt: later + 1 }))}.${token.slice(-43)}`,
    ],
    ['no algorithm', (token) => `none${token.slice(2)}`],
    ['white space around', (token) => ` ${token}`],
    ['a line end', (token) => `${token}\n`],
    ['a megabyte of it', (token) => token + 'A'.repeat(1_000_000)],
    ['a megabyte of dots', () => '.'.repeat(1_000_000)],
    ['a megabyte of content', (token) => `v1.${'A'.repeat(1_000_000)}.${token.slice(-43)}`],
    ['a JWT', () => 'eyJhbGciOiJub25lIn0.eyJ0ZW5hbnQiOiJhY21lIn0.'],
    ['the name of every object', () => '__proto__'],
  ])('with %s', (_name, forge) => {
    const { tokens, token } = setUp()
    expect(codeOf(tokens, forge(token))).toBe('TOKEN_INVALID')
  })

  test.each<[string, string]>([
    ['is not JSON', '{'],
    ['is not an object', '[]'],
    ['is null', 'null'],
    ['is empty', ''],
    ['never expires', payload({ expiresAt: Number.MAX_SAFE_INTEGER })],
    ['lives far too long', payload({ expiresAt: 1_000_000_000 })],
    ['ends at no time', payload({}).replace(`${later}`, '1e999')],
    ['ends at a text', payload({ expiresAt: '9' })],
    ['ends never', JSON.stringify({ ...maker, turnId: 'turn' })],
    ['opens nothing', JSON.stringify({ ...maker, expiresAt: 1000 })],
    ['opens two things', payload({ threadId: 'thread', expiresAt: 1000 })],
    ['opens something else', payload({ runId: 'run', expiresAt: 1000 })],
    ['opens a value that is not a string', payload({ turnId: ['turn'], expiresAt: 1000 })],
    ['has no tenant', payload({ tenant: undefined, expiresAt: 1000 })],
    ['is of no key', payload({ key: undefined, expiresAt: 1000 })],
    ['is of any key of that name', payload({ mark: undefined, expiresAt: 1000 })],
    ['is of another key of that name', payload({ mark: maker.mark.slice(1), expiresAt: 1000 })],
    ['has a tenant that is not a string', payload({ tenant: {}, expiresAt: 1000 })],
    ['has a prototype', `{"__proto__":${payload({ expiresAt: 1000 })}}`],
  ])('that %s, although it is signed', (_name, text) => {
    const tokens = new StreamTokens({ secret: SECRET, clock: fakeClock(0) })
    expect(codeOf(tokens, signed(text))).toBe('TOKEN_INVALID')
  })

  test('while the correct one is accepted', () => {
    const tokens = new StreamTokens({ secret: SECRET, clock: fakeClock(0) })
    expect(codeOf(tokens, signed(payload({ expiresAt: 1000 })))).toBe('it was taken')
  })
})

function payloadOf(token: string): string {
  return Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64url')
}
