import { describe, expect, test } from 'vitest'
import {
  linesOfKeysFile,
  MAX_KEYS_FILE_CHARS,
  parseKeysFile,
  sha256Of,
} from '../../../src/server/auth/key-ring.ts'

const A = sha256Of('a')
const B = sha256Of('b')
const web = { tenant: 'acme', name: 'web', sha256: A }

describe('a keys file', () => {
  test.each([
    ['nothing', '', []],
    ['blank lines', '\n \n\t\n', []],
    ['a key', `acme:web:${A}`, [web]],
    ['a key and a line end', `acme:web:${A}\n`, [web]],
    [
      'line ends of Windows',
      `acme:web:${A}\r\nacme:ci:${B}\r\n`,
      [web, { ...web, name: 'ci', sha256: B }],
    ],
    ['the mark of an editor', `\uFEFFacme:web:${A}\n`, [web]],
    ['the mark before a comment', `\uFEFF# ours\nacme:web:${A}\n`, [web]],
    ['comments', `# a\n  # acme:ci:${B}\nacme:web:${A}\n#`, [web]],
    ['white space around', `  acme:web:${A}\t\n`, [web]],
    ['a hash in capitals', `acme:web:${A.toUpperCase()}`, [web]],
    [
      'the same name of two tenants',
      `acme:web:${A}\nb:web:${B}`,
      [web, { tenant: 'b', name: 'web', sha256: B }],
    ],
    [
      'names that are names elsewhere',
      `constructor:toString:${A}`,
      [{ tenant: 'constructor', name: 'toString', sha256: A }],
    ],
  ])('may contain %s', (_name, text, keys) => {
    expect(parseKeysFile(text)).toEqual(keys)
  })

  const SECRET = 'ts_somebody-put-the-key-itself-here'
  test.each([
    ['a key as it is', SECRET, 'line 1 is not tenant:name:sha256hex'],
    ['only a tenant and a name', 'acme:web', 'line 1 is not tenant:name:sha256hex'],
    ['no hash', 'acme:web:', 'line 1 is not tenant:name:sha256hex'],
    ['a fourth part', `acme:web:${A}:x`, 'line 1 is not tenant:name:sha256hex'],
    [
      'a comment behind a key',
      `acme:web:${A} # ours`,
      'line 1 does not end with 64 hexadecimal digits',
    ],
    [
      'the key for its hash',
      `# a\n\nacme:web:${SECRET}`,
      'line 3 does not end with 64 hexadecimal digits',
    ],
    ['half a hash', `acme:web:${A.slice(1)}`, 'line 1 does not end with 64 hexadecimal digits'],
    ['a digit too many', `acme:web:${A}0`, 'line 1 does not end with 64 hexadecimal digits'],
    ['no tenant', `:web:${A}`, 'line 1 has an invalid tenant'],
    ['a tenant in capitals', `Acme:web:${A}`, 'line 1 has an invalid tenant'],
    ['a tenant with a space', `ac me:web:${A}`, 'line 1 has an invalid tenant'],
    ['__proto__', `__proto__:web:${A}`, 'line 1 has an invalid tenant'],
    ['no name', `acme::${A}`, 'line 1 has an invalid key name'],
    ['a long name', `acme:${'x'.repeat(65)}:${A}`, 'line 1 has an invalid key name'],
    ['a name twice', `acme:web:${A}\n# a\nacme:web:${B}`, 'line 3 repeats the name of line 1'],
    ['a key twice', `acme:web:${A}\nb:web:${A.toUpperCase()}`, 'line 2 repeats the key of line 1'],
    ['NUL', `acme:web\0:${A}`, 'line 1 has an invalid key name'],
    ['too much text', `#${'x'.repeat(MAX_KEYS_FILE_CHARS)}`, 'larger than 1048576'],
  ])(
    'may not contain %s, and the error names the line without its content',
    (_name, text, reason) => {
      let message = ''
      try {
        parseKeysFile(text)
      } catch (error) {
        expect(error).toMatchObject({ code: 'KEYS_FILE_INVALID' })
        message = (error as Error).message
      }
      expect(message).toContain(reason)
      for (const part of [SECRET, A, B, 'acme', 'web', '__proto__', 'x'.repeat(65)]) {
        expect(message.toLowerCase()).not.toContain(part.toLowerCase())
      }
    },
  )

  test('of a thousand keys is parsed', () => {
    const lines = Array.from(
      { length: 1000 },
      (_, index) => `acme:k${index}:${sha256Of(`${index}`)}`,
    )
    expect(parseKeysFile(lines.join('\n'))).toHaveLength(1000)
  })

  test('is restored exactly from its lines', () => {
    const text = `\uFEFF# ours\r\n\r\nacme:web:${A.toUpperCase()}\r\n  acme:ci:${B}`
    const lines = linesOfKeysFile(text)
    expect(lines.map((line) => line.text).join('\n')).toBe(text)
    expect(lines.map(({ key }) => key?.name)).toEqual([undefined, undefined, 'web', 'ci'])
  })
})
