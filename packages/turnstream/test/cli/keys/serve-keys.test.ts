/** A server with keys, in this process; serve-process.test.ts starts the real thing. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { parseServeOptions, serve } from '../../../src/cli/serve/serve.ts'
import { sha256Of } from '../../../src/server/auth/key-ring.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { untilTrue } from '../support.ts'

const PATIENCE = { timeout: 30_000 }
const SECRET = 'a secret of at least 32 characters'

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-serve-keys-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

function line(key: string, tenant = 'acme', name = key): string {
  return `${tenant}:${name}:${sha256Of(key)}\n`
}

interface Started {
  readonly args?: string[]
  readonly env?: Record<string, string>
  /** What is in the file of keys. */
  readonly text?: string
}

/** Starts a server whose keys are in `keys`; `end` asks it to stop. */
async function start({ args = [], env = {}, text = line('one') }: Started = {}) {
  const cwd = folder()
  const file = join(cwd, 'keys')
  writeFileSync(file, text)
  const deps = { clock: systemClock, env: { TURNSTREAM_KEYS_FILE: 'keys', ...env }, cwd }
  const { terminal, output, errors, signal, hangUp } = fakeTerminal([], deps)
  const running = serve.run(['--port', '0', '--store', 'memory', ...args], terminal)
  await untilTrue(() => output() !== '')
  onTestFinished(async () => {
    signal('SIGTERM')
    await running
  })
  const url = (/http:\/\/[^\s"]+/.exec(output())?.[0] ?? '').replace('0.0.0.0', '127.0.0.1')
  const statusOf = async (key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
    return (await fetch(`${url}/api/v2/threads`, { headers })).status
  }
  return { url, file, output, errors, hangUp, statusOf }
}

describe('a server with keys', PATIENCE, () => {
  test('requires one and prints that in the banner', async () => {
    const { output, errors, statusOf, file, url } = await start()
    expect([await statusOf(), await statusOf('two'), await statusOf('one')]).toEqual([
      401, 401, 200,
    ])
    expect(output()).toContain(`keys       required: 1 in ${file}`)
    expect(output()).toContain(`reload after a change: kill -HUP ${process.pid}`)
    expect(output()).toContain('Try it in another terminal, with a key in TURNSTREAM_KEY:')
    const bearer = '-H "authorization: Bearer $TURNSTREAM_KEY"'
    expect(output()).toContain(`${url}/api/v2/submit ${bearer}`)
    expect(output()).toContain(`${url}/xapi/turns/first-turn/stream ${bearer}`)
    expect(errors()).toMatch(/ 1 key of 1 tenant is in force\n$/)
  })

  test('reports the keys as JSON with --json', async () => {
    const text = line('one') + line('two', 'umbrella') + line('three', 'umbrella')
    const { output, errors } = await start({ args: ['--json'], text })
    expect(JSON.parse(output())).toMatchObject({ keys: 3 })
    expect(JSON.parse(errors())).toMatchObject({
      level: 'info',
      message: '3 keys of 2 tenants are in force',
    })
  })

  test('may listen on public addresses', async () => {
    const { statusOf } = await start({ args: ['--host', '0.0.0.0'] })
    expect([await statusOf(), await statusOf('one')]).toEqual([401, 200])
  })
})

describe('SIGHUP', PATIENCE, () => {
  test('reloads the keys from the file, which is not read otherwise', async () => {
    const { file, hangUp, statusOf, errors } = await start()
    writeFileSync(file, line('two') + line('three', 'umbrella'))
    expect([await statusOf('one'), await statusOf('two')]).toEqual([200, 401])
    expect(hangUp()).toBe(true)
    expect([await statusOf('one'), await statusOf('two')]).toEqual([401, 200])
    expect(errors()).toContain('reloaded keys: 2 keys of 2 tenants are in force')
  })

  test.each<[string, (file: string) => void, string]>([
    [
      'broken',
      (file) => writeFileSync(file, `${line('two')}ts_a-secret\n`),
      'line 2 is not tenant',
    ],
    ['missing', (file) => rmSync(file), 'no such file'],
    ['oversized', (file) => writeFileSync(file, '#'.repeat(2_000_000)), 'larger than'],
  ])('with a %s file logs the reason and keeps the keys', async (_name, spoil, reason) => {
    const { file, hangUp, statusOf, errors } = await start()
    spoil(file)
    hangUp()
    expect([await statusOf('one'), await statusOf('two')]).toEqual([200, 401])
    expect(errors()).toContain(reason)
    expect(errors()).toContain(file)
    expect(errors()).toContain('KEYS_FILE_INVALID')
    expect(errors()).toContain('could not reload keys: the previous 1 stay in force')
    expect(errors()).not.toContain('ts_a-secret')
    writeFileSync(file, line('two'))
    hangUp()
    expect([await statusOf('one'), await statusOf('two')]).toEqual([401, 200])
  })

  test.each(['', '# all of them were revoked\n'])(
    'with an empty file (%j) refuses every request',
    async (text) => {
      const { file, hangUp, statusOf, errors } = await start({ args: ['--host', '0.0.0.0'] })
      writeFileSync(file, text)
      hangUp()
      expect([await statusOf(), await statusOf('one'), await statusOf('x')]).toEqual([
        401, 401, 401,
      ])
      expect(errors()).toContain('none, so every request is refused')
      writeFileSync(file, line('one'))
      hangUp()
      expect(await statusOf('one')).toBe(200)
    },
  )

  test('is not handled without a keys file', async () => {
    const { hangUp, errors } = await start({ env: { TURNSTREAM_KEYS_FILE: '' } })
    expect([hangUp(), errors()]).toEqual([false, ''])
  })
})

describe('prevents startup:', PATIENCE, () => {
  async function fail(text: string | undefined, args: string[] = []) {
    const cwd = folder()
    if (text !== undefined) writeFileSync(join(cwd, 'keys'), text)
    const { terminal, output, errors } = fakeTerminal([], { clock: systemClock, cwd })
    const all = ['--port', '0', '--store', 'memory', '--keys-file', 'keys', ...args]
    const code = await serve.run(all, terminal)
    expect([code, output()]).toEqual([1, ''])
    expect(errors().trimEnd().split('\n')).toHaveLength(1)
    return { said: errors(), file: join(cwd, 'keys') }
  }

  test.each<[string, string | undefined, string]>([
    ['a missing file', undefined, 'no such file'],
    ['an empty file', '', 'no keys in '],
    ['a file with only comments', '# none\n', 'turnstream keys add <tenant> --file '],
    ['a broken file', `${line('one')}\nts_a-secret\n`, 'line 3 is not tenant:name:sha256hex'],
  ])('%s', async (_name, text, reason) => {
    for (const args of [[], ['--host', '0.0.0.0'], ['--allow-public-without-keys'], ['--json']]) {
      const { said, file } = await fail(text, args)
      expect(said).toContain(reason)
      expect(said).toContain(file)
      expect(said).not.toContain('ts_a-secret')
    }
  })
})

describe('the settings', PATIENCE, () => {
  const cwd = '/'

  test('a public address without keys is refused with the fix', () => {
    expect(() => parseServeOptions(['--host', '0.0.0.0'], { env: {}, cwd })).toThrow(
      'create a key with "turnstream keys add <tenant> --file turnstream.keys" and set ' +
        'TURNSTREAM_KEYS_FILE=turnstream.keys, or accept it with --allow-public-without-keys',
    )
  })

  test('TURNSTREAM_KEYS_FILE is the keys file itself', () => {
    const env = { TURNSTREAM_KEYS_FILE: '/etc/turnstream/keys' }
    expect(parseServeOptions([], { env, cwd }).settings.keysFile).toBe('/etc/turnstream/keys')
  })

  test('TURNSTREAM_KEY and TURNSTREAM_KEY_FILE are ignored', () => {
    const env = { TURNSTREAM_KEY: 'ts_a', TURNSTREAM_KEY_FILE: '/nowhere' }
    expect(parseServeOptions([], { env, cwd }).settings.keysFile).toBeUndefined()
  })

  test('the stream token secret comes from the environment or a file', () => {
    const name = 'TURNSTREAM_STREAM_TOKEN_SECRET'
    const file = join(folder(), 'secret')
    writeFileSync(file, `${SECRET}\n`)
    for (const env of [{ [name]: SECRET }, { [`${name}_FILE`]: file }]) {
      expect(parseServeOptions([], { env, cwd }).settings.streamTokenSecret).toBe(SECRET)
    }
    expect(() =>
      parseServeOptions([], { env: { [name]: SECRET, [`${name}_FILE`]: file }, cwd }),
    ).toThrow('are both set: keep one')
  })

  test('a short secret is refused without printing it', () => {
    const parse = () =>
      parseServeOptions(['--stream-token-secret', 'too-short-secret'], { env: {}, cwd })
    expect(parse).toThrow('--stream-token-secret must be at least 32 characters')
    expect(parse).not.toThrow('too-short-secret')
  })

  test("two servers with the same secret accept each other's stream tokens", async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const env = { TURNSTREAM_STREAM_TOKEN_SECRET: SECRET }
    const [one, two] = [
      await start({ args: ['--store', redis.url], env }),
      await start({ args: ['--store', redis.url], env }),
    ]
    const headers = { authorization: 'Bearer one', 'content-type': 'application/json' }
    const post = (path: string, body: object) =>
      fetch(`${one.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    await post('/api/v2/threads', { threadId: 'h' })
    const { token } = (await (await post('/api/v2/stream-tokens', { threadId: 'h' })).json()) as {
      token: string
    }
    const leave = new AbortController()
    const init = { signal: leave.signal }
    const { status } = await fetch(`${two.url}/xapi/threads/h/stream?token=${token}`, init)
    leave.abort()
    expect(status).toBe(200)
    expect(one.errors()).not.toContain('stream tokens')
  })

  test('servers on one Redis are warned without a stream token secret', async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const { errors } = await start({ args: ['--store', redis.url] })
    expect(errors()).toContain(
      'warning: other instances on this Redis refuse stream tokens of this one',
    )
    expect(errors()).toContain('TURNSTREAM_STREAM_TOKEN_SECRET')
    expect((await start()).errors()).not.toContain('stream tokens')
  })
})
