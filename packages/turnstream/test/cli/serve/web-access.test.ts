/** Which pages and which names a server answers, from the settings to the answers. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { UsageError } from '../../../src/cli/command.ts'
import { CONFIG_FILE } from '../../../src/cli/serve/configuration.ts'
import { parseServeOptions, serve, webAccess } from '../../../src/cli/serve/serve.ts'
import { ask } from '../../server/web/browser.ts'
import { fakeTerminal } from '../fake-terminal.ts'
import { untilTrue } from '../support.ts'

const LOOPBACK = ['localhost', '127.0.0.1', '::1']

function folder(config?: unknown): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-web-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  if (config !== undefined) writeFileSync(join(made, CONFIG_FILE), JSON.stringify(config))
  return made
}

interface Given {
  readonly args?: string[]
  readonly env?: Record<string, string>
  readonly file?: unknown
}

function accessOf({ args = [], env = {}, file }: Given) {
  return webAccess(parseServeOptions(args, { env, cwd: folder(file) }).settings)
}

describe('a list setting', () => {
  test.each<[string, Given]>([
    ['an option', { args: ['--cors-origins', 'https://a.example, HTTP://b:80'] }],
    ['a variable', { env: { TURNSTREAM_CORS_ORIGINS: ' https://a.example ,http://b' } }],
    ['a text of the file', { file: { corsOrigins: 'https://a.example,http://b,' } }],
    ['a list of the file', { file: { corsOrigins: ['https://a.example', 'http://b'] } }],
  ])('is read from %s', (_name, given) => {
    expect(accessOf(given).corsOrigins).toEqual(['https://a.example', 'http://b'])
  })

  test('of the command line replaces other sources', () => {
    const file = { allowedHosts: ['a.example'], corsOrigins: ['https://a.example'] }
    const env = { TURNSTREAM_ALLOWED_HOSTS: 'b.example' }
    const args = ['--allowed-hosts', 'c.example', '--cors-origins', '']
    const { allowedHosts, corsOrigins } = accessOf({ file, env, args })
    expect([allowedHosts?.slice(-1), corsOrigins]).toEqual([['c.example'], []])
  })

  test.each<[Given, string]>([
    [
      { args: ['--cors-origins', 'app.example'] },
      '--cors-origins must be comma-separated origins such as https://',
    ],
    [
      { env: { TURNSTREAM_CORS_ORIGINS: 'https://a/b' } },
      'TURNSTREAM_CORS_ORIGINS must be comma-separated origins',
    ],
    [
      { file: { corsOrigins: ['https://*.a'] } },
      `corsOrigins of ${CONFIG_FILE} must be comma-separated origins`,
    ],
    [{ file: { corsOrigins: [7] } }, 'must be comma-separated origins'],
    [{ file: { corsOrigins: true } }, 'must be comma-separated origins'],
    [
      { args: ['--allowed-hosts', 'a:80'] },
      '--allowed-hosts must be comma-separated names or addresses without a port',
    ],
    [{ args: ['--allowed-hosts', '*'] }, '--allowed-hosts must be comma-separated names'],
    [{ args: ['--cors-origins', '*'] }, 'list the origins, or require keys'],
    [
      { args: ['--cors-origins', '*,https://a'] },
      '* allows every origin and must be the only entry',
    ],
  ])('that is invalid is refused: %j', (given, message) => {
    expect(() => accessOf(given)).toThrow(UsageError)
    expect(() => accessOf(given)).toThrow(message)
  })

  test('may be every origin when keys are required', () => {
    const args = ['--cors-origins', '*', '--keys-file', 'keys']
    expect(accessOf({ args }).corsOrigins).toEqual(['*'])
  })
})

describe('the allowed host names', () => {
  const keys = ['--keys-file', 'keys']
  const open = ['--host', '0.0.0.0', '--allow-public-without-keys']
  const more = ['--allowed-hosts', 'turns.example']

  test.each<[string, string[], readonly string[] | undefined]>([
    ['on loopback without keys', [], [...LOOPBACK, '127.0.0.1']],
    ['on another loopback', ['--host', '127.0.0.9'], [...LOOPBACK, '127.0.0.9']],
    ['on loopback, with a name', more, [...LOOPBACK, '127.0.0.1', 'turns.example']],
    ['with keys', keys, undefined],
    ['with keys, and a name', [...keys, ...more], ['turns.example']],
    ['on every address', open, undefined],
    ['on every address, with a name', [...open, ...more], ['turns.example']],
  ])('%s', (_name, args, names) => {
    expect(accessOf({ args }).allowedHosts).toEqual(names)
  })
})

test('are enforced by a running server', { timeout: 30_000 }, async () => {
  const { terminal, output, signal } = fakeTerminal([], {
    clock: systemClock,
    env: {},
    cwd: folder(),
  })
  const lists = ['--cors-origins', 'https://app.example', '--allowed-hosts', 'turns.example']
  const running = serve.run(['--port', '0', '--store', 'memory', ...lists], terminal)
  await untilTrue(() => output() !== '')
  onTestFinished(async () => {
    signal('SIGTERM')
    await running
  })
  const url = /http:\/\/[^\s"]+/.exec(output())?.[0] ?? ''
  const status = async (headers: Record<string, string>) =>
    (await ask(`${url}/api/v2/threads`, { headers })).status
  expect(await status({})).toBe(200)
  expect(await status({ host: 'localhost:4010' })).toBe(200)
  expect(await status({ host: '[::1]:4010' })).toBe(200)
  expect(await status({ host: 'turns.example' })).toBe(200)
  expect(await status({ host: 'evil.example' })).toBe(421)
  expect(await status({ origin: 'https://app.example' })).toBe(200)
  expect(await status({ origin: 'https://evil.example' })).toBe(403)
})
