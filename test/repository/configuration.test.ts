import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { PROVIDER_KINDS } from '../../src/adapters/provider.ts'
import { RECORDING_NAMES } from '../../src/cli/recordings/built-in.ts'
import { CONFIG_FILE, PROVIDER_KEYS } from '../../src/cli/serve/configuration.ts'
import { parseServeOptions } from '../../src/cli/serve/options.ts'
import { KNOWN_PROVIDERS } from '../../src/cli/serve/providers.ts'
import {
  SETTING_NAMES,
  SETTINGS,
  type Setting,
  toFlag,
  toVariable,
} from '../../src/cli/serve/settings.ts'
import { read } from './sources.ts'
import { section, tableRows } from './tables.ts'

const doc = read('docs/configuration.md')
const rows = tableRows(section(doc, 'Settings'))

describe('the settings', () => {
  test('are in the table, in the order of --help', () => {
    expect(rows.map(([key]) => key)).toEqual(SETTING_NAMES.map((name) => `\`${name}\``))
  })

  test.each(SETTING_NAMES)('%s has its option, its variable and its default', (name) => {
    const row = rows.find(([key]) => key === `\`${name}\``)
    const { standard }: Setting<unknown> = SETTINGS[name]
    expect(row?.slice(1, 3)).toEqual([`\`--${toFlag(name)}\``, `\`${toVariable(name)}\``])
    if (standard === undefined) expect(row?.[3]).not.toBe('')
    else expect(row?.[3]).toBe(`\`${standard}\``)
    expect(row?.[4]).not.toBe('')
  })
})

describe('the providers', () => {
  const [providers, keys] = split(tableRows(section(doc, 'Providers')))
  const quoted = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ')

  test('are in the table, in the order in which one becomes the default', () => {
    expect(providers.map(([id]) => id)).toEqual(
      [...PROVIDER_KINDS, 'scripted'].map((id) => `\`${id}\``),
    )
  })

  test.each(PROVIDER_KINDS)('%s has its variable and its models', (id) => {
    const row = providers.find(([each]) => each === `\`${id}\``)
    const { keyVariable, models } = KNOWN_PROVIDERS[id]
    expect(row?.[1]).toContain(`\`${keyVariable}\``)
    if (models.length > 0) expect(row?.[2]).toBe(quoted(models))
  })

  test('scripted has its recordings', () => {
    expect(providers.at(-1)?.[2]).toBe(quoted(RECORDING_NAMES))
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

test('the example of a file can be read', () => {
  const cwd = mkdtempSync(join(tmpdir(), 'turnstream-operations-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  writeFileSync(join(cwd, CONFIG_FILE), /^```json\n(.*?)^```/ms.exec(doc)?.[1] ?? '')
  const { providers, store } = parseServeOptions([], { cwd, env: { ANTHROPIC_API_KEY: 'key' } })
  expect(store).toEqual({ kind: 'embedded', directory: '/var/lib/turnstream' })
  expect(providers.map(({ provider, models }) => [provider.id, models])).toEqual([
    ['anthropic', ['claude-opus-5-5', 'claude-haiku-5-5']],
    ['openai-compatible', ['qwen3', 'gemma3']],
    ['scripted', RECORDING_NAMES],
  ])
})
