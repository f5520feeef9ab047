import { once } from 'node:events'
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startRedis } from '../../../../../scripts/redis-server.mjs'
import { UsageError } from '../../../src/cli/command.ts'
import { doctor } from '../../../src/cli/doctor/doctor.ts'
import { sha256Of } from '../../../src/server/auth/key-ring.ts'
import { openEmbeddedLog } from '../../../src/server.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { freePort } from '../support.ts'
import {
  bothReports,
  checkNamed,
  defaults,
  folder,
  listing,
  PATIENCE,
  vendorThat,
  writeConfig,
} from './support.ts'

const KEYS = {
  OPENAI_API_KEY: 'sk-planted-openai-0123456789',
  ANTHROPIC_API_KEY: 'sk-ant-planted-0123456789',
  GEMINI_API_KEY: 'planted-gemini-0123456789',
  OPENAI_COMPATIBLE_API_KEY: 'planted-compatible-0123456789',
}

/** Four vendors that know their models, each in its own form. */
async function vendors() {
  const openai = await vendorThat(listing('gpt-x'))
  const anthropic = await vendorThat(listing('claude-x'))
  const gemini = await vendorThat((response) => {
    response.writeHead(200).end(JSON.stringify({ models: [{ name: 'models/gemini-x' }] }))
  })
  const compatible = await vendorThat(listing('llama-x'))
  return {
    openai,
    anthropic,
    gemini,
    compatible,
    providers: {
      openai: { baseUrl: `${openai.url}/v1`, models: ['gpt-x'] },
      anthropic: { baseUrl: anthropic.url, models: ['claude-x'] },
      gemini: { baseUrl: gemini.url, models: ['gemini-x'] },
      'openai-compatible': { baseUrl: `${compatible.url}/v1/`, models: ['llama-x'] },
    },
  }
}

async function healthy() {
  const cwd = folder()
  const { providers, ...all } = await vendors()
  const log = await openEmbeddedLog({ directory: join(cwd, 'data') })
  await log.close()
  chmodSync(join(cwd, 'data'), 0o700)
  writeFileSync(join(cwd, 'turnstream.keys'), `acme:web:${sha256Of('a')}\n`, { mode: 0o600 })
  const port = await freePort()
  // Little, so that the machine of the test has enough.
  const limits = { maxConnections: 10, maxRunningTurns: 1 }
  writeConfig(cwd, { port, store: 'data', keysFile: 'turnstream.keys', providers, ...limits })
  return { cwd, port, ...all }
}

describe('a correct setup', PATIENCE, () => {
  test('passes all checks with an embedded store', async () => {
    const { cwd } = await healthy()
    const { code, report, text, json } = await bothReports({ cwd, env: KEYS })
    expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
    expect([code, report.ok, report.failed, report.warned]).toEqual([0, true, 0, 0])
    expect(text).toContain('19 ok\n')
    for (const key of Object.values(KEYS)) expect(`${text}${json}`).not.toContain(key)
  })

  test('passes all checks with Redis, a public address and a stream token secret', async () => {
    const { cwd } = await healthy()
    const redis = await startRedis({ appendonly: 'everysec' })
    onTestFinished(async () => {
      await redis.stop()
    })
    const env = {
      ...KEYS,
      TURNSTREAM_STORE: `redis://127.0.0.1:${redis.port}`,
      TURNSTREAM_STREAM_TOKEN_SECRET: 'planted-Secret-of-at-least-32-characters',
    }
    const { code, report } = await bothReports({ cwd, env, args: ['--host', '0.0.0.0'] })
    expect(report.checks.filter(({ verdict }) => verdict !== 'ok')).toEqual([])
    expect(code).toBe(0)
  })

  test('requests the models of each vendor at its URL with its authentication header', async () => {
    const { cwd, openai, anthropic, gemini, compatible } = await healthy()
    await bothReports({ cwd, env: KEYS })
    expect(openai.seen[0]).toMatchObject({
      path: '/v1/models',
      headers: { authorization: `Bearer ${KEYS.OPENAI_API_KEY}` },
    })
    expect(anthropic.seen[0]).toMatchObject({
      path: '/v1/models?limit=1000',
      headers: { 'x-api-key': KEYS.ANTHROPIC_API_KEY, 'anthropic-version': '2023-06-01' },
    })
    expect(gemini.seen[0]).toMatchObject({
      path: '/v1beta/models?pageSize=1000',
      headers: { 'x-goog-api-key': KEYS.GEMINI_API_KEY },
    })
    expect(compatible.seen[0]).toMatchObject({
      path: '/v1/models',
      headers: { authorization: `Bearer ${KEYS.OPENAI_COMPATIBLE_API_KEY}` },
    })
  })

  test('is left unchanged, byte for byte', async () => {
    const { cwd } = await healthy()
    const state = () =>
      readdirSync(cwd, { recursive: true, withFileTypes: true }).map((entry) => {
        const path = join(entry.parentPath, entry.name)
        // LMDB notes its readers beside the data.
        const isNote = !entry.isFile() || path.endsWith('-lock')
        const bytes = isNote ? '' : readFileSync(path, 'base64')
        return [path, statSync(path).mode, isNote ? 0 : statSync(path).mtimeMs, bytes]
      })
    const before = state()
    await bothReports({ cwd, env: KEYS })
    expect(state()).toEqual(before)
  })
})

test('creates nothing that does not exist', PATIENCE, async () => {
  const cwd = folder()
  const { code, report } = await bothReports({ cwd, args: ['--port', '0', '--store', 'a/b/c'] })
  expect(checkNamed(report, 'store')).toEqual({
    name: 'store',
    verdict: 'ok',
    found: `embedded; ${cwd}/a/b/c will be created`,
  })
  expect([code, readdirSync(cwd)]).toEqual([0, []])
})

test('accepts an empty store directory and leaves it empty', PATIENCE, async () => {
  const cwd = folder()
  const { report } = await bothReports({ cwd, args: ['--port', '0', '--store', '.'] })
  expect(checkNamed(report, 'store')).toMatchObject({ verdict: 'ok' })
  expect(readdirSync(cwd)).toEqual([])
})

test('times out after five seconds for all silent peers concurrently', PATIENCE, async () => {
  const silent = createServer((socket) => socket.resume()).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => {
    silent.close()
  })
  const address = silent.address()
  const port = typeof address === 'object' ? address?.port : 0
  const cwd = folder()
  const baseUrl = `http://127.0.0.1:${port}`
  writeConfig(cwd, { providers: { openai: { baseUrl }, gemini: { baseUrl } } })
  const { terminal, clock, output } = fakeTerminal([], {
    cwd,
    env: { TURNSTREAM_STORE: `redis://127.0.0.1:${port}` },
  })
  const waits: number[] = []
  const started = new Promise<void>((resolve) => {
    const after: typeof clock.after = (ms, task) => {
      waits.push(ms)
      if (waits.length === 3) resolve()
      return clock.after(ms, task)
    }
    terminal.clock = { now: () => clock.now(), after }
  })
  const running = doctor.run(['--port', '0', '--json'], terminal)
  await started
  expect(waits).toEqual([5000, 5000, 5000])
  await clock.advance(5000)
  expect(await running).toBe(1)
  const { checks } = JSON.parse(output()) as { checks: { name: string; found: string }[] }
  for (const name of ['store', 'provider openai', 'provider gemini']) {
    expect(checks.find((check) => check.name === name)?.found).toContain('no response within 5 s')
  }
})

describe('usage errors', () => {
  test.each([
    [['--prot', '1'], 'unknown option --prot; did you mean --port?'],
    [['--port', '99999'], '--port must be an integer from 0 to 65535; got "99999"'],
    [['--model', 'x'], '--model and --api require --endpoint'],
    [['--endpoint', 'localhost'], '--endpoint must be an http:// or https:// URL'],
    [['--endpoint', 'http://me:secret@x/v1'], '--endpoint must be an http:// or https:// URL'],
    [['--endpoint', 'http://x/v1?key=secret'], '--endpoint must be an http:// or https:// URL'],
  ])('%j is refused', async (args, message) => {
    const { terminal } = fakeTerminal()
    const refusal = await doctor.run(args, terminal).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(UsageError)
    expect(String(refusal)).toContain(message)
    expect(String(refusal)).not.toContain('secret')
  })
})

test('prints colours only on terminals', PATIENCE, async () => {
  const styled: unknown[] = []
  const { terminal, output } = fakeTerminal([], {
    cwd: folder(),
    style: (style, text) => {
      styled.push(style)
      return `<${text}>`
    },
  })
  await doctor.run(['--port', '0', '--store', 'memory'], terminal)
  expect(output()).toMatch(/^<ok +>configuration/)
  expect(output()).toMatch(/^<warn +>store/m)
  expect(new Set(styled)).toEqual(new Set(['green', 'yellow', 'dim']))
  const report = await bothReports(defaults({}))
  expect(report.text).not.toContain('\u001b')
})
