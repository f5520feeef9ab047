import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { UsageError } from '../../../src/cli/command.ts'
import { KeyRing, parseKeysFile, sha256Of } from '../../../src/server/auth/key-ring.ts'
import { A, FILE, setUp } from './support.ts'

describe('keys add', () => {
  test('prints a new key once and stores only its hash', async () => {
    const { keys, text, path } = setUp()
    const { code, out, err } = await keys(['add', 'acme', 'web'])
    expect(code).toBe(0)
    expect(out).toMatch(/^ts_[\w-]{43}\n$/)
    const key = out.trim()
    expect(text()).toBe(`acme:web:${sha256Of(key)}\n`)
    expect(new KeyRing(parseKeysFile(text())).find(key)).toEqual({ tenant: 'acme', name: 'web' })
    expect(err).toContain(path)
    expect(err).toContain('kill -HUP <pid>')
    expect(err).not.toContain(key)
  })

  test('creates a different key each time, with a default name', async () => {
    const { keys, text } = setUp()
    const made = [await keys(['add', 'acme']), await keys(['add', 'acme'])].map(({ out }) =>
      out.trim(),
    )
    expect(new Set(made).size).toBe(2)
    const names = parseKeysFile(text()).map(({ name }) => name)
    expect(names).toEqual(made.map((key) => `key-${sha256Of(key).slice(0, 8)}`))
  })

  test('prints one object with --json', async () => {
    const { keys, path, text } = setUp()
    const { out, err } = await keys(['add', 'acme', 'web', '--json'])
    const { key, ...rest } = JSON.parse(out) as Record<string, string>
    expect(rest).toEqual({ file: path, tenant: 'acme', name: 'web' })
    expect(text()).toContain(sha256Of(key ?? ''))
    expect([out.split('\n').length, err]).toEqual([2, ''])
  })

  test('creates the file for its owner only, whatever the umask', async () => {
    const { keys, path } = setUp()
    const before = process.umask(0)
    onTestFinished(() => {
      process.umask(before)
    })
    await keys(['add', 'acme'])
    expect(statSync(path).mode & 0o777).toBe(0o600)
  })

  test('keeps the mode and content of an existing file', async () => {
    const before = `\uFEFF# the keys of production\r\n\r\nacme:old:${A}\r\n  # no line end`
    const { keys, path, text } = setUp(before)
    chmodSync(path, 0o640)
    const { out } = await keys(['add', 'acme', 'web'])
    expect(text()).toBe(`${before}\nacme:web:${sha256Of(out.trim())}\n`)
    expect(statSync(path).mode & 0o777).toBe(0o640)
  })

  test.runIf(process.getuid?.() === 0)(
    'keeps the owner of the file, because the server may run as another user',
    async () => {
      const { keys, path } = setUp(`acme:old:${A}\n`)
      chownSync(path, 4711, 4712)
      await keys(['add', 'acme', 'web'])
      expect([statSync(path).uid, statSync(path).gid]).toEqual([4711, 4712])
    },
  )

  test('writes through a symbolic link', async () => {
    const { keys, cwd, path } = setUp()
    mkdirSync(join(cwd, 'real'))
    writeFileSync(join(cwd, 'real', 'keys'), '# ours\n')
    symlinkSync(join(cwd, 'real', 'keys'), path)
    await keys(['add', 'acme', 'web'])
    expect(lstatSync(path).isSymbolicLink()).toBe(true)
    expect(readFileSync(join(cwd, 'real', 'keys'), 'utf8')).toMatch(/^# ours\nacme:web:/)
  })

  test('replaces the file atomically', async () => {
    const { keys, path, cwd } = setUp(`acme:old:${A}\n`)
    const before = statSync(path).ino
    await keys(['add', 'acme', 'web'])
    expect(statSync(path).ino).not.toBe(before)
    expect(readdirSync(cwd)).toEqual([FILE])
  })
})

describe('keys list', () => {
  test('prints tenants, names and hash prefixes', async () => {
    const { keys } = setUp(
      `# ours\nacme:web:${A}\numbrella:continuous-integration:${sha256Of('b')}\n`,
    )
    const { code, out, err } = await keys(['list'])
    expect([code, err]).toEqual([0, ''])
    expect(out.split('\n')).toEqual([
      'tenant    name                    sha256',
      `acme      web                     ${A.slice(0, 8)}`,
      `umbrella  continuous-integration  ${sha256Of('b').slice(0, 8)}`,
      '',
    ])
    expect(out).not.toContain(A)
  })

  test('prints one object with --json', async () => {
    const { keys, path } = setUp(`acme:web:${A}\n`)
    const { out } = await keys(['list', '--json'])
    const shown = { tenant: 'acme', name: 'web', sha256: A.slice(0, 8) }
    expect(JSON.parse(out)).toEqual({ file: path, keys: [shown] })
  })

  test('reports a file without keys', async () => {
    const { keys, path } = setUp('# none yet\n')
    expect(await keys(['list'])).toEqual({
      code: 0,
      out: '',
      err: `No keys in ${path}.\n`,
    })
    expect(JSON.parse((await keys(['list', '--json'])).out)).toEqual({ file: path, keys: [] })
  })
})

describe('keys revoke', () => {
  test('removes the line and keeps everything else', async () => {
    const { keys, text } = setUp(`# ours\nacme:web:${A}\r\n# more\nacme:ci:${sha256Of('b')}\n`)
    const { code, out, err } = await keys(['revoke', 'acme', 'web'])
    expect([code, out]).toEqual([0, 'Revoked acme/web.\n'])
    expect(err).toContain('kill -HUP')
    expect(err).not.toContain('the last one')
    expect(text()).toBe(`# ours\n# more\nacme:ci:${sha256Of('b')}\n`)
  })

  test('reports that it was the last key', async () => {
    const { keys, text } = setUp(`acme:web:${A}\n`)
    const { err } = await keys(['revoke', 'acme', 'web'])
    expect(err).toContain('That was the last key.')
    expect(text()).toBe('')
  })

  test('prints one object with --json', async () => {
    const { keys, path } = setUp(`acme:web:${A}\n`)
    const { out, err } = await keys(['revoke', 'acme', 'web', '--json'])
    expect([JSON.parse(out), err]).toEqual([{ file: path, tenant: 'acme', name: 'web' }, ''])
  })
})

describe('the keys file', () => {
  test('is --file, then the environment, then the configuration', async () => {
    const { keys, cwd } = setUp()
    writeFileSync(join(cwd, 'turnstream.config.json'), '{"keysFile":"configured"}')
    await keys(['add', 'acme'], {})
    await keys(['add', 'acme'], { TURNSTREAM_KEYS_FILE: 'named' })
    await keys(['add', 'acme', '--file', 'given'], { TURNSTREAM_KEYS_FILE: 'named' })
    for (const name of ['configured', 'named', 'given']) {
      expect(parseKeysFile(readFileSync(join(cwd, name), 'utf8'))).toHaveLength(1)
    }
  })

  test('given with --file works with an invalid server configuration', async () => {
    const { keys, cwd } = setUp(`acme:web:${A}\n`)
    writeFileSync(join(cwd, 'turnstream.config.json'), '{')
    await expect(keys(['list'])).rejects.toThrow(UsageError)
    expect((await keys(['revoke', 'acme', 'web', '--file', FILE])).code).toBe(0)
  })
})
