import { describe, expect, onTestFinished, test } from 'vitest'
import { read } from '../../../../../test/repository/sources.ts'
import { section } from '../../../../../test/repository/tables.ts'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { ERROR_CODES } from '../../../../core/src/index.ts'
import { ROUTES } from '../../../../core/src/protocol/names.ts'
import { parseServeOptions, serve } from '../../../src/cli/serve/serve.ts'
import { KEY_LIMITS, resolveLimits } from '../../../src/server/limits/key-limits.ts'
import { PORT_LIMITS } from '../../../src/server/limits/port-limits.ts'
import { sendRaw } from '../../server/raw-http.ts'
import { Wire } from '../../server/wire.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { untilTrue } from '../support.ts'

const PATIENCE = { timeout: 30_000 }

function settingsOf(...args: string[]) {
  return parseServeOptions(args, { cwd: '/nowhere', env: {} }).settings
}

async function start(...args: string[]): Promise<string> {
  const around = { clock: systemClock, env: {}, cwd: process.cwd() }
  const { terminal, output, signal } = fakeTerminal([], around)
  const running = serve.run(['--port', '0', '--store', 'memory', ...args], terminal)
  running.catch(() => {})
  await untilTrue(() => output() !== '')
  onTestFinished(async () => {
    signal('SIGTERM')
    await running
  })
  return /http:\/\/[^\s"]+/.exec(output())?.[0] ?? ''
}

async function submit(url: string, body: object = {}): Promise<string> {
  const response = await fetch(`${url}${ROUTES.submit}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Hi', ...body }),
  })
  const { error } = (await response.json()) as { error?: { code: string } }
  return `${response.status} ${error?.code ?? ''}`
}

describe('the limit settings', () => {
  test('default to the limits of the library', () => {
    expect(resolveLimits(KEY_LIMITS, settingsOf())).toEqual(KEY_LIMITS)
    expect(resolveLimits(PORT_LIMITS, settingsOf())).toEqual(resolveLimits(PORT_LIMITS, {}))
  })

  const COUNTS = ['submits-per-minute', 'max-running-turns', 'max-open-streams', 'max-connections']

  test.each(COUNTS)('--%s must be a number or unlimited', (flag) => {
    const limits = (value: string) => {
      const settings = settingsOf(`--${flag}=${value}`)
      return Object.values(settings)
    }
    expect(limits('77')).toContain(77)
    expect(limits('unlimited')).toContain(Infinity)
    for (const value of ['0', '-1', '1.5', 'none', 'Infinity', '']) {
      expect(() => limits(value)).toThrow(
        `--${flag} must be an integer ≥ 1, or unlimited; got "${value}"`,
      )
    }
  })

  test('times need a unit, sizes are numbers', () => {
    expect(settingsOf('--headers-timeout', '5s', '--write-timeout', '2m')).toMatchObject({
      headersTimeoutMs: 5000,
      writeTimeoutMs: 120_000,
    })
    expect(settingsOf('--max-url-bytes', '100').maxUrlBytes).toBe(100)
    expect(() => settingsOf('--max-header-bytes', 'unlimited')).toThrow('an integer ≥ 1')
    expect(() => settingsOf('--request-timeout', '60')).toThrow('a duration')
  })
})

describe('a server', PATIENCE, () => {
  test('applies its limits per key', { tags: ['slow'] }, async () => {
    const url = await start(
      ...['--submits-per-minute', '2', '--max-running-turns', '1', '--max-open-streams', '1'],
    )
    const long = { model: 'scripted/long', turnId: 'long' }
    expect(await submit(url, long)).toBe('202 ')
    expect(await submit(url)).toBe('429 TURNS_LIMITED')
    const { body } = await fetch(`${url}/xapi/turns/long/stream`)
    expect((await fetch(`${url}/xapi/turns/long/stream`)).status).toBe(429)
    await body?.cancel()
    await fetch(`${url}/api/v2/runs/long/cancel`, { method: 'POST' })
    await untilTrue(async () => (await submit(url)) === '202 ')
    expect(await submit(url)).toBe('429 SUBMITS_LIMITED')
  })

  test('applies its port limits', async () => {
    const url = await start(
      ...['--max-url-bytes', '50', '--max-header-bytes', '500', '--max-connections', '1'],
      ...['--headers-timeout', '300ms', '--request-timeout', '300ms', '--keep-alive-timeout', '1m'],
    )
    const get = (path: string, more = '') =>
      sendRaw(url, `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n${more}\r\n`)
    expect((await get(`/${'x'.repeat(50)}`)).status).toBe(414)
    expect((await get('/healthz', `x: ${'x'.repeat(500)}\r\n`)).status).toBe(431)
    expect((await get('/healthz')).status).toBe(200)
    const slow = await Wire.open(url)
    slow.send('GET /')
    expect((await get('/healthz')).status).toBe(503)
    await slow.closed
    expect(slow.status).toBe(408)
  })
})

test('docs/configuration.md gives the code of every limit', () => {
  const text = section(read('docs/configuration.md'), 'Settings')
  const limits = Object.keys(ERROR_CODES).filter((code) =>
    /_LIMITED$|^TURN_\w+_LIMIT$|^(?:BODY|HEADERS|INPUT|URL)_TOO_/.test(code),
  )
  expect(limits.length).toBeGreaterThan(10)
  expect(limits.filter((code) => !text.includes(`\`${code}\``))).toEqual([])
})
