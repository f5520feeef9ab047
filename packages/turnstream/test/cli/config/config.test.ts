import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { UsageError } from '../../../src/cli/command.ts'
import { config, printedSetting } from '../../../src/cli/config.ts'
import { SETTING_NAMES } from '../../../src/cli/serve/settings.ts'
import { fakeTerminal } from '../fake-terminal.ts'

const SECRETS = {
  password: 'planted-Pass/word-0123456789',
  token: 'planted-token-secret-of-32-characters',
  openai: 'sk-planted-openai-0123456789',
  compatible: 'planted-compatible-0123456789',
}

interface Printed {
  settings: { name: string; value: unknown; source: string; origin?: string; otherwise?: string }[]
  providers: { id: string; active: boolean; hasKey: boolean; [field: string]: unknown }[]
  tools: { name: string; kind: string; target: string }[]
}

interface Expected {
  value: string
  source: string
  origin?: string
}

interface Setup {
  args?: string[]
  env?: Record<string, string>
  file?: unknown
}

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'turnstream-config-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

async function print({ args = [], env = {}, file }: Setup = {}) {
  const cwd = folder()
  if (file !== undefined) writeFileSync(join(cwd, 'turnstream.config.json'), JSON.stringify(file))
  const text = fakeTerminal([], { cwd, env })
  expect(await config.run(['print', ...args], text.terminal)).toBe(0)
  const json = fakeTerminal([], { cwd, env })
  expect(await config.run(['print', ...args, '--json'], json.terminal)).toBe(0)
  for (const secret of Object.values(SECRETS)) {
    expect(`${text.output()}${json.output()}`).not.toContain(secret)
    expect(`${text.output()}${json.output()}`).not.toContain(encodeURIComponent(secret))
  }
  const printed = JSON.parse(json.output()) as Printed
  return {
    text: text.output(),
    printed,
    setting: (name: string) => printed.settings.find((each) => each.name === name),
    provider: (id: string) => printed.providers.find((each) => each.id === id),
  }
}

test('prints every model of a long list', async () => {
  const models = Array.from({ length: 3000 }, (_, index) => `model-of-a-catalogue-${index}`)
  const one = { kind: 'openai-compatible', baseUrl: 'http://localhost:1/v1', models: ['m'] }
  const many = { ...one, models: models.slice(0, 1000) }
  const providers = { a: many, b: { ...one, models: models.slice(1000, 2000) }, c: many, last: one }
  const { text } = await print({ file: { providers } })
  expect(text).toContain('model-of-a-catalogue-1999')
  expect(text).toContain('provider last: active')
})

test('prints tools without what may be secret', async () => {
  const headers = { authorization: 'Bearer ${OPENAI_API_KEY}' }
  const tools = [
    { name: 'weather', http: { url: `https://w.example/v1?key=${SECRETS.token}`, headers } },
    { module: './tools.mjs' },
    { name: 'files', mcp: { command: 'npx', args: [SECRETS.password] } },
  ]
  const { text, printed } = await print({
    file: { tools },
    env: { OPENAI_API_KEY: SECRETS.openai },
  })
  expect(text).toContain('tool weather: http https://w.example/v1?[redacted]\n')
  expect(text).toContain('tool files__*: mcp npx\n')
  expect(printed.tools.map(({ kind }) => kind)).toEqual(['http', 'module', 'mcp'])
})

test('dims defaults on a colour terminal', async () => {
  const style = (_style: unknown, text: string) => `\u001b[2m${text}\u001b[22m`
  const { terminal, output } = fakeTerminal([], { cwd: folder(), style })
  await config.run(['print'], terminal)
  expect(output()).toContain('\u001b[2mhost ')
  expect(output()).toContain('default\u001b[22m\n')
})

describe('the source of a setting', () => {
  test('every setting is listed once, in the order of --help, as a default', async () => {
    const { printed, text } = await print()
    expect(printed.settings.map(({ name }) => name)).toEqual(SETTING_NAMES)
    expect(new Set(printed.settings.map(({ source }) => source))).toEqual(new Set(['default']))
    for (const name of SETTING_NAMES)
      expect(text).toMatch(new RegExp(`^${name} +\\S.* default$`, 'm'))
  })

  test.each([
    [{}, { value: '15s', source: 'default' }],
    [
      { file: '1s' },
      { value: '1s', source: 'file', origin: 'heartbeat of turnstream.config.json' },
    ],
    [
      { file: '1s', env: '2s' },
      { value: '2s', source: 'environment', origin: 'TURNSTREAM_HEARTBEAT' },
    ],
    [
      { file: '1s', env: '2s', flag: '3s' },
      { value: '3s', source: 'flag', origin: '--heartbeat' },
    ],
    [
      { file: '1s', flag: '3s' },
      { value: '3s', source: 'flag', origin: '--heartbeat' },
    ],
    [
      { env: '2s', flag: '3s' },
      { value: '3s', source: 'flag', origin: '--heartbeat' },
    ],
  ] as [Record<string, string>, Expected][])(
    '%j: the last source wins',
    async ({ file, env, flag }, expected) => {
      const { setting, text } = await print({
        ...(file !== undefined && { file: { heartbeat: file } }),
        ...(env !== undefined && { env: { TURNSTREAM_HEARTBEAT: env } }),
        ...(flag !== undefined && { args: ['--heartbeat', flag] }),
      })
      expect(setting('heartbeat')).toEqual({ name: 'heartbeat', ...expected })
      const origin =
        expected.origin === undefined ? 'default' : `${expected.source}: ${expected.origin}`
      expect(text).toMatch(new RegExp(`^heartbeat +${expected.value} +${origin}$`, 'm'))
    },
  )

  test('a setting without a value shows what applies instead', async () => {
    const { setting, text } = await print()
    expect(setting('retention')).toEqual({
      name: 'retention',
      value: null,
      source: 'default',
      otherwise: '7d; Redis and memory 24h',
    })
    expect(text).toMatch(/^retention +\(7d; Redis and memory 24h\) +default$/m)
  })

  test('prints numbers, booleans and lists as in the file', async () => {
    const { setting } = await print({
      file: { port: 4011, allowPublicWithoutKeys: true, corsOrigins: ['https://a.example'] },
      args: ['--log-content'],
    })
    expect(setting('port')?.value).toBe(4011)
    expect(setting('allowPublicWithoutKeys')?.value).toBe(true)
    expect(setting('corsOrigins')?.value).toEqual(['https://a.example'])
    expect(setting('logContent')).toMatchObject({ value: true, source: 'flag' })
  })

  test('reads the file given with --config', async () => {
    const path = join(folder(), 'other.json')
    writeFileSync(path, '{"lease":"7s"}')
    const { setting } = await print({ file: { lease: '8s' }, args: ['--config', path] })
    expect(setting('lease')).toMatchObject({
      value: '7s',
      source: 'file',
      origin: `lease of ${path}`,
    })
  })
})

describe('secrets', () => {
  const password = encodeURIComponent(SECRETS.password)

  test('only the credentials of a URL are redacted', async () => {
    const TURNSTREAM_STORE = `rediss://user:${password}@redis.example:6380/2`
    const { setting } = await print({ env: { TURNSTREAM_STORE } })
    expect(setting('store')).toMatchObject({
      value: 'rediss://[redacted]@redis.example:6380/2',
      origin: 'TURNSTREAM_STORE',
    })
  })

  test('a store read from a file names the _FILE variable', async () => {
    const path = join(folder(), 'store')
    writeFileSync(path, `redis://:${password}@redis:6379\n`)
    const { setting } = await print({ env: { TURNSTREAM_STORE_FILE: path } })
    expect(setting('store')).toMatchObject({
      value: 'redis://[redacted]@redis:6379',
      origin: 'TURNSTREAM_STORE_FILE',
    })
  })

  test('are redacted on the command line and in the configuration file', async () => {
    const store = `redis://:${password}@redis:6379`
    const flag = await print({ args: ['--store', store, '--stream-token-secret', SECRETS.token] })
    expect(flag.setting('streamTokenSecret')).toMatchObject({ value: '[redacted]', source: 'flag' })
    const file = await print({ file: { store, streamTokenSecret: SECRETS.token } })
    expect(file.setting('streamTokenSecret')).toMatchObject({ value: '[redacted]', source: 'file' })
    expect(file.setting('store')).toMatchObject({ value: 'redis://[redacted]@redis:6379' })
  })

  test('are redacted even without the redactor', () => {
    const written = { origin: 'TURNSTREAM_X', source: 'environment' } as const
    const shown = (name: 'store' | 'streamTokenSecret', value: string) =>
      printedSetting({ name, written: { ...written, value } }, {}).value
    expect(shown('streamTokenSecret', SECRETS.token)).toBe('[redacted]')
    expect(shown('store', `redis://:${password}@redis/1?password=x`)).toBe(
      'redis://[redacted]@redis/1?[redacted]',
    )
    expect(shown('store', 'redis://redis:6379')).toBe('redis://redis:6379')
  })

  test('a store directory is not redacted', async () => {
    const { setting } = await print({ args: ['--store', '/var/lib/turnstream'] })
    expect(setting('store')?.value).toBe('/var/lib/turnstream')
  })
})

describe('providers', () => {
  test('without keys: lists the scripted provider, and what the others need', async () => {
    const { printed, text } = await print()
    expect(printed.providers[0]).toMatchObject({ id: 'scripted', active: true, hasKey: false })
    expect(
      printed.providers.slice(1).map(({ id, active, hasKey }) => [id, active, hasKey]),
    ).toEqual([
      ['openai', false, false],
      ['anthropic', false, false],
      ['gemini', false, false],
      ['openai-compatible', false, false],
    ])
    expect(text).toContain('provider scripted: default\n')
    expect(text).toContain('provider openai: inactive, OPENAI_API_KEY is not set\n')
    expect(text).toContain('openai-compatible: inactive, OPENAI_COMPATIBLE_BASE_URL is not set\n')
  })

  test('with keys: lists models and never the key', async () => {
    const { provider, printed, text } = await print({
      env: {
        OPENAI_API_KEY: SECRETS.openai,
        OPENAI_COMPATIBLE_BASE_URL: 'http://localhost:11434/v1',
        OPENAI_COMPATIBLE_MODEL: 'qwen3',
      },
      file: {
        defaultProvider: 'openai-compatible',
        providers: { openai: { models: ['a', 'b'], defaultModel: 'b' } },
      },
    })
    expect(printed.providers.map(({ id }) => id).slice(0, 3)).toEqual([
      'openai-compatible',
      'openai',
      'scripted',
    ])
    expect(provider('openai')).toEqual({
      id: 'openai',
      kind: 'openai',
      active: true,
      hasKey: true,
      keyVariable: 'OPENAI_API_KEY',
      baseUrl: null,
      models: ['a', 'b'],
      defaultModel: 'b',
    })
    expect(provider('openai-compatible')).toMatchObject({
      hasKey: false,
      baseUrl: 'http://localhost:11434/v1',
      defaultModel: 'qwen3',
    })
    expect(text).toContain('provider openai: active, OPENAI_API_KEY is set\n  models: b, a\n')
    expect(text).toContain(', at http://localhost:11434/v1\n')
  })
})

test('prints aliases with their models', async () => {
  const { text, printed } = await print({ file: { aliases: { 'claude-a': 'answer' } } })
  expect(text).toContain('\nalias claude-a: scripted/answer\n')
  expect(printed).toMatchObject({ aliases: [{ alias: 'claude-a', model: 'scripted/answer' }] })
})

describe('refuses what serve refuses', () => {
  test.each([
    [{ file: { prot: 1 } }, 'turnstream.config.json has an unknown key prot; did you mean port?'],
    [{ file: { providers: { opena: {} } } }, 'has an unknown key opena; did you mean openai?'],
    [{ env: { TURNSTREAM_PROT: '1' } }, 'unknown TURNSTREAM_PROT; did you mean TURNSTREAM_PORT?'],
    [{ args: ['--prot', '1'] }, 'unknown option --prot; did you mean --port?'],
    [{ env: { TURNSTREAM_LEASE: '10' } }, 'TURNSTREAM_LEASE must be a duration'],
    [{ env: { TURNSTREAM_STREAM_TOKEN_SECRET: 'short-secret' } }, 'got something else'],
    [{ args: ['--default-provider', 'gemini'] }, 'set GEMINI_API_KEY'],
    [{ file: { aliases: { a: 'nobody/x' } } }, 'alias a names an unknown model: nobody/x'],
    [{ file: { aliases: { answer: 'scripted/long' } } }, 'alias answer is a model of scripted'],
    [{ file: { aliases: ['a'] } }, 'aliases of turnstream.config.json must be an object'],
    [{ file: { alias: {} } }, 'has an unknown key alias; did you mean aliases?'],
    [{ args: ['--store-false', 'never'] }, 'must be delete or keep'],
  ] as [Setup, string][])('%j', async (setup, message) => {
    const refusal = await print(setup).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(UsageError)
    expect(String(refusal)).toContain(message)
    expect(String(refusal)).not.toContain('short-secret')
  })

  test.each([
    [[], 'config takes one of print'],
    [['--json'], 'config takes one of print'],
    [['prnt'], 'unknown config action; did you mean print?'],
  ])('%j', async (args, message) => {
    const { terminal } = fakeTerminal()
    await expect(config.run(args, terminal)).rejects.toThrow(message)
  })
})
