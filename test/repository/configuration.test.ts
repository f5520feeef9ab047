import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type * as z from 'zod'
import {
  CONFIG_FILE,
  PROVIDER_KEYS,
} from '../../packages/turnstream/src/cli/serve/configuration.ts'
import {
  KNOWN_PROVIDERS,
  SCRIPTED_MODELS,
} from '../../packages/turnstream/src/cli/serve/providers.ts'
import { parseServeOptions } from '../../packages/turnstream/src/cli/serve/serve.ts'
import {
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  toFlag,
  toVariable,
} from '../../packages/turnstream/src/cli/serve/settings.ts'
import {
  httpTool,
  mcpEndpoint,
  mcpProcess,
} from '../../packages/turnstream/src/cli/serve/tool-settings.ts'
import { PROVIDER_KINDS } from '../../packages/turnstream/src/providers/provider.ts'
import { read } from './sources.ts'
import { section, tableRows } from './tables.ts'

const doc = read('docs/configuration.md')
const rows = tableRows(section(doc, 'Settings'))

describe('the settings', () => {
  test('are in the table in the order of --help', () => {
    expect(rows.map(([key]) => key)).toEqual(SETTING_NAMES.map((name) => `\`${name}\``))
  })

  test.each(SETTING_NAMES)('%s has its default and a description', (name) => {
    const [, standard, description] = rows.find(([key]) => key === `\`${name}\``) ?? []
    const { standard: written }: Setting<unknown> = SETTINGS[name]
    if (written === undefined) expect(standard).not.toBe('')
    else expect(standard).toBe(`\`${written}\``)
    expect(description).toMatch(/^[A-Z].*\.$/)
  })

  test('have options and variables by the documented rule', () => {
    expect(doc).toContain('`maxBodyBytes`')
    expect(doc).toContain(`\`${toVariable('maxBodyBytes')}\``)
    expect(doc).toContain(`\`--${toFlag('maxBodyBytes')}\``)
    for (const name of SETTING_NAMES) {
      const words = name.split(/(?=[A-Z])|\./)
      expect(toFlag(name)).toBe(words.join('-').toLowerCase())
      expect(toVariable(name)).toBe(`TURNSTREAM_${words.join('_').toUpperCase()}`)
    }
  })

  test('that accept unlimited are limits per key, or documented', () => {
    const unlimited = SETTING_NAMES.filter(
      (name) => (SETTINGS[name].schema as z.ZodType).safeParse('unlimited').data === Infinity,
    )
    const documented = rows.filter(([, , description]) =>
      /per key|of a key|per tenant|`unlimited`/.test(description ?? ''),
    )
    expect(documented.map(([key]) => key)).toEqual(unlimited.map((name) => `\`${name}\``))
  })
})

describe('the providers', () => {
  const [providers, keys] = split(tableRows(section(doc, 'Providers')))
  const quoted = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ')

  test('are in the table in the order of preference', () => {
    expect(providers.map(([id]) => id)).toEqual(
      [...PROVIDER_KINDS, 'codex', 'scripted'].map((id) => `\`${id}\``),
    )
  })

  test.each(PROVIDER_KINDS)('%s has its variable and its models', (id) => {
    const row = providers.find(([each]) => each === `\`${id}\``)
    const { keyVariable, models } = KNOWN_PROVIDERS[id]
    expect(row?.[1]).toContain(`\`${keyVariable}\``)
    if (models.length > 0) expect(row?.[2]).toBe(quoted(models))
  })

  test('scripted has its recordings', () => {
    expect(providers.at(-1)?.[2]).toBe(quoted(SCRIPTED_MODELS))
  })

  test('have exactly these keys', () => {
    expect(keys.map(([key]) => key)).toEqual(PROVIDER_KEYS.map((key) => `\`${key}\``))
  })

  /** Two tables stand under one heading: the first one is that of the providers. */
  function split(all: string[][]): [string[][], string[][]] {
    return [all.filter(([key]) => !isKey(key)), all.filter(([key]) => isKey(key))]
  }

  function isKey(cell = ''): boolean {
    return PROVIDER_KEYS.includes(cell.replaceAll('`', ''))
  }
})

describe('the tools', () => {
  const part = section(doc, 'Tools')

  test('have every key in the table', () => {
    const named = tableRows(part).flatMap(([keys = '']) => keys.replaceAll('`', '').split(', '))
    const limits = ['timeoutMs', 'maxOutputBytes', 'maxParallelCalls']
    const inner = (kind: string, keys: readonly string[]) =>
      keys.filter((key) => !limits.includes(key)).map((key) => `${kind}.${key}`)
    const entry = ['name', 'description', 'parameters', 'module', 'needsApproval']
    const http = Object.keys(httpTool.shape.http.shape)
    const process = Object.keys(mcpProcess.shape)
    const endpoint = Object.keys(mcpEndpoint.shape)
    const expected = [
      ...entry,
      ...inner('http', http),
      ...inner('mcp', [...process, ...endpoint]),
      ...limits,
    ]
    expect(named.toSorted()).toEqual([...new Set(expected)].toSorted())
  })

  test('of the example can be read', () => {
    const cwd = mkdtempSync(join(tmpdir(), 'turnstream-operations-'))
    onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
    writeFileSync(join(cwd, CONFIG_FILE), /^```json\n(.*?)^```/ms.exec(part)?.[1] ?? '')
    const { tools } = parseServeOptions([], { cwd, env: { WEATHER_TOKEN: 'token' } })
    expect(tools.map(({ kind }) => kind)).toEqual(['http', 'module', 'mcp', 'mcp'])
  })
})

test('the example file is valid', () => {
  const cwd = mkdtempSync(join(tmpdir(), 'turnstream-operations-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  writeFileSync(join(cwd, CONFIG_FILE), /^```json\n(.*?)^```/ms.exec(doc)?.[1] ?? '')
  const { providers, store } = parseServeOptions([], { cwd, env: { ANTHROPIC_API_KEY: 'key' } })
  expect(store).toEqual({ kind: 'embedded', directory: '/var/lib/turnstream' })
  expect(providers.map(({ provider, models }) => [provider.id, models])).toEqual([
    ['anthropic', ['claude-opus-5-5', 'claude-haiku-5-5']],
    ['openai-compatible', ['qwen3', 'gemma3']],
    ['scripted', SCRIPTED_MODELS],
  ])
})
