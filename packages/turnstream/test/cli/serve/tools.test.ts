import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../../../core/src/async/clock.ts'
import { UsageError } from '../../../src/cli/command.ts'
import { CONFIG_FILE } from '../../../src/cli/serve/configuration.ts'
import { parseServeOptions } from '../../../src/cli/serve/serve.ts'
import { StartError } from '../../../src/cli/serve/store.ts'
import { openTools, type ToolPlan } from '../../../src/cli/serve/tools.ts'
import type { Tool } from '../../../src/server.ts'

let cwd = ''
beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), 'turnstream-tools-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
})

function parse(tools: unknown, env: Record<string, string> = {}) {
  writeFileSync(join(cwd, CONFIG_FILE), JSON.stringify({ tools }))
  return parseServeOptions([], { cwd, env })
}

const URL = 'https://weather.example/v1'

describe('an entry of tools', () => {
  test('with http is one tool, with the values of variables in its headers', () => {
    const headers = { authorization: 'Bearer ${WEATHER_TOKEN}', 'accept-language': 'en' }
    const entry = {
      name: 'weather',
      description: 'Tells the weather',
      http: { url: URL, headers, timeoutMs: 5000 },
    }
    const options = parse([entry], { WEATHER_TOKEN: 'the-secret-token' })
    expect(options.tools).toEqual([
      {
        kind: 'http',
        options: {
          name: 'weather',
          description: 'Tells the weather',
          parameters: { type: 'object', properties: {} },
          url: URL,
          headers: { authorization: 'Bearer the-secret-token', 'accept-language': 'en' },
          timeoutMs: 5000,
        },
      },
    ])
    expect(options.redact('the-secret-token')).toBe('[redacted]')
  })

  test('takes the value of a variable from a file', () => {
    const file = join(cwd, 'token')
    writeFileSync(file, 'from-a-file\n', { mode: 0o600 })
    const entry = { name: 'w', http: { url: URL, headers: { 'x-key': '${TOKEN}' } } }
    const [plan] = parse([entry], { TOKEN_FILE: file }).tools
    expect(plan).toMatchObject({ options: { headers: { 'x-key': 'from-a-file' } } })
  })

  test('with module is found beside the file', () => {
    mkdirSync(join(cwd, 'etc'))
    const tools = [{ module: './tools.mjs' }]
    writeFileSync(join(cwd, 'etc/gateway.json'), JSON.stringify({ tools }))
    const options = parseServeOptions(['--config', 'etc/gateway.json'], { cwd, env: {} })
    expect(options.tools).toEqual([{ kind: 'module', file: join(cwd, 'etc/tools.mjs') }])
  })

  test('with mcp is a process with its own environment, or a URL', () => {
    const { tools } = parse(
      [
        { name: 'files', mcp: { command: 'npx', args: ['-y', 'x'], env: { TOKEN: '${MINE}' } } },
        { name: 'remote', mcp: { url: URL, headers: { 'x-key': '${MINE}' }, timeoutMs: 9 } },
      ],
      { MINE: 'my-own-value' },
    )
    expect(tools).toMatchObject([
      {
        kind: 'mcp',
        options: {
          name: 'files',
          server: { command: 'npx', args: ['-y', 'x'], env: { TOKEN: 'my-own-value' }, cwd },
        },
      },
      {
        kind: 'mcp',
        options: {
          name: 'remote',
          timeoutMs: 9,
          server: { url: URL, headers: { 'x-key': 'my-own-value' } },
        },
      },
    ])
  })

  const http = { url: URL }
  const mcp = { command: 'x' }
  test.each([
    [{}, `tools of ${CONFIG_FILE} must be a list`],
    [[5], `tools.0 of ${CONFIG_FILE}: must have one of http, module and mcp`],
    [[{ name: 'w', http, mcp }], `tools.0 of ${CONFIG_FILE}: must have one of http`],
    [[{ http }], `tools.0.name of ${CONFIG_FILE}: is required`],
    [[{ name: 'a b', http }], `tools.0.name of ${CONFIG_FILE}: must have 1 to 64 letters`],
    [[{ name: 'a__b', mcp }], `tools.0.name of ${CONFIG_FILE}: must have 1 to 32 letters`],
    [
      [{ module: 'x' }, { name: 'w', http, parametres: {} }],
      `tools.1 of ${CONFIG_FILE} has an unknown key parametres; did you mean parameters?`,
    ],
    [
      [{ name: 'w', http: { ...http, timeout: 5 } }],
      `tools.0.http of ${CONFIG_FILE} has an unknown key timeout; did you mean timeoutMs?`,
    ],
    [
      [{ name: 'w', mcp: { comand: 'x' } }],
      `tools.0.mcp.command of ${CONFIG_FILE}: must be a non-empty string`,
    ],
    [
      [{ name: 'w', http: { url: 'ftp://x' } }],
      `tools.0.http.url of ${CONFIG_FILE}: must be an http:// or https:// URL`,
    ],
    [
      [{ name: 'w', http: { url: 'https://me:pw@x' } }],
      `tools.0.http.url of ${CONFIG_FILE}: must be an http:// or https:// URL without credentials`,
    ],
    [
      [{ name: 'w', http: { ...http, headers: { authorization: 'Bearer abc' } } }],
      `tools.0.http.headers.authorization of ${CONFIG_FILE}: must come from an environment variable`,
    ],
    [
      [{ name: 'w', http: { ...http, headers: { 'a b': '' } } }],
      `tools.0.http.headers.a b of ${CONFIG_FILE}: is not a valid header name`,
    ],
    [
      [{ name: 'w', http: { ...http, headers: { 'x-key': '${NOT_SET}' } } }],
      'tools.0.http.headers.x-key: the variable NOT_SET is not set',
    ],
    [
      [{ name: 'w', http, parameters: { type: 'object', required: 'city' } }],
      `tools.0.parameters of ${CONFIG_FILE}: required must be a list of names`,
    ],
    [
      [{ name: 'w', http: { ...http, timeoutMs: 0 } }],
      `tools.0.http.timeoutMs of ${CONFIG_FILE}: must be an integer from 1`,
    ],
    [
      [
        { name: 'w', http },
        { name: 'w', mcp },
      ],
      `tools of ${CONFIG_FILE} has w twice`,
    ],
  ])('is refused: %j', (tools, message) => {
    expect(() => parse(tools)).toThrow(UsageError)
    expect(() => parse(tools)).toThrow(message)
  })

  test('that sends secrets over plain http is warned about', () => {
    const entry = { name: 'w', http: { url: 'http://w.example/', headers: { 'x-key': '${T}' } } }
    expect(parse([entry], { T: 'something' }).warnings).toEqual([
      'secrets of w are sent over plain http: anyone on the network path can read them',
    ])
  })
})

describe('a module', () => {
  const deps = {
    logger: { info: () => {}, warn: () => {} },
    clock: systemClock,
    secrets: ['the-secret-token'],
    logContent: false,
  }

  function plan(code: string): ToolPlan {
    const file = join(cwd, `${crypto.randomUUID()}.mjs`)
    writeFileSync(file, code)
    return { kind: 'module', file }
  }

  test('has tools whose outputs and errors hold no secret', async () => {
    const code = `export default [
      { name: 'tell', parameters: {}, execute: () => ({ token: 'the-secret-token' }) },
      { name: 'fail', parameters: {}, execute() { throw new Error('the-secret-token') } },
    ]`
    const { entries } = await openTools([plan(code)], deps)
    const [tell, fail] = entries as Tool[]
    expect(await tell?.execute({}, {} as never)).toBe('{"token":"[redacted]"}')
    await expect(fail?.execute({}, {} as never)).rejects.toThrow(new Error('[redacted]'))
  })

  test('V8 keeps needsApproval of its tools, unless the configuration overrides it', async () => {
    const code = `export default [
      { name: 'a', parameters: {}, needsApproval: true, execute: () => '' },
      { name: 'b', parameters: {}, execute: () => '' },
    ]`
    const needs = async (override: object) => {
      const { entries } = await openTools([{ ...plan(code), ...override }], deps)
      return (entries as Tool[]).map(({ needsApproval }) => needsApproval)
    }
    expect(await needs({})).toEqual([true, undefined])
    expect(await needs({ needsApproval: true })).toEqual([true, true])
    expect(await needs({ needsApproval: false })).toEqual([false, false])
  })

  test.each([
    ['export default 5', 'the default export must be a list of tools'],
    ['throw new Error("not today")', 'not today'],
  ])('that cannot be used refuses the start: %s', async (code, message) => {
    await expect(openTools([plan(code)], deps)).rejects.toThrow(StartError)
    await expect(openTools([plan(code)], deps)).rejects.toThrow(message)
  })
})
