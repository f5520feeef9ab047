/** The command as a function, with a terminal of the test; serve-process.test.ts starts the real thing. */

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { ROUTES } from '../../../../core/src/protocol/names.ts'
import { KNOWN_PROVIDERS } from '../../../src/cli/serve/providers.ts'
import { serve } from '../../../src/cli/serve/serve.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { freePort, untilTrue } from '../support.ts'

// Real connections, on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-serve-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

interface Surroundings {
  env?: Record<string, string>
  cwd?: string
  now?: () => number
}

/** Starts a server in this process; `end` asks it to stop as a signal would. */
async function start(args: string[], { env = {}, cwd = folder(), now }: Surroundings = {}) {
  const clock = now === undefined ? systemClock : { ...systemClock, now }
  const { terminal, output, errors, exits, signal, crash } = fakeTerminal([], { clock, env, cwd })
  const running = serve.run(['--port', '0', '--store', 'memory', ...args], terminal)
  // Refusals are looked at by the tests.
  running.catch(() => {})
  await untilTrue(() => output() !== '')
  const end = async () => {
    signal('SIGTERM')
    return running
  }
  onTestFinished(async () => {
    await end()
  })
  const url = /http:\/\/[^\s"]+/.exec(output())?.[0] ?? ''
  return { url, output, errors, exits, signal, crash, end }
}

async function submit(url: string, body: unknown) {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' } }
  return fetch(`${url}${ROUTES.submit}`, { ...init, body: JSON.stringify(body) })
}

describe('the banner', PATIENCE, () => {
  test('W9 starts with the URL, then lists store, providers and commands to try', async () => {
    const { url, output } = await start([])
    const [first, ...rest] = output().split('\n')
    expect(first).toMatch(/^turnstream listening on http:\/\/127\.0\.0\.1:\d+$/)
    expect(rest.join('\n')).toContain('store      memory')
    expect(rest.join('\n')).toContain('providers  scripted: answer, thinking, tools, error, long, ')
    expect(rest.join('\n')).toContain('for a real model set OPENAI_API_KEY')
    expect(rest.join('\n')).toContain(`curl -sw '\\n' ${url}/api/v2/submit`)
    expect(rest.join('\n')).toContain(`curl -sN ${url}/xapi/turns/first-turn/stream`)
    expect(rest.join('\n')).toContain(`npx turnstream chat --url ${url}`)
  })

  test('W9 is one JSON object with --json', async () => {
    const { url, output } = await start(['--json'], { env: { GEMINI_API_KEY: 'secret-key' } })
    const lines = output().trimEnd().split('\n')
    expect(lines).toHaveLength(1)
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      url,
      store: { kind: 'memory' },
      providers: ['gemini', 'scripted'],
      models: KNOWN_PROVIDERS.gemini.models.map((model) => `gemini/${model}`),
    })
    expect(output()).not.toContain('secret-key')
  })

  test('lists other providers in their order, without advice about keys', async () => {
    const env = { OPENAI_API_KEY: 'secret-key', ANTHROPIC_API_KEY: 'other-key' }
    const { output } = await start(['--retention', '2h'], { env })
    const ids = [...output().matchAll(/^ {2}(?:providers| {9}) {2}([\w-]+): /gm)].map(
      ([, id]) => id,
    )
    expect(ids).toEqual(['openai', 'anthropic', 'scripted'])
    expect(output()).not.toContain('for a real model')
    expect(output()).toContain('memory (turns are lost when this process ends), for 2h')
  })

  test('shows a local URL when listening on all addresses', async () => {
    const { output } = await start(['--host', '0.0.0.0', '--allow-public-without-keys'])
    expect(output()).toMatch(/^turnstream listening on http:\/\/0\.0\.0\.0:\d+$/m)
    expect(output()).toMatch(/curl -sw '\\n' http:\/\/127\.0\.0\.1:\d+\/api/)
  })
})

describe('a running server', PATIENCE, () => {
  test('accepts a submit and serves the turn', async () => {
    const { url } = await start(['--scripted-speed', '0'])
    expect((await submit(url, { turnId: 'a', prompt: 'Hi' })).status).toBe(202)
    const stream = await (await fetch(`${url}/xapi/turns/a/stream`)).text()
    expect(stream).toContain('"type":"turn_complete"')
  })

  test('passes settings to the gateway', async () => {
    const { url } = await start(['--max-body-bytes', '100', '--max-turn-items', '2'], {
      env: { TURNSTREAM_SCRIPTED_SPEED: '0' },
    })
    expect((await submit(url, { prompt: 'x'.repeat(200) })).status).toBe(413)
    const tools = { turnId: 'a', prompt: 'Hi', model: 'scripted/tools' }
    expect((await submit(url, tools)).status).toBe(202)
    const stream = await (await fetch(`${url}/xapi/turns/a/stream`)).text()
    expect(stream).toContain('TURN_ITEM_LIMIT')
  })
})

describe('shutdown', PATIENCE, () => {
  test('exits with 0 and a message after a signal', async () => {
    const { url, end, errors } = await start([])
    expect(await end()).toBe(0)
    expect(errors()).toMatch(/ shutting down\n$/)
    await expect(fetch(url)).rejects.toThrow('fetch failed')
  })

  test('waits for running turns and ends them after the grace period', async () => {
    const { url, end, errors } = await start(['--shutdown-grace', '300ms', '--json'])
    await submit(url, { turnId: 'a', prompt: 'Hi', model: 'scripted/long' })
    const stream = fetch(`${url}/xapi/turns/a/stream`).then((response) => response.text())
    await untilTrue(async () => (await fetch(`${url}/xapi/turns/a`)).ok)
    expect(await end()).toBe(0)
    const [farewell] = errors().trimEnd().split('\n')
    expect(JSON.parse(farewell ?? '')).toMatchObject({
      level: 'info',
      message: 'shutting down: waiting up to 300ms for a turn; a second signal exits immediately',
    })
    expect(await stream).toContain('SERVER_SHUTDOWN')
  })

  test('exits at once on a second signal, but not on one that npm forwards', async () => {
    let now = Date.now()
    const { url, signal, exits, end } = await start(['--shutdown-grace', '1s'], { now: () => now })
    await submit(url, { turnId: 'a', prompt: 'Hi', model: 'scripted/long' })
    signal('SIGINT')
    signal('SIGINT')
    expect(exits).toEqual([])
    now += 250
    signal('SIGINT')
    expect(exits).toEqual([1])
    await end()
  })
})

describe('secrets', PATIENCE, () => {
  test('prints warnings with the banner, only after startup', async () => {
    const key = join(folder(), 'key')
    writeFileSync(key, 'hidden-word', { mode: 0o644 })
    chmodSync(key, 0o644)
    const { errors } = await start([], { env: { GEMINI_API_KEY_FILE: key } })
    expect(errors()).toContain(`warning: the file of GEMINI_API_KEY_FILE is readable`)
    expect(errors()).not.toContain('hidden-word')
  })

  test('an uncaught error is logged in one line without secrets and content', async () => {
    const { crash, errors, exits } = await start([], { env: { GEMINI_API_KEY: 'hidden-word' } })
    const error = Object.assign(new TypeError('x of hidden-word is "what they asked"'), {
      headers: { authorization: 'hidden-word' },
    })
    crash(error)
    expect(exits).toEqual([1])
    expect(errors()).toMatch(/^\S+ x of \[redacted\] is … at=at .*\n$/)
  })

  test('content is logged only with logContent', async () => {
    const { crash, errors } = await start(['--log-content'])
    crash(new Error('they asked for the treasure'))
    expect(errors()).toContain('they asked for the treasure')
  })
})

describe('prints one sentence and exits with 1', PATIENCE, () => {
  async function fail(args: string[]) {
    const { terminal, output, errors } = fakeTerminal([], { clock: systemClock, cwd: folder() })
    const code = await serve.run(args, terminal)
    expect([code, output()]).toEqual([1, ''])
    expect(errors().trimEnd().split('\n')).toHaveLength(1)
    return errors()
  }

  test('for a port in use', async () => {
    const port = await freePort()
    const other = createServer().listen(port, '127.0.0.1')
    onTestFinished(() => {
      other.close()
    })
    const said = await fail(['--port', `${port}`, '--store', 'memory'])
    expect(said).toContain(`port ${port} on 127.0.0.1`)
    expect(said).toContain('choose another port')
  })

  test('for a non-local address', async () => {
    const args = ['--host', '192.0.2.1', '--allow-public-without-keys', '--port', '0']
    expect(await fail([...args, '--store', 'memory'])).toContain('192.0.2.1')
  })

  test('for a directory that another process uses', async () => {
    const directory = folder()
    const log = await openEmbeddedLog({ directory })
    onTestFinished(() => log.close())
    const said = await fail(['--port', '0', '--store', directory])
    expect(said).toContain(directory)
    expect(said).toContain('(STORE_LOCKED)')
  })

  test('for an unreachable Redis, without its password', async () => {
    const store = `redis://:hidden-word@127.0.0.1:${await freePort()}`
    const said = await fail(['--port', '0', '--store', store, '--json'])
    expect(JSON.parse(said)).toMatchObject({
      error: { message: expect.stringContaining('STORE_UNAVAILABLE') },
    })
    expect(said).not.toContain('hidden-word')
  })

  test('for a directory that is not writable', async () => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    const said = await fail(['--port', '0', '--store', join(file, 'store')])
    expect(said).toContain(`${file} is not a directory`)
    expect(said).toContain('Choose a directory that this user can write with --store.')
  })

  test('for an unreadable keys file', async () => {
    const file = join(folder(), 'file')
    writeFileSync(file, '')
    const said = await fail(['--port', '0', '--store', 'memory', '--keys-file', `${file}/keys`])
    expect(said).toContain(`${file}/keys`)
  })
})
