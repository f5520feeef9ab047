/** Secrets that a server is started with: where they may stand, and who is warned of whom. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CONFIG_FILE } from '../../../src/cli/serve/configuration.ts'
import { KNOWN_PROVIDERS } from '../../../src/cli/serve/providers.ts'
import { readSecret } from '../../../src/cli/serve/secrets.ts'
import { parseServeOptions } from '../../../src/cli/serve/serve.ts'
import { withoutQuotes } from '../../../src/cli/text.ts'
import { PROVIDER_KINDS } from '../../../src/providers/provider.ts'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-secrets-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** A file with these bits, whatever the mask of the process is. */
function fileOf(content: string, mode: number, name = 'secret'): string {
  const path = join(folder(), name)
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}

function warnings(args: string[], env: Record<string, string> = {}, cwd = folder()) {
  return parseServeOptions(args, { env, cwd }).warnings
}

const KEY_VARIABLES = PROVIDER_KINDS.map((id) => KNOWN_PROVIDERS[id].keyVariable)
const VARIABLES = [...KEY_VARIABLES, 'TURNSTREAM_STORE', 'TURNSTREAM_STREAM_TOKEN_SECRET']
const REDIS = 'redis://user:hidden-word@127.0.0.1:1'

describe('a secret', () => {
  test.each(VARIABLES)('%s may come from a file', (name) => {
    const path = fileOf('hidden-word\n', 0o600)
    expect(readSecret({ [`${name}_FILE`]: path }, name)).toBe('hidden-word')
  })

  test.each(VARIABLES)('%s is not printed when it is refused', (name) => {
    const both = { [name]: 'hidden-word', [`${name}_FILE`]: fileOf('hidden-word', 0o600) }
    expect(() => readSecret(both, name)).toThrow(`${name} and ${name}_FILE are both set: keep one`)
    expect(() => readSecret(both, name)).not.toThrow('hidden-word')
    expect(() => readSecret({ [`${name}_FILE`]: '/no/such/file' }, name)).toThrow('cannot be read')
  })

  test('in a file that is not JSON is not printed', () => {
    for (const text of [`{"store": "${REDIS}" x}`, `{"store": ${REDIS}}`, `"${REDIS}" {`]) {
      const cwd = folder()
      writeFileSync(join(cwd, CONFIG_FILE), text)
      const read = () => parseServeOptions([], { env: {}, cwd })
      expect(read).toThrow('turnstream.config.json: not JSON')
      expect(read).not.toThrow('hidden')
    }
  })

  test('in a provider URL is refused and not printed', () => {
    const env = {
      OPENAI_COMPATIBLE_BASE_URL: 'http://user:hidden-word@host/v1',
      OPENAI_COMPATIBLE_MODEL: 'm',
    }
    const read = () => warnings([], env)
    expect(read).toThrow('OPENAI_COMPATIBLE_BASE_URL must be an http:// or https:// URL without')
    expect(read).not.toThrow('hidden')
  })
})

describe('startup warnings', () => {
  test.each(VARIABLES.filter((name) => name !== 'TURNSTREAM_STORE'))(
    'for a file of %s that other users can read',
    (name) => {
      const secret = 'hidden-word'.repeat(3)
      const open = fileOf(secret, 0o644)
      expect(warnings([], { [`${name}_FILE`]: open })).toEqual([
        `the file of ${name}_FILE is readable by every user of this machine: chmod o-r ${open}`,
      ])
      for (const mode of [0o600, 0o400, 0o640]) {
        expect(warnings([], { [`${name}_FILE`]: fileOf(secret, mode) })).toEqual([])
      }
    },
  )

  test('for a store file that other users can read', () => {
    const path = fileOf(REDIS, 0o604)
    expect(warnings([], { TURNSTREAM_STORE_FILE: path })).toEqual([
      expect.stringContaining(`chmod o-r ${path}`),
    ])
  })

  test('for a password on the command line', () => {
    expect(warnings(['--store', REDIS])).toEqual([
      'the password of the store on the command line is visible to every user of this machine: ' +
        'set TURNSTREAM_STORE or TURNSTREAM_STORE_FILE',
    ])
    expect(warnings(['--stream-token-secret', 'x'.repeat(32)])).toEqual([
      expect.stringContaining('or TURNSTREAM_STREAM_TOKEN_SECRET_FILE'),
    ])
    expect(warnings(['--store', 'redis://127.0.0.1:1'])).toEqual([])
    expect(warnings([], { TURNSTREAM_STORE: REDIS })).toEqual([])
  })

  test.each([0o644, 0o600])(
    'for a password in a configuration file that others can read (%o)',
    (mode) => {
      const cwd = folder()
      const path = join(cwd, CONFIG_FILE)
      writeFileSync(path, JSON.stringify({ store: REDIS }))
      chmodSync(path, mode)
      const isOpen = mode === 0o644
      expect(warnings([], {}, cwd)).toEqual(isOpen ? [expect.stringContaining(path)] : [])
      expect(warnings([], { TURNSTREAM_STORE: 'memory' }, cwd)).toEqual([])
      writeFileSync(path, JSON.stringify({ streamTokenSecret: 'x'.repeat(32) }))
      const named = [expect.stringContaining('the stream token secret')]
      expect(warnings([], {}, cwd)).toEqual(isOpen ? named : [])
    },
  )

  test.each([
    ['http://llm.internal:8000/v1', 'key', 1],
    ['http://10.0.0.1/v1', 'key', 1],
    ['https://llm.internal/v1', 'key', 0],
    ['http://localhost:11434/v1', 'key', 0],
    ['http://127.0.0.1:11434/v1', 'key', 0],
    ['http://[::1]:11434/v1', 'key', 0],
    ['http://llm.internal:8000/v1', '', 0],
  ])('for a key sent over plain http: %s with key %j', (address, key, count) => {
    const env = {
      OPENAI_COMPATIBLE_BASE_URL: address,
      OPENAI_COMPATIBLE_MODEL: 'm',
      OPENAI_COMPATIBLE_API_KEY: key,
    }
    const warning =
      'the key of openai-compatible is sent over plain http: anyone on the network path can read it'
    expect(warnings([], env)).toEqual(count === 1 ? [warning] : [])
  })

  test.each([
    [{ baseUrl: 'http://10.0.0.1/v1' }, 'key', 1],
    [{ baseUrl: 'http://10.0.0.1/v1' }, '', 0],
    [{ baseUrl: 'http://10.0.0.1/v1', keyVariable: null }, 'key', 0],
    [{ baseUrl: 'http://10.0.0.1/v1', login: 'chatgpt' }, '', 1],
    [{ baseUrl: 'https://10.0.0.1/v1' }, 'key', 0],
    [{}, 'key', 0],
  ])('for a key that codex sends over plain http: %j with key %j', (codex, key, count) => {
    const cwd = folder()
    writeFileSync(join(cwd, CONFIG_FILE), JSON.stringify({ codex }))
    const warning =
      'the key of codex is sent over plain http: anyone on the network path can read it'
    expect(warnings([], { OPENAI_API_KEY: key }, cwd)).toEqual(count === 1 ? [warning] : [])
  })

  test('for the file of the key of codex that others can read', () => {
    const cwd = folder()
    const codex = { keyVariable: 'VENDOR_KEY' }
    writeFileSync(join(cwd, CONFIG_FILE), JSON.stringify({ codex }))
    const path = fileOf('hidden-word', 0o644)
    expect(warnings([], { VENDOR_KEY_FILE: path }, cwd)).toEqual([
      expect.stringContaining(`chmod o-r ${path}`),
    ])
  })

  test('for a keys file that others can change', () => {
    const path = fileOf('', 0o646)
    expect(warnings(['--keys-file', path])).toEqual([
      `the keys file is writable by every user of this machine: chmod o-w ${path}`,
    ])
    expect(warnings(['--keys-file', fileOf('', 0o644)])).toEqual([])
  })

  test('none for a file that cannot be checked', () => {
    expect(warnings(['--keys-file', join(fileOf('', 0o600), 'keys')])).toEqual([])
  })

  test('for a keys file set in the configuration', () => {
    const cwd = folder()
    const providers = { gemini: { baseUrl: 'http://proxy.example' } }
    writeFileSync(join(cwd, CONFIG_FILE), JSON.stringify({ providers }))
    expect(warnings([], { GEMINI_API_KEY: 'key' }, cwd)).toEqual([
      expect.stringContaining('the key of gemini'),
    ])
  })

  test('none by default', () => {
    expect(warnings([])).toEqual([])
  })
})

test.each([
  ['Unexpected token, "a" b "c" here', 'Unexpected token, … here'],
  ["it's one mark", "it's one mark"],
  ['none', 'none'],
  ['"two\nlines"', '…'],
])('the part that %j quotes is removed', (text, rest) => {
  expect(withoutQuotes(text)).toBe(rest)
})

test('warns about a store directory only when every user can enter it', () => {
  const cwd = folder()
  const data = join(cwd, 'data')
  expect(warnings(['--store', 'data'], {}, cwd)).toEqual([])
  mkdirSync(data)
  chmodSync(data, 0o755)
  expect(warnings(['--store', 'data'], {}, cwd)).toEqual([
    `the store directory is accessible to every user of this machine: chmod 700 ${data}`,
  ])
  chmodSync(data, 0o750)
  expect(warnings(['--store', 'data'], {}, cwd)).toEqual([])
})
