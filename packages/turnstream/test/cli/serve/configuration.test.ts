import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { formatHelp, UsageError } from '../../../src/cli/command.ts'
import { CONFIG_FILE } from '../../../src/cli/serve/configuration.ts'
import { parseServeOptions, type ServeOptions, serve } from '../../../src/cli/serve/serve.ts'
import {
  SETTING_NAMES,
  type SettingName,
  toFlag,
  toVariable,
} from '../../../src/cli/serve/settings.ts'

let cwd = ''
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'turnstream-config-'))
})
beforeEach(() => rmSync(join(cwd, CONFIG_FILE), { force: true }))
afterAll(() => rmSync(cwd, { recursive: true, force: true }))

function writeConfig(config: unknown, name = CONFIG_FILE): void {
  writeFileSync(join(cwd, name), typeof config === 'string' ? config : JSON.stringify(config))
}

function parse(args: string[] = [], env: Record<string, string> = {}) {
  return parseServeOptions(args, { env, cwd })
}

function refusal(args: string[], env: Record<string, string> = {}): string {
  try {
    parse(args, env)
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    return (error as Error).message
  }
  throw new Error('it was not refused')
}

describe('the defaults', () => {
  test('are loopback, port 4010, and a store in the current directory', () => {
    const { settings, store, json, instance } = parse()
    expect(settings).toMatchObject({ host: '127.0.0.1', port: 4010, leaseMs: 10_000 })
    expect(settings).toMatchObject({ heartbeatMs: 15_000, shutdownGraceMs: 30_000 })
    expect(settings).toMatchObject({ maxBodyBytes: 4 * 1024 * 1024, maxTurnTimeMs: 1_800_000 })
    expect([settings.retentionMs, settings.defaultProvider]).toEqual([undefined, undefined])
    expect(store).toEqual({ kind: 'embedded', directory: join(cwd, '.turnstream') })
    expect(json).toBe(false)
    expect(instance).toMatch(/:\d+$/)
  })
})

describe('W9 the command line wins over the environment, which wins over the file', () => {
  const rows: [SettingName, file: unknown, variable: string, flag: string, unknown[]][] = [
    ['port', 1, '2', '3', [1, 2, 3]],
    ['host', '127.0.0.1', '127.0.0.2', '127.0.0.3', ['127.0.0.1', '127.0.0.2', '127.0.0.3']],
    ['lease', '1s', '2s', '3s', [1000, 2000, 3000]],
    ['scriptedSpeed', 1, '2.5', '0', [1, 2.5, Infinity]],
    ['reattach', 0, '0', '90s', [0, 0, 90_000]],
    ['instance', 'a', 'b', 'c', ['a', 'b', 'c']],
    ['maxTurnItems', 5, '6', '7', [5, 6, 7]],
    ['processor.batchGradient', [], '5, 10', 'none', [[], [5, 10], []]],
    ['processor.retryMax', '1s', '2s', '3s', [1000, 2000, 3000]],
    ['processor.retryAttempts', 0, '2', 'unlimited', [0, 2, Infinity]],
  ]

  test.each(rows)('%s', (name, file, variable, flag, expected) => {
    const [group = '', key] = name.split('.')
    writeConfig({ [group]: key === undefined ? file : { [key]: file } })
    const env = { [toVariable(name)]: variable }
    const valueIn = ({ settings }: ServeOptions) => {
      const values = { ...settings, ...settings.processor } as Record<string, unknown>
      const option = key ?? group
      return values[option] ?? values[`${option}Ms`]
    }
    expect(valueIn(parse())).toEqual(expected[0])
    expect(valueIn(parse([], env))).toEqual(expected[1])
    expect(valueIn(parse([`--${toFlag(name)}`, flag], env))).toEqual(expected[2])
  })

  test('each setting on its own', () => {
    writeConfig({ port: 1, lease: '1s', heartbeat: '1s' })
    const { settings } = parse(['--heartbeat', '3s'], { TURNSTREAM_LEASE: '2s' })
    expect(settings).toMatchObject({ port: 1, leaseMs: 2000, heartbeatMs: 3000 })
  })

  test('--config names another file, and the default file is not read then', () => {
    writeConfig({ port: 1, host: 'nonsense.example' })
    writeConfig({ port: 2 }, 'other.json')
    expect(parse(['--config', 'other.json']).settings).toMatchObject({ port: 2, host: '127.0.0.1' })
    expect(parse(['--config', join(cwd, 'other.json')]).settings.port).toBe(2)
  })

  test('an empty variable counts as unset', () => {
    expect(parse([], { TURNSTREAM_PORT: '', TURNSTREAM_STORE: ' ' }).settings.port).toBe(4010)
  })

  test('the store URL may come from a file', () => {
    writeConfig('redis://:secret@redis:6379/1\n', 'store-address')
    const { store } = parse([], { TURNSTREAM_STORE_FILE: join(cwd, 'store-address') })
    expect(store).toEqual({ kind: 'redis', url: 'redis://:secret@redis:6379/1', prefix: 'codex' })
  })

  test('variables that Kubernetes sets for a service named turnstream are ignored', () => {
    const env = {
      TURNSTREAM_PORT: 'tcp://10.0.0.1:4010',
      TURNSTREAM_PORT_4010_TCP_ADDR: '10.0.0.1',
      TURNSTREAM_SERVICE_HOST: '10.0.0.1',
      TURNSTREAM_SERVICE_PORT: '4010',
      TURNSTREAM_SERVICE_PORT_HTTP: '4010',
    }
    expect(parse([], env).settings.port).toBe(4010)
  })
})

test('ignores a byte order mark in the file', () => {
  writeConfig('\uFEFF{"port":5000}')
  expect(parse().settings.port).toBe(5000)
})

describe('a store is', () => {
  test.each([
    ['memory', { kind: 'memory' }],
    ['/var/lib/turnstream', { kind: 'embedded', directory: '/var/lib/turnstream' }],
    ['redis://localhost', { kind: 'redis', url: 'redis://localhost', prefix: 'codex' }],
    ['rediss://user:pass@host:1/2', { kind: 'redis', url: 'rediss://user:pass@host:1/2' }],
  ])('%s', (text, store) => {
    expect(parse(['--store', text]).store).toMatchObject(store)
  })
})

describe('refuses', () => {
  test.each([
    [['--port', 'http'], '--port must be an integer from 0 to 65535; got "http"'],
    [['--port', '65536'], '--port must be an integer from 0 to 65535'],
    [['--port', '1.5'], '--port must be'],
    [['--lease', '10'], '--lease must be a duration such as 500ms, 10s'],
    [['--heartbeat', 'soon'], '--heartbeat must be'],
    [['--max-turn-items', '0'], '--max-turn-items must be an integer ≥ 1'],
    [
      ['--processor-batch-gradient', '10,0'],
      '--processor-batch-gradient must be up to 1000 comma-',
    ],
    [['--processor-batch-gradient', '10,,20'], 'integers from 1 to 1000000, or none; got "10,,20"'],
    [['--processor-batch-gradient', '1,'.repeat(1000) + '1'], 'must be up to 1000 comma-separated'],
    [['--processor-max-latency', '2h'], '--processor-max-latency must be a duration of at most 1h'],
    [['--processor-retry-base', '0'], '--processor-retry-base must be a duration'],
    [['--processor-retry-base', '11s'], 'processor.retryBase must be at most the lease, 10s'],
    [['--processor-retry-attempts', '-1'], '--processor-retry-attempts'],
    [['--processor-max-argument-chars', '0'], 'must be an integer from 1 to 100000000; got "0"'],
    [['--scripted-speed', 'fast'], '--scripted-speed must be a number ≥ 0'],
    [['--store', ''], '--store must be a directory, redis://…, rediss://… or memory'],
    [['--store', 'postgres://u:hidden@host'], '--store must be a directory'],
    [['--store', 'redis://me:50%off@host'], 'contains an invalid % escape: write % as'],
    [['--store', 'redis://m%e:word@host'], 'contains an invalid % escape'],
    [['--store', 'redis://host/turns'], 'must be a database number'],
    [['--prot', '1'], 'unknown option --prot; did you mean --port?'],
    [['--config', '.'], ': is a directory'],
    [['--config', 'nowhere.json'], 'nowhere.json: no such file'],
    [['--host', '0.0.0.0'], '0.0.0.0 is reachable from other machines'],
    [['--host', 'gateway.internal'], '--allow-public-without-keys'],
    [
      ['--default-provider', 'openai'],
      'the default provider openai is not available: set OPENAI_API_KEY',
    ],
    [['--default-provider', 'scriptde'], 'did you mean scripted?'],
    [
      ['--default-provider', 'openai-compatible'],
      'set OPENAI_COMPATIBLE_BASE_URL and OPENAI_COMPATIBLE_MODEL',
    ],
  ])('%j', (args, message) => {
    expect(refusal(args)).toContain(message)
  })

  test.each([
    [{ TURNSTREAM_PORT: 'x' }, 'TURNSTREAM_PORT must be an integer'],
    [{ TURNSTREAM_LAESE: '1s' }, 'unknown TURNSTREAM_LAESE; did you mean TURNSTREAM_LEASE?'],
    [{ TURNSTREAM_STORE: 'a', TURNSTREAM_STORE_FILE: 'b' }, 'are both set: keep one'],
    [{ TURNSTREAM_STORE_FILE: '/no/such/file' }, 'TURNSTREAM_STORE_FILE cannot be read'],
    [{ TURNSTREAM_ALLOW_PUBLIC_WITHOUT_KEYS: 'yes' }, 'must be true or false; got "yes"'],
    [{ OPENAI_API_KEY: 'a', OPENAI_API_KEY_FILE: 'b' }, 'are both set'],
    [{ OPENAI_COMPATIBLE_BASE_URL: 'http://x/v1' }, 'no model: set OPENAI_COMPATIBLE_MODEL'],
    [
      { OPENAI_COMPATIBLE_BASE_URL: 'x', OPENAI_COMPATIBLE_MODEL: 'm' },
      'must be an http:// or https://',
    ],
  ])('%j', (env, message) => {
    expect(refusal([], env)).toContain(message)
  })

  test.each([
    ['{', 'turnstream.config.json: not JSON'],
    ['[]', 'turnstream.config.json must be a JSON object'],
    [{ prot: 1 }, 'turnstream.config.json has an unknown key prot; did you mean port?'],
    [{ port: '' }, 'port of turnstream.config.json must be an integer'],
    [{ port: null }, 'got null'],
    [{ processor: [] }, 'processor of turnstream.config.json must be an object'],
    [{ processor: { retryMin: '1s' } }, 'has an unknown key processor.retryMin; did you mean'],
    [
      { processor: { retryMax: 1 } },
      'processor.retryMax of turnstream.config.json must be a duration',
    ],
    [{ 'processor.retryMax': '1s' }, 'write it as a key of processor'],
    [{ lease: 10 }, 'lease of turnstream.config.json must be a duration'],
    [{ host: 'x'.repeat(200), allowPublicWithoutKeys: 1 }, 'must be true or false'],
    [{ providers: { opnai: {} } }, 'has an unknown key opnai; did you mean openai?'],
    [{ providers: { openai: { baseURL: 'x' } } }, 'unknown key baseURL; did you mean baseUrl?'],
    [{ providers: { openai: { apiKey: 'sk' } } }, 'come from the environment only'],
    [{ providers: { openai: { baseUrl: 'ftp://x' } } }, 'providers.openai.baseUrl of turnstream'],
    [{ providers: { gemini: { baseUrl: 'https://u:p@x' } } }, 'without credentials'],
    [{ providers: { gemini: { models: [] } } }, 'must be a list of at least one model, or "any"'],
    [{ providers: { gemini: { connectTimeout: 10 } } }, 'providers.gemini.connectTimeout'],
    [{ providers: { gemini: { connectTimeout: 'x' } } }, 'must be a duration'],
    [
      { providers: { anthropic: { modelTraits: { x: { thinking: 'on' } } } } },
      'providers.anthropic.modelTraits.x.thinking of turnstream.config.json: must be one of budget',
    ],
    [{ providers: { anthropic: { modelTraits: { x: { effort: [] } } } } }, 'unknown key effort'],
    [{ providers: 1 }, 'providers of turnstream.config.json must be an object or a list'],
    [{ providers: [{ kind: 'gemini' }] }, 'providers.0 of turnstream.config.json'],
    [
      {
        providers: [
          { id: 'a', kind: 'gemini' },
          { id: 'a', kind: 'gemini' },
        ],
      },
      'has a twice',
    ],
    [{ providers: { scripted: { kind: 'gemini' } } }, 'is neither scripted nor codex'],
    [
      { codex: { modles: ['m'] } },
      'codex of turnstream.config.json has an unknown key modles; did you mean models?',
    ],
    [{ codex: { models: [] } }, 'codex.models of turnstream.config.json: must be a list of at'],
    [
      { codex: { models: ['agent'] } },
      'codex.models of turnstream.config.json: must not contain agent',
    ],
    [
      { codex: { agent: { directory: '.' } } },
      'codex.agent.sandbox of turnstream.config.json: must be read-only, workspace-write or danger-',
    ],
    [
      { codex: { agent: { directory: '.', sandbox: 'none' } } },
      'codex.agent.sandbox of turnstream.config.json: must be read-only, workspace-write or danger-',
    ],
    [
      { codex: { agent: { directory: '.', sandbox: 'read-only', approvals: 'always' } } },
      'codex.agent.approvals of turnstream.config.json: must be never, refuse or ask',
    ],
    [
      { codex: { agent: { directory: '.', sandbox: 'danger-full-access', approvals: 'ask' } } },
      'codex.agent.approvals of turnstream.config.json: with danger-full-access codex needs no',
    ],
    [
      { codex: { agent: { directory: 'missing', sandbox: 'read-only' } } },
      'missing is not a directory',
    ],
    [
      { codex: { login: 'chatgpt', agent: { directory: '.', sandbox: 'read-only' } } },
      'codex.login of turnstream.config.json: commands of the agent could read it',
    ],
    [{ codex: { login: 'me' } }, "codex.login of turnstream.config.json: must be 'chatgpt'"],
    [
      { codex: { baseUrl: 'localhost' } },
      'codex.baseUrl of turnstream.config.json: must be an http',
    ],
    [{ providers: { 'A b': { kind: 'gemini' } } }, 'an id has lower-case letters'],
    [{ providers: { groq: {} } }, 'your own provider needs a kind: openai, anthropic, gemini'],
    [{ providers: { groq: { kind: 'grok' } } }, 'providers.groq.kind of turnstream.config.json'],
    [{ providers: { gemini: { kind: 'openai' } } }, 'use another id for another kind'],
    [
      { providers: { groq: { kind: 'gemini', keyVariable: 'sk-1' } } },
      'the name of an environment variable',
    ],
  ])('%j', (config, message) => {
    writeConfig(config)
    expect(refusal([])).toContain(message)
  })

  test('a long value is truncated, and one that may contain a password is not printed', () => {
    expect(refusal(['--port', 'x'.repeat(500)]).length).toBeLessThan(200)
    expect(refusal(['--store', 'postgres://u:hidden@host'])).not.toContain('hidden')
  })
})

describe('a public address', () => {
  test.each([
    [['--host', '127.0.0.9']],
    [['--host', 'localhost']],
    [['--host', '::1']],
    [['--host', '0.0.0.0', '--allow-public-without-keys']],
  ])('%j is accepted', (args) => {
    expect(parse(args).settings.host).toBe(args[1])
  })
})

describe('--help', () => {
  test.each(SETTING_NAMES)('explains %s', (name) => {
    expect(formatHelp(serve)).toContain(`--${toFlag(name)}`)
  })
})
