/** The server as an operator meets it: the built program, started as a process. */
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { ROUTES } from '../../../../core/src/protocol/names.ts'
import { chunk, END, HEAD, rawVendor } from '../../providers/raw-vendor.ts'
import { type ProcessOptions, turnstream } from '../process.ts'
import { freePort, untilTrue } from '../support.ts'

const LISTENING = /^turnstream listening on (http:\/\/\S+)$/m

// Starting a process takes a while on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-process-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

async function serve(args: string[], options: Partial<ProcessOptions> = {}) {
  const cwd = options.cwd ?? folder()
  const server = turnstream(['serve', ...args], { ...options, cwd })
  const [, url = ''] = await server.printed(LISTENING)
  return { ...server, url, cwd }
}

async function submit(url: string, body: Record<string, unknown>): Promise<Response> {
  return fetch(`${url}${ROUTES.submit}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Hello', ...body }),
  })
}

async function codeOf(response: Response): Promise<string> {
  return ((await response.json()) as { error: { code: string } }).error.code
}

async function streamOf(url: string, turnId: string): Promise<string> {
  const response = await fetch(`${url}${ROUTES.turnOutputStream.replace(':turnId', turnId)}`)
  return response.text()
}

describe('serve', PATIENCE, () => {
  test('stores turns in .turnstream by default, for its owner only, across restarts', async () => {
    const first = await serve(['--port', '0', '--scripted-speed', '0'])
    expect(statSync(join(first.cwd, '.turnstream')).mode & 0o777).toBe(0o700)
    expect((await submit(first.url, { turnId: 'a' })).status).toBe(202)
    const stream = await streamOf(first.url, 'a')
    expect(stream).toContain('"type":"turn_complete"')
    first.child.kill('SIGTERM')
    expect(await first.ended).toBe(0)
    const second = await serve(['--port', '0'], { cwd: first.cwd })
    expect((await streamOf(second.url, 'a')).split('\n').at(-3)).toBe(stream.split('\n').at(-3))
  })

  test('W9 the first line is one JSON object with --json', async () => {
    const cwd = folder()
    const args = ['serve', '--json', '--port', '0', '--store', 'memory']
    const server = turnstream(args, { cwd, env: { ANTHROPIC_API_KEY: 'secret-key' } })
    const [line] = await server.printed(/^.*\n/)
    expect(JSON.parse(line)).toMatchObject({
      url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      store: { kind: 'memory' },
      providers: ['anthropic', 'scripted'],
    })
    expect(server.stdout() + server.stderr()).not.toContain('secret-key')
  })

  test('W9 the command line wins over the environment, which wins over the file', {
    tags: ['slow'],
  }, async () => {
    const cwd = folder()
    const [fromFile, fromEnv, fromFlag] = [await freePort(), await freePort(), await freePort()]
    writeFileSync(
      join(cwd, 'turnstream.config.json'),
      JSON.stringify({ port: fromFile, store: 'memory', scriptedSpeed: 0 }),
    )
    const env = { TURNSTREAM_PORT: `${fromEnv}` }
    const ports: string[] = []
    for (const [args, more] of [[[]], [[], env], [['--port', `${fromFlag}`], env]] as const) {
      const server = await serve([...args], { cwd, ...(more !== undefined && { env: more }) })
      ports.push(new URL(server.url).port)
      server.child.kill('SIGTERM')
      expect(await server.ended).toBe(0)
    }
    expect(ports).toEqual([fromFile, fromEnv, fromFlag].map(String))
  })

  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s lets a turn finish, and readers see its end',
    async (signal) => {
      const { url, child, ended, stderr } = await serve(['--port', '0', '--scripted-speed', '8'])
      await submit(url, { turnId: 'a' })
      const stream = streamOf(url, 'a')
      child.kill(signal)
      expect(await ended).toBe(0)
      expect(await stream).toContain('"type":"turn_complete"')
      expect(stderr()).toContain('shutting down: waiting up to 30s for a turn')
    },
  )

  test('exits after SIGTERM though a provider ended its stream and its body in one packet', async () => {
    const frames = [
      '{"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}',
      '[DONE]',
    ]
    const body = frames.map((frame) => `data: ${frame}\n\n`).join('')
    const vendor = await rawVendor((socket) => {
      socket.write(HEAD)
      setTimeout(() => socket.write(chunk(body) + END), 50)
    })
    const env = { OPENAI_COMPATIBLE_BASE_URL: vendor.url, OPENAI_COMPATIBLE_MODEL: 'm' }
    const { url, child, ended } = await serve(['--port', '0', '--store', 'memory'], { env })
    await submit(url, { turnId: 'a', model: 'openai-compatible/m' })
    expect(await streamOf(url, 'a')).toContain('"type":"turn_complete"')
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })

  test('a turn that exceeds the grace period ends as SERVER_SHUTDOWN', {
    tags: ['slow'],
  }, async () => {
    const { url, child, ended } = await serve(['--port', '0', '--shutdown-grace', '100ms'])
    await submit(url, { turnId: 'a', model: 'scripted/long' })
    const stream = streamOf(url, 'a')
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    expect(await stream).toContain('SERVER_SHUTDOWN')
  })

  test('exits at once on a second signal; the next start ends the orphaned turns', {
    tags: ['slow'],
  }, async () => {
    const first = await serve(['--port', '0'])
    await submit(first.url, { turnId: 'a', model: 'scripted/long' })
    // Those that come soon after the first count as one with it, so it is asked until it heeds.
    await untilTrue(() => {
      first.child.kill('SIGINT')
      return first.child.exitCode !== null
    })
    expect(await first.ended).toBe(1)
    const second = await serve(['--port', '0'], { cwd: first.cwd })
    expect(await streamOf(second.url, 'a')).toContain('PRODUCER_LOST')
  })
})

describe('the grace period is kept', PATIENCE, () => {
  test('while clients repeat submits', { tags: ['slow'] }, async () => {
    const limits = ['--submits-per-minute', 'unlimited', '--max-running-turns', 'unlimited']
    const args = ['--port', '0', '--store', 'memory', '--shutdown-grace', '1s', ...limits]
    const { url, child, ended, stderr } = await serve(args)
    const turn = { turnId: 'a', model: 'scripted/long' }
    expect((await submit(url, turn)).status).toBe(202)
    const stream = streamOf(url, 'a')
    const answers = new Set<number>()
    const repeat = async (body: Record<string, unknown>) => {
      while (child.exitCode === null) {
        // The port closes at some time.
        const answer = await submit(url, body).catch(() => undefined)
        if (answer !== undefined) answers.add(answer.status)
        await answer?.text().catch(() => '')
      }
    }
    const clients = [turn, turn, { model: 'scripted/long' }].map(repeat)
    await untilTrue(() => answers.has(202))
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    await Promise.all(clients)
    expect(await stream).toContain('SERVER_SHUTDOWN')
    expect(stderr()).not.toContain('ended after the grace')
  })

  test('when Redis does not answer, and open turns are logged', {
    tags: ['slow'],
  }, async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const args = ['--port', '0', '--store', redis.url, '--shutdown-grace', '500ms']
    const { url, child, ended, stderr } = await serve(args)
    expect((await submit(url, { turnId: 'a', model: 'scripted/long' })).status).toBe(202)
    redis.process.kill('SIGSTOP')
    const since = performance.now()
    child.kill('SIGTERM')
    expect(await ended).toBe(1)
    // 500 ms and 5 s for the last writes, and as much again for a busy machine.
    expect(performance.now() - since).toBeLessThan(11_000)
    expect(stderr()).toContain('the store did not accept the end of a turn')
  })
})

describe('does not start', PATIENCE, () => {
  async function fail(args: string[], cwd = folder()) {
    const { ended, stdout, stderr } = turnstream(['serve', ...args], { cwd })
    const code = await ended
    expect(stdout()).toBe('')
    return { code, said: stderr() }
  }

  test('on a port in use', async () => {
    const port = await freePort()
    const other = createServer().listen(port, '127.0.0.1')
    onTestFinished(() => {
      other.close()
    })
    const { code, said } = await fail(['--port', `${port}`, '--store', 'memory'])
    expect(code).toBe(1)
    expect(said).toMatch(new RegExp(`^turnstream: .*port ${port} on 127.0.0.1.*\n$`))
  })

  test('with a directory that another server uses', { tags: ['slow'] }, async () => {
    const { cwd, child } = await serve(['--port', '0'])
    const { code, said } = await fail(['--port', '0'], cwd)
    expect(code).toBe(1)
    expect(said).toMatch(/^turnstream: Another process is using the store: .*\(STORE_LOCKED\)\n$/)
    expect(said).toContain(`process ${child.pid}`)
  })

  test('on a recreated directory of another server, which then stops accepting turns', {
    tags: ['slow'],
  }, async () => {
    const { cwd, child, url, stderr, ended } = await serve(['--port', '0'])
    await submit(url, { turnId: 'open', model: 'scripted/long' })
    // Cut, as by any failure of the store: its reader comes back, and is refused.
    const open = await fetch(`${url}${ROUTES.turnOutputStream.replace(':turnId', 'open')}`)
    const cut = open.text().catch((error: unknown) => error)
    const directory = join(cwd, '.turnstream')
    rmSync(directory, { recursive: true })
    mkdirSync(directory)
    const refused = await submit(url, { turnId: 'next' })
    expect([refused.status, await codeOf(refused)]).toEqual([503, 'STORE_LOST'])
    const ready = await fetch(`${url}/readyz`)
    expect([ready.status, await codeOf(ready)]).toEqual([503, 'STORE_LOST'])
    expect(String(await cut)).toContain('terminated')
    expect(await streamOf(url, 'open')).toContain('STORE_LOST')
    expect(stderr()).toContain('The store directory was removed or replaced')
    const { code, said } = await fail(['--port', '0'], cwd)
    expect(code).toBe(1)
    expect(said).toContain(`used by process ${child.pid}`)
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    await serve(['--port', '0'], { cwd })
  })

  test('with invalid options', async () => {
    const { code, said } = await fail(['--port', 'x'])
    expect(code).toBe(2)
    expect(said).toBe(
      'turnstream: --port must be an integer from 0 to 65535; got "x"\nTry: turnstream serve --help\n',
    )
  })

  test('on a public address', async () => {
    const { code, said } = await fail(['--host', '0.0.0.0'])
    expect(code).toBe(2)
    expect(said).toContain('--allow-public-without-keys')
  })
})

describe('two servers on one Redis', { ...PATIENCE, tags: ['slow'] }, () => {
  test("serve and cancel each other's turns", async () => {
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    const args = ['--port', '0', '--store-prefix', 'two', '--lease', '5s']
    const env = { TURNSTREAM_STORE: redis.url }
    const [one, two] = await Promise.all([serve(args, { env }), serve(args, { env })])
    expect(one.stdout()).toContain(`store      Redis at ${redis.url}`)
    await submit(one.url, { turnId: 'a', model: 'scripted/long' })
    const stream = streamOf(two.url, 'a')
    const cancel = ROUTES.runCancel.replace(':runId', 'a')
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }
    expect((await fetch(`${two.url}${cancel}`, init)).status).toBe(202)
    expect(await stream).toContain('"status":"aborted"')
  })
})

describe('other commands', { ...PATIENCE, tags: ['slow'] }, () => {
  test('chat and tail connect as processes, and chat reads a pipe', async () => {
    const { url, cwd } = await serve(['--port', '0', '--scripted-speed', '0'])
    const chat = turnstream(['chat', '--url', url], { cwd })
    chat.child.stdin?.end('Hello\n')
    expect(await chat.ended).toBe(0)
    expect(chat.stdout()).toMatch(/^\*\*This is a recorded answer\.\*\*/)
    await submit(url, { turnId: 'a' })
    const tail = turnstream(['tail', 'a', '--url', url], { cwd })
    expect(await tail.ended).toBe(0)
    expect(tail.stdout()).toMatch(/turn_complete +complete/)
  })
})
