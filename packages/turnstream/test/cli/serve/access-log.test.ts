/** What is logged of requests and turns, by a server in this process. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { serve } from '../../../src/cli/serve/serve.ts'
import { sha256Of } from '../../../src/server/auth/key-ring.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { untilTrue } from '../support.ts'

// Real connections, on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

const KEY = 'ts_the-key-of-acme'

async function start(args: string[]) {
  const cwd = mkdtempSync(join(tmpdir(), 'turnstream-traffic-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  writeFileSync(join(cwd, 'keys'), `acme:web:${sha256Of(KEY)}\n`)
  const { terminal, output, errors, signal } = fakeTerminal([], { clock: systemClock, cwd })
  const usual = ['--port', '0', '--store', 'memory', '--scripted-speed', '0', '--json']
  const running = serve.run([...usual, ...args], terminal)
  running.catch(() => {})
  await untilTrue(() => output() !== '')
  const end = async () => {
    signal('SIGTERM')
    await running
  }
  onTestFinished(end)
  const { url } = JSON.parse(output()) as { url: string }
  const lines = () =>
    errors()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  return { url, lines, errors, end }
}

/** Submits a private prompt and reads the answer to its end. */
async function converse(url: string, headers: Record<string, string> = {}): Promise<void> {
  const body = { turnId: 'a', threadId: 'h', prompt: 'a-private-prompt' }
  await fetch(`${url}/api/v2/submit`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-request-id': 'my-request', ...headers },
    body: JSON.stringify(body),
  })
  await (await fetch(`${url}/xapi/turns/a/stream?from=0-0&token=a-token`, { headers })).text()
}

const number = expect.any(Number)
const common = { time: expect.any(String), level: 'info' }

describe('with logRequests', PATIENCE, () => {
  test('every request and turn is one line with exactly these fields', async () => {
    const { url, lines, end, errors } = await start(['--log-requests', '--keys-file', 'keys'])
    await converse(url, { authorization: `Bearer ${KEY}` })
    await fetch(`${url}/api/v2/runs/a-private-id?token=a-token`)
    await end()
    const said = (message: string) => lines().filter((line) => line['message'] === message)
    const who = { requestId: expect.any(String), tenant: 'acme', key: 'web' }
    expect(said('request')).toEqual([
      {
        ...{ ...common, ...who, message: 'request', method: 'POST', route: '/api/v2/submit' },
        ...{ status: 202, durationMs: number, requestId: 'my-request', turnId: 'a' },
      },
      {
        ...{ ...common, ...who, message: 'request', method: 'GET', status: 200 },
        ...{ route: '/xapi/turns/:turnId/stream', durationMs: number, turnId: 'a' },
      },
      {
        ...{ ...common, message: 'request', method: 'GET', route: '/api/v2/runs/:runId' },
        ...{ status: 401, durationMs: number, requestId: who.requestId, code: 'KEY_REQUIRED' },
      },
    ])
    const turn = { ...common, turnId: 'a', threadId: 'h', tenant: 'acme', provider: 'scripted' }
    expect(said('turn started')).toEqual([{ ...turn, message: 'turn started', model: 'answer' }])
    expect(said('turn ended')).toEqual([
      {
        ...{ ...turn, message: 'turn ended', model: 'answer', status: 'completed' },
        ...{ durationMs: number, inputTokens: number, outputTokens: number },
      },
    ])
    expect(errors()).not.toMatch(/a-private|a-token|ts_the-key/)
  })

  test('a failed turn has its error code', async () => {
    const { url, lines, end } = await start(['--log-requests', '--max-turn-chars', '1'])
    await converse(url)
    await end()
    expect(lines()).toContainEqual(
      expect.objectContaining({
        ...{ message: 'turn ended', status: 'failed', code: 'TURN_TEXT_LIMIT' },
      }),
    )
  })
})

test('is off by default', PATIENCE, async () => {
  const { url, lines, end } = await start([])
  await converse(url)
  await end()
  expect(lines().map(({ message }) => message)).toEqual(['shutting down'])
})

describe('the metrics of a server', PATIENCE, () => {
  test('are public on loopback without keys', async () => {
    const { url } = await start([])
    expect((await fetch(`${url}/metrics`)).status).toBe(200)
  })

  test('W8 are disabled on public addresses without keys', async () => {
    const { url } = await start(['--host', '0.0.0.0', '--allow-public-without-keys'])
    const local = url.replace('0.0.0.0', '127.0.0.1')
    expect((await fetch(`${local}/metrics`)).status).toBe(404)
    expect((await fetch(`${local}/readyz`)).status).toBe(200)
  })
})
