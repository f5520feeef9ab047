import {
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
import { basename, join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { CodexHomes, type CodexHomesOptions } from '../../src/codex/home.ts'

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'turnstream-codex-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
})

function homesIn(more: Partial<CodexHomesOptions> = {}): CodexHomes {
  const directory = join(folder, 'homes')
  const modelProvider = { baseUrl: 'http://127.0.0.1:1/v1', keyVariable: 'KEY' }
  return new CodexHomes({ directory, models: ['m'], modelProvider, idleMs: 1000, ...more })
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
    const { home } = homesIn().create()
    expect(statSync(join(folder, 'homes')).mode & 0o777).toBe(0o700)
    expect(statSync(home).mode & 0o777).toBe(0o700)
    for (const name of ['config.toml', 'catalog.json']) {
      expect(statSync(join(home, name)).mode & 0o777).toBe(0o600)
    }
    const config = readFileSync(join(home, 'config.toml'), 'utf8')
    expect(config).toContain('.env_key = "TURNSTREAM_UPSTREAM_KEY"')
    expect(config).toContain('.requires_openai_auth = false')
    expect(config).toContain('.base_url = "http://127.0.0.1:1/v1"')
  })

  test('with a login leaves key and address to codex', () => {
    const { home } = homesIn({ modelProvider: { usesLogin: true } }).create()
    const config = readFileSync(join(home, 'config.toml'), 'utf8')
    expect(config).toContain('.requires_openai_auth = true')
    expect(config).not.toMatch(/env_key|base_url/)
  })

  test('belongs to one process: the next one gets another', () => {
    const homes = homesIn()
    const first = homes.create()
    const written = readdirSync(first.home).map((name) => statSync(join(first.home, name)).ctimeMs)
    const second = homes.create()
    expect(second.home).not.toBe(first.home)
    const now = readdirSync(first.home).map((name) => statSync(join(first.home, name)).ctimeMs)
    expect(now).toEqual(written)
    homes.remove(first.home)
    expect(readdirSync(join(folder, 'homes'))).toEqual([basename(second.home)])
  })

  test('of a gateway that crashed is removed, and others stay', () => {
    const homes = homesIn()
    const { home } = homes.create()
    const [, start] = /-\d+-(\d+)-/.exec(basename(home)) ?? []
    const gone = [
      'home-999999999-1-abcdef',
      'new-999999999-1-abcdef',
      `home-${process.pid}-1-abcdef`,
    ]
    const kept = [`home-${process.pid}-${start}-abcdef`, 'home-of-mine', 'sessions']
    for (const name of [...gone, ...kept]) mkdirSync(join(folder, 'homes', name))
    const next = homesIn().create()
    expect(readdirSync(join(folder, 'homes')).toSorted()).toEqual(
      [...kept, basename(home), basename(next.home)].toSorted(),
    )
  })
})

describe('a template', () => {
  test('is copied, except what is not of this home or leads to another API', () => {
    const files = {
      'AGENTS.md': 'Be brief.',
      'auth.json': '{}',
      '.env': 'OPENAI_BASE_URL=https://other.test',
      'config.toml': 'x',
      'history.jsonl': 'x',
      'state.sqlite': '',
    }
    const from = template({ ...files, 'large.txt': 'x'.repeat(2_000_000) })
    mkdirSync(join(from, 'sessions'))
    const { home } = homesIn({ template: from }).create()
    const found = ['AGENTS.md', 'catalog.json', 'config.toml', 'work']
    expect(readdirSync(home).toSorted()).toEqual(found)
    expect(statSync(join(home, 'AGENTS.md')).mode & 0o777).toBe(0o600)
    expect(readFileSync(join(home, 'config.toml'), 'utf8')).toContain('model = "m"')
  })

  test('that is missing is named, and no home is left behind', () => {
    const homes = homesIn({ template: join(folder, 'nowhere') })
    expect(() => homes.create()).toThrow(/template.*nowhere/)
    expect(readdirSync(join(folder, 'homes'))).toEqual([])
  })
})

describe('a login', () => {
  const modelProvider = { usesLogin: true }
  const loginIn = (directory: string) => readFileSync(join(directory, 'auth.json'), 'utf8')

  /** Writes a login that is `age` seconds newer than the start of time. */
  function renew(directory: string, text: string, age: number): void {
    writeFileSync(join(directory, 'auth.json'), text)
    utimesSync(join(directory, 'auth.json'), age, age)
  }

  test('that codex renewed moves to the next home, while its process runs and after it', () => {
    const from = template({})
    renew(from, '{"n":1}', 100)
    const homes = homesIn({ modelProvider, template: from })
    const first = homes.create()
    expect(loginIn(first.home)).toBe('{"n":1}')
    expect(statSync(join(first.home, 'auth.json')).mode & 0o777).toBe(0o600)
    renew(first.home, '{"n":2}', 200)
    const second = homes.create()
    expect(loginIn(second.home)).toBe('{"n":2}')
    renew(first.home, '{"n":3}', 300)
    homes.remove(first.home)
    homes.remove(second.home)
    expect(loginIn(homes.create().home)).toBe('{"n":3}')
    renew(from, '{"n":4}', 400)
    expect(loginIn(homes.create().home)).toBe('{"n":4}')
  })

  test('survives a crash of the gateway', () => {
    const orphan = join(folder, 'homes', 'home-999999999-1-abcdef')
    mkdirSync(orphan, { recursive: true })
    renew(orphan, '{"n":1}', 100)
    expect(loginIn(homesIn({ modelProvider }).create().home)).toBe('{"n":1}')
  })

  test('that codex is just writing does not count', () => {
    const from = template({})
    renew(from, '{"n":1}', 100)
    const homes = homesIn({ modelProvider, template: from })
    renew(homes.create().home, '{"n":', 200)
    expect(loginIn(homes.create().home)).toBe('{"n":1}')
  })
})
