/** Keys as an operator meets them: the built program, a real process, real signals. */

import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseKeysFile } from '../../../src/server.ts'
import { turnstream } from '../process.ts'
import { untilTrue } from '../support.ts'

// Starting a process takes a while on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 60_000 }

function setUp() {
  const cwd = mkdtempSync(join(tmpdir(), 'turnstream-keys-process-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  const env = { TURNSTREAM_KEYS_FILE: 'turnstream.keys' }
  const file = join(cwd, 'turnstream.keys')

  async function keys(...args: string[]) {
    const { ended, stdout, stderr } = turnstream(['keys', ...args], { cwd, env })
    return { code: await ended, out: stdout(), err: stderr() }
  }

  async function serve(...args: string[]) {
    const all = ['serve', '--port', '0', '--store', 'memory', ...args]
    const server = turnstream(all, { cwd, env })
    const [, url = ''] = await server.printed(/^turnstream listening on (http:\/\/\S+)$/m)
    return { ...server, url: url.replace('0.0.0.0', '127.0.0.1') }
  }

  return { cwd, file, keys, serve }
}

function ask(url: string, path: string, key: string, body?: unknown): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
  return fetch(`${url}${path}`, { headers, ...init })
}

describe('turnstream keys and serve', PATIENCE, () => {
  test('a revoked key loses its streams after a reload while its turn continues', async () => {
    const { keys, serve } = setUp()
    const first = (await keys('add', 'acme', 'first')).out.trim()
    const { url, child, stderr } = await serve('--host', '0.0.0.0')
    const submit = { prompt: 'Hi', turnId: 't', model: 'scripted/long' }
    expect((await ask(url, '/api/v2/submit', first, submit)).status).toBe(202)
    const old = await ask(url, '/xapi/turns/t/stream', first)

    const second = (await keys('add', 'acme', 'second')).out.trim()
    expect((await keys('revoke', 'acme', 'first')).code).toBe(0)
    expect((await ask(url, '/xapi/turns/t', first)).status).toBe(200)
    expect((await ask(url, '/xapi/turns/t', second)).status).toBe(401)

    child.kill('SIGHUP')
    await untilTrue(() => stderr().includes('reloaded keys: 1 key of 1 tenant is in force'))
    expect((await ask(url, '/xapi/turns/t', first)).status).toBe(401)
    await expect(old.text()).rejects.toThrow('terminated')
    const stream = (await ask(url, '/xapi/turns/t/stream', second)).text()
    const { sealed } = (await (await ask(url, '/xapi/turns/t', second)).json()) as {
      sealed: boolean
    }
    expect(sealed).toBe(false)
    expect((await ask(url, '/api/v2/runs/t/cancel', second, {})).status).toBe(202)
    expect(await stream).toContain('"status":"aborted"')
    expect(stderr()).not.toContain(first)
    expect(stderr()).not.toContain(second)
  })

  test('SIGHUP with a broken file keeps the old keys and the server running', {
    tags: ['slow'],
  }, async () => {
    const { keys, serve, file } = setUp()
    const key = (await keys('add', 'acme', 'web')).out.trim()
    const { url, child, stderr, ended } = await serve()
    const good = readFileSync(file, 'utf8')
    writeFileSync(file, `${good}acme:oops:${key}\n`)
    child.kill('SIGHUP')
    await untilTrue(() => stderr().includes('could not reload keys'))
    expect(stderr()).toContain('line 2 does not end with 64 hexadecimal digits')
    expect(stderr()).not.toContain(key)
    expect((await ask(url, '/api/v2/threads', key)).status).toBe(200)
    writeFileSync(file, good)
    child.kill('SIGHUP')
    await untilTrue(() => stderr().includes('reloaded keys'))
    expect((await ask(url, '/api/v2/threads', key)).status).toBe(200)
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })

  test('repeated SIGHUP drops no request', { tags: ['slow'] }, async () => {
    const { keys, serve } = setUp()
    const key = (await keys('add', 'acme', 'web')).out.trim()
    const { url, child, stderr } = await serve()
    const again = () => stderr().split('reloaded keys').length - 1
    const statuses = new Set<number>()
    for (let round = 1; round <= 20; round++) {
      const asked = Array.from({ length: 5 }, () => ask(url, '/api/v2/threads', key))
      child.kill('SIGHUP')
      for (const response of await Promise.all(asked)) statuses.add(response.status)
      await untilTrue(() => again() >= round)
    }
    expect([...statuses]).toEqual([200])
  })

  test('keys added concurrently are all stored or refused', {
    tags: ['slow'],
  }, async () => {
    const { keys, file } = setUp()
    const made = await Promise.all(
      Array.from({ length: 5 }, (_, index) => keys('add', 'acme', `k${index}`)),
    )
    const names = made.flatMap(({ code }, index) => (code === 0 ? [`k${index}`] : []))
    expect(names.length).toBeGreaterThan(0)
    const kept = parseKeysFile(readFileSync(file, 'utf8')).map(({ name }) => name)
    expect(kept.toSorted()).toEqual(names)
    for (const { code, err } of made) {
      if (code !== 0) expect([code, err]).toEqual([1, expect.stringContaining('another command')])
    }
  })

  test('the curl commands in the banner work with a key', {
    tags: ['slow'],
  }, async () => {
    const { keys, serve, cwd } = setUp()
    const key = (await keys('add', 'acme')).out.trim()
    const server = await serve('--scripted-speed', '0')
    await server.printed(/npx turnstream chat/)
    const lines = [...server.stdout().matchAll(/^ {2}(curl .*)$/gm)].map(([, found = '']) => found)
    expect(lines).toHaveLength(2)
    const run = (env: Record<string, string>) =>
      promisify(execFile)('sh', ['-c', lines.join('\n')], { cwd, env: { ...process.env, ...env } })
    const { stdout } = await run({ TURNSTREAM_KEY: key })
    expect(stdout).toContain('{"runId":"first-turn"')
    expect(stdout).toContain('"type":"turn_complete"')
    expect((await run({ TURNSTREAM_KEY: '' })).stdout).toContain('KEY_REQUIRED')
  })

  test('chat and tail send the key from the environment', { tags: ['slow'] }, async () => {
    const { keys, serve, cwd } = setUp()
    const key = (await keys('add', 'acme')).out.trim()
    const { url } = await serve('--scripted-speed', '0')
    const chat = turnstream(['chat', '--url', url, 'Hello'], { cwd, env: { TURNSTREAM_KEY: key } })
    expect(await chat.ended).toBe(0)
    expect(chat.stdout()).toContain('This is a recorded answer')
    const without = turnstream(['chat', '--url', url, 'Hello'], { cwd })
    expect(await without.ended).toBe(1)
    expect(without.stderr()).toContain('the gateway needs an API key')
  })
})

describe('the refusal of', PATIENCE, () => {
  test('a public address without keys prints commands that fix it', {
    tags: ['slow'],
  }, async () => {
    const { cwd } = setUp()
    const refused = turnstream(['serve', '--host', '0.0.0.0', '--port', '0'], { cwd })
    expect(await refused.ended).toBe(2)
    const [, make = ''] = /"turnstream (keys add [^"]+)"/.exec(refused.stderr()) ?? []
    const [, name = '', value = ''] = /(TURNSTREAM_KEYS_FILE)=([\w.]+)/.exec(refused.stderr()) ?? []
    const made = turnstream(make.replace('<tenant>', 'acme').split(' '), { cwd })
    expect(await made.ended).toBe(0)
    const args = ['serve', '--host', '0.0.0.0', '--port', '0', '--store', 'memory']
    const server = turnstream(args, { cwd, env: { [name]: value } })
    await server.printed(/^turnstream listening on/m)
  })

  test('an empty keys file', async () => {
    const { cwd, file } = setUp()
    writeFileSync(file, '')
    const args = ['serve', '--port', '0', '--keys-file', file]
    const { ended, stderr } = turnstream(args, { cwd })
    expect(await ended).toBe(1)
    expect(stderr()).toMatch(/^turnstream: no keys in .*\n$/)
  })

  test('an unknown action', async () => {
    const { keys } = setUp()
    const { code, err } = await keys('revok', 'acme', 'web')
    expect(code).toBe(2)
    expect(err).toBe(
      'turnstream: unknown keys action; did you mean revoke?\nTry: turnstream keys --help\n',
    )
  })
})
