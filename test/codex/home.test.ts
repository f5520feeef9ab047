import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type CodexHome, writeCodexHome } from '../../src/codex/home.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
})

function write(more: Partial<CodexHome> = {}): string {
  const directory = join(folder, 'home')
  const modelProvider = { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'KEY' }
  writeCodexHome({ directory, models: ['m'], modelProvider, idleMs: 1000, ...more })
  return directory
}

/** A directory with these files. */
function template(files: Record<string, string>): string {
  const directory = join(folder, 'template')
  mkdirSync(directory, { recursive: true })
  for (const [name, content] of Object.entries(files)) writeFileSync(join(directory, name), content)
  return directory
}

describe('the home of codex', () => {
  test('is private, and names the key but does not hold it', () => {
    const home = write()
    expect(statSync(home).mode & 0o777).toBe(0o700)
    for (const name of ['config.toml', 'catalog.json']) {
      expect(statSync(join(home, name)).mode & 0o777).toBe(0o600)
    }
    const config = readFileSync(join(home, 'config.toml'), 'utf8')
    expect(config).toContain('env_key = "KEY"\nrequires_openai_auth = false')
    expect(config).toContain('base_url = "http://127.0.0.1:1/v1"')
  })

  test('with a login leaves key and address to codex', () => {
    const home = write({ modelProvider: { usesLogin: true } })
    const config = readFileSync(join(home, 'config.toml'), 'utf8')
    expect(config).toContain('requires_openai_auth = true')
    expect(config).not.toMatch(/env_key|base_url/)
  })
})

describe('a template', () => {
  test('is copied, except what is not of this home', () => {
    const files = {
      'auth.json': '{}',
      'config.toml': 'x',
      'history.jsonl': 'x',
      'state.sqlite': '',
    }
    const from = template({ ...files, 'large.txt': 'x'.repeat(2_000_000) })
    mkdirSync(join(from, 'sessions'))
    const home = write({ template: from })
    expect(readdirSync(home).toSorted()).toEqual([
      'auth.json',
      'catalog.json',
      'config.toml',
      'work',
    ])
    expect(statSync(join(home, 'auth.json')).mode & 0o777).toBe(0o600)
    expect(readFileSync(join(home, 'config.toml'), 'utf8')).toContain('model = "m"')
  })

  test('replaces only older files: codex renews a login in place', () => {
    const from = template({ 'auth.json': 'first' })
    const home = write({ template: from })
    const copy = join(home, 'auth.json')
    writeFileSync(copy, 'renewed')
    write({ template: from })
    expect(readFileSync(copy, 'utf8')).toBe('renewed')
    writeFileSync(join(from, 'auth.json'), 'second')
    utimesSync(copy, 1, 1)
    write({ template: from })
    expect(readFileSync(copy, 'utf8')).toBe('second')
  })

  test('that is missing is named', () => {
    expect(() => write({ template: join(folder, 'nowhere') })).toThrow(/template.*nowhere/)
    expect(existsSync(join(folder, 'home', 'config.toml'))).toBe(false)
  })
})
