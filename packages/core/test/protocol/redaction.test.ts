import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { redacting, redactShapes } from '../../src/protocol/redaction.ts'

const GONE = '[redacted]'

describe('a likely secret is removed and its context kept', () => {
  test.each([
    ['our own key', 'the key ts_Abcdef0123456789 is', `the key ${GONE} is`],
    ['our key in a URL', 'next=%2Fa%3Fk%3Dts_Abcdef0123456789', `next=%2Fa%3Fk%3D${GONE}`],
    ['a header', 'authorization: Bearer abc', `authorization: ${GONE}`],
    ['a header in JSON', '{"Authorization":"Basic dXNlcg=="}', `{"Authorization":"${GONE}"}`],
    [
      'a header in JSON in JSON',
      String.raw`{\"x-api-key\":\"abc\"}`,
      String.raw`{\"x-api-key\":\"${GONE}\"}`,
    ],
    ['x-api-key', "x-api-key: 'abc', more", `x-api-key: '${GONE}', more`],
    ['x-goog-api-key', 'x-goog-api-key=abc more', `x-goog-api-key=${GONE} more`],
    ['cookies', 'set-cookie: a=b; c=d\r\nx: y', `set-cookie: ${GONE}\r\nx: y`],
    ['credentials alone', 'with Bearer abcdefgh, no', `with Bearer ${GONE}, no`],
    [
      'a stream token in a URL',
      '/xapi/turns/a?x=1&token=abc#z',
      `/xapi/turns/a?x=1&token=${GONE}#z`,
    ],
    ['a key in a URL', 'https://g/v1?key=abc&alt=sse', `https://g/v1?key=${GONE}&alt=sse`],
    ['a password in JSON', '{"password": "abc"}', `{"password": "${GONE}"}`],
    ['a URL with a user', 'redis://me:p@ss@host:1/0', `redis://${GONE}@host:1/0`],
    ['a URL with only a password', 'to rediss://:pw@h', `to rediss://${GONE}@h`],
    ['an OpenAI key', 'provided: sk-proj-abc_DEF-123456.', `provided: ${GONE}.`],
    ['a key masked with asterisks', 'provided: sk-proj-ab**********wxyz.', `provided: ${GONE}.`],
    ['a key masked with dots', 'provided: sk-...abcd', `provided: ${GONE}`],
    ['another masked key', 'your key: my-k****1234 is', `your key: ${GONE} is`],
    ['a Google key', 'AIzaSyA-0123456789_abcdefghijklmnopqrst', GONE],
    ['a Groq key', 'gsk_0123456789abcdef', GONE],
    [
      'a signed token',
      'with v1.eyJ0IjoiYSIsImV4cCI6MX0.c2lnbmF0dXJlLW9mLWl0 in',
      `with ${GONE} in`,
    ],
  ])('%s', (_name, text, shown) => {
    expect(redactShapes(text)).toBe(shown)
  })

  test.each([
    'counts_of_things and max_ts_offset',
    'Basic authentication failed',
    'authorization is needed',
    'the risk-assessment of a task-force',
    'https://generativelanguage.googleapis.com/v1beta/models/gemini-3.8-flash:streamGenerateContent',
    'connect ECONNREFUSED 127.0.0.1:6379',
    'turn 0f9d6a7e-5b1c-4c52-9d1b-1f7b8a2f0c11 was made',
    'at file:///srv/turnstream/dist/server/gateway.js:10:5',
    '**bold** and ***',
  ])('%j is not a secret', (text) => {
    expect(redactShapes(text)).toBe(text)
  })
})

describe('a known secret is removed in every encoding', () => {
  const secret = 'p"a/s+s wörd\\1'

  test.each([
    ['plain', secret],
    ['in a URL', encodeURIComponent(secret)],
    ['in a URL, in lower case', encodeURIComponent(secret).toLowerCase()],
    ['in a form', encodeURIComponent(secret).replaceAll('%20', '+')],
    ['in JSON', JSON.stringify(secret).slice(1, -1)],
    ['in JSON in JSON', JSON.stringify(JSON.stringify(secret)).slice(3, -3)],
  ])('%s', (_name, written) => {
    expect(redacting([secret])(`before ${written} after`)).toBe(`before ${GONE} after`)
  })

  test.each(['', 'u', 'us', 'user:', 'user::'])('in base64, after %j', (before) => {
    const redact = redacting([secret])
    for (const encoding of ['base64', 'base64url'] as const) {
      const whole = Buffer.from(`${before}${secret}:after`).toString(encoding)
      const said = redact(whole)
      expect(said).toContain(GONE)
      // A letter on either side is left, which it shares with its neighbours.
      const letters = Math.floor((Buffer.byteLength(secret) * 4) / 3) - 2
      expect(said.length - GONE.length).toBeLessThanOrEqual(whole.length - letters)
    }
  })

  test.each<[string[], string, string]>([
    [['pass', 'password'], 'the password', `the ${GONE}`],
    [['$&^.*', 'abcd'], 'a$&^.*b', `a${GONE}b`],
    [['abc', ''], 'abc abc', 'abc abc'],
    [['abcd'], 'abcdabcd', `${GONE}${GONE}`],
    [[], 'nothing to hide', 'nothing to hide'],
  ])('%j in %j', (secrets, text, shown) => {
    expect(redacting(secrets)(text)).toBe(shown)
  })

  test('even with a lone surrogate in it', () => {
    expect(redacting(['abc\ud800def'])('x abc\ud800def y')).toBe(`x ${GONE} y`)
  })
})

describe('a long text', () => {
  const secret = 'the-planted-secret'

  test('is truncated, and a secret at the cut is also removed', () => {
    const redact = redacting([secret])
    // Wherever the cut falls, it falls into one of these.
    const said = redact(`${secret} `.repeat(20_000))
    expect(said.length).toBeLessThan(40_000)
    expect(said.endsWith('…')).toBe(true)
    for (let length = 4; length < secret.length; length++) {
      expect(said).not.toContain(secret.slice(0, length))
    }
  })

  test.each([
    ['nothing', 'a'],
    ['dots', 'a.'],
    ['dashes', 'a-'],
    ['stars', 'a*'],
    ['beginnings of addresses', '://a'],
    ['names of headers', 'authorization: '],
    ['schemes', 'bearer '],
    ['keys', 'sk-'],
    ['parameters', '?token='],
    ['quotes', '"key":"'],
    ['long pieces with dots', `${'a'.repeat(20)}.`],
    ['cookies', 'cookie: a;'],
  ])('of %s is redacted in linear time', (_name, piece) => {
    const redact = redacting([secret])
    const [short, long] = [8, 32].map((kilobytes) => {
      const text = piece.repeat(Math.ceil((kilobytes * 1024) / piece.length))
      redact(text)
      return fastest(() => redact(text))
    })
    // Four times as long: sixteen times the time would be the square. Both are fractions of a second anyway.
    expect(long ?? 0).toBeLessThan(Math.max(10 * (short ?? 0), 100))
  })
})

/** The least of several tries, in milliseconds of this process: what else the machine does does not count. */
function fastest(work: () => void): number {
  const times = Array.from({ length: 7 }, () => {
    const start = process.cpuUsage()
    work()
    return process.cpuUsage(start).user / 1000
  })
  return Math.min(...times)
}

test('never throws, and leaves no secret of some length', () => {
  const secrets = fc.array(fc.string({ minLength: 6, maxLength: 40, unit: 'binary-ascii' }), {
    maxLength: 4,
  })
  fc.assert(
    fc.property(
      secrets,
      fc.array(fc.string({ unit: 'binary-ascii' }), { maxLength: 10 }),
      (known, texts) => {
        const redact = redacting(known)
        const text = texts.join(known[0] ?? '')
        const said = redact(text)
        for (const secret of known) {
          // What is put in its place may look like a part of it.
          if (!GONE.includes(secret)) expect(said.split(GONE).join('\n')).not.toContain(secret)
        }
      },
    ),
  )
})
