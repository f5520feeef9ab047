import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { UsageError } from '../../../src/cli/command.ts'
import { A, FILE, setUp } from './support.ts'

describe('usage errors', () => {
  const KEY = 'ts_a-key-that-was-put-into-the-wrong-place'
  test.each<[string[], string]>([
    [[], 'keys takes one of add, list, revoke'],
    [['ad'], 'unknown keys action; did you mean add?'],
    [['constructor'], 'unknown keys action'],
    [['add'], 'keys add takes a tenant'],
    [['add', 'acme', 'web', 'more'], 'keys add takes a tenant'],
    [['add', 'Acme'], 'a tenant name has up to 64 lower-case letters'],
    [['add', '__proto__'], 'a tenant name has up to 64 lower-case letters'],
    [['add', 'a:b'], 'a tenant name has up to 64 lower-case letters'],
    [['add', 'a\nb'], 'a tenant name has up to 64 lower-case letters'],
    [['add', 'acme', 'a:b'], 'a key name has up to 64 letters'],
    [['add', 'acme', `${KEY}${KEY}`], 'a key name has up to 64 letters'],
    [['add', 'acme', ''], 'a key name has up to 64 letters'],
    [['revoke'], 'keys revoke takes a tenant and a key name'],
    [['revoke', KEY], 'keys revoke takes a tenant and a key name'],
    [['revoke', 'Acme', 'web'], 'a tenant name has up to 64 lower-case letters'],
    [['list', 'acme'], 'keys list takes no arguments'],
  ])('%j', async (args, message) => {
    const { keys, text } = setUp(`acme:web:${A}\n`)
    const fault = await keys(args).catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(UsageError)
    expect((fault as Error).message).toContain(message)
    expect((fault as Error).message).not.toContain(KEY)
    expect(text()).toBe(`acme:web:${A}\n`)
  })

  test.each([{}, { TURNSTREAM_KEYS_FILE: ' ' }])(
    'no keys file given (%j)',
    async (env: Record<string, string>) => {
      const { keys, cwd } = setUp()
      await expect(keys(['add', 'acme'], env)).rejects.toThrow('no keys file: pass --file')
      expect(readdirSync(cwd)).toEqual([])
    },
  )
})

describe('failures exit with 1 and change nothing', () => {
  test.each<[string, string[], string, string]>([
    ['a name twice', ['add', 'acme', 'web'], `acme:web:${A}\n`, 'acme already has a key named web'],
    ['no such key', ['revoke', 'acme', 'ci'], `acme:web:${A}\n`, 'acme has no key named ci'],
    ['the key of another', ['revoke', 'b', 'web'], `acme:web:${A}\n`, 'b has no key named web'],
    ['a broken file', ['add', 'acme', 'ci'], `acme:web:${A}\nx\n`, 'line 2 is not tenant:name'],
    ['a broken file', ['revoke', 'acme', 'web'], `x\nacme:web:${A}\n`, 'line 1 is not tenant:name'],
    ['a broken file', ['list'], 'secret-word\n', 'line 1 is not tenant:name:sha256hex'],
  ])('%s: %j', async (_name, args, before, message) => {
    const { keys, text, cwd } = setUp(before)
    const { code, out, err } = await keys(args)
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(/^turnstream: [^\n]*\n$/)
    expect(err).toContain(message)
    expect(err).not.toContain('secret-word')
    const asJson = JSON.parse((await keys([...args, '--json'])).out) as {
      error: { message: string }
    }
    expect(asJson.error.message).toContain(message)
    expect([text(), readdirSync(cwd)]).toEqual([before, [FILE]])
  })

  test.each(['list', 'revoke'])('%s of a missing file', async (action) => {
    const { keys, path } = setUp()
    const { code, err } = await keys(action === 'list' ? ['list'] : ['revoke', 'acme', 'web'])
    expect(code).toBe(1)
    expect(err).toMatch(/no such file/)
    expect(existsSync(path)).toBe(false)
  })

  test('a directory, and a missing parent directory', async () => {
    const { keys, cwd } = setUp()
    mkdirSync(join(cwd, 'directory'))
    const there = await keys(['add', 'acme', '--file', 'directory'])
    expect([there.code, there.err]).toEqual([1, expect.stringContaining('not a file')])
    const nowhere = await keys(['add', 'acme', '--file', 'nowhere/keys', '--json'])
    expect(JSON.parse(nowhere.out)).toMatchObject({
      error: {
        code: 'KEYS_FILE_INVALID',
        message: expect.stringContaining('no such file'),
      },
    })
  })

  test('while another command changes the file', async () => {
    const { keys, path, text } = setUp(`acme:web:${A}\n`)
    writeFileSync(`${path}.new`, '')
    const { code, err } = await keys(['add', 'acme', 'ci'])
    expect(code).toBe(1)
    expect(err).toContain(`another command is changing it; if none is running, remove ${path}.new`)
    expect(text()).toBe(`acme:web:${A}\n`)
    expect(existsSync(`${path}.new`)).toBe(true)
    rmSync(`${path}.new`)
    expect((await keys(['add', 'acme', 'ci'])).code).toBe(0)
  })
})
