import { execFileSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { closeUnreleased, findSection } from '../../scripts/changelog.mjs'

const CHANGELOG = `# Changelog

## [Unreleased]

### Added

- A feature.

## [0.1.0] - 2026-01-31

- The first version.
`

describe('closing the section Unreleased', () => {
  const released = closeUnreleased(CHANGELOG, '0.2.0', '2026-02-28')

  test('dates its content and leaves an empty one', () => {
    expect(released).toContain('## [Unreleased]\n\n## [0.2.0] - 2026-02-28\n\n### Added')
    expect(findSection(released, '0.2.0')).toBe('### Added\n\n- A feature.')
    expect(findSection(released, 'Unreleased')).toBe('')
  })

  test('keeps older versions', () => {
    expect(findSection(released, '0.1.0')).toBe('- The first version.')
  })

  test('refuses a version that has a section, and an empty release', () => {
    expect(() => closeUnreleased(CHANGELOG, '0.1.0', '2026-02-28')).toThrow('already has a section')
    expect(() => closeUnreleased(released, '0.3.0', '2026-02-28')).toThrow('Unreleased is empty')
  })
})

const PACKAGES = {
  'packages/core': { name: '@x/core', version: '0.1.0', dependencies: { zod: '4.0.0' } },
  'packages/x': { name: 'x', version: '0.1.0', dependencies: { '@x/core': '0.1.0' } },
}

test('npm run release bumps all packages, commits and tags with the changelog closed', {
  tags: ['slow'],
}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'turnstream-release-'))
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' })
  try {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as {
      scripts: Record<string, string>
    }
    const { release, version } = scripts
    const pkg = { name: 'workspace', version: '0.1.0', private: true, workspaces: ['packages/*'] }
    const packages = { '': pkg, ...PACKAGES }
    const write = (file: string, json: object) =>
      writeFileSync(join(folder, file), JSON.stringify(json))
    write('package.json', { ...pkg, scripts: { release, version } })
    write('package-lock.json', { ...pkg, lockfileVersion: 3, requires: true, packages })
    for (const [path, manifest] of Object.entries(PACKAGES)) {
      mkdirSync(join(folder, path), { recursive: true })
      write(`${path}/package.json`, manifest)
    }
    writeFileSync(join(folder, 'CHANGELOG.md'), CHANGELOG)
    mkdirSync(join(folder, 'scripts'))
    for (const name of ['changelog.mjs', 'set-version.mjs']) {
      cpSync(`scripts/${name}`, join(folder, 'scripts', name))
    }
    run('git', 'init', '--quiet')
    run('git', 'config', 'user.name', 'Test')
    run('git', 'config', 'user.email', 'test@example.com')
    run('git', 'add', '.')
    run('git', 'commit', '--quiet', '-m', 'chore: begin')
    run('npm', 'run', 'release', '--', 'minor')
    expect(run('git', 'log', '-1', '--format=%s %D')).toMatch(
      /^chore\(release\): 0\.2\.0 HEAD -> \w+, tag: v0\.2\.0\n$/,
    )
    expect(run('git', 'status', '--porcelain')).toBe('')
    const notes = run('node', 'scripts/changelog.mjs', 'notes', '0.2.0')
    expect(notes).toBe('### Added\n\n- A feature.\n')

    const released = {
      'packages/core': { ...PACKAGES['packages/core'], version: '0.2.0' },
      'packages/x': { name: 'x', version: '0.2.0', dependencies: { '@x/core': '0.2.0' } },
    }
    const read = (file: string) => JSON.parse(run('git', 'show', `HEAD:${file}`)) as object
    expect(read('package-lock.json')).toMatchObject({ version: '0.2.0', packages: released })
    for (const [path, manifest] of Object.entries(released)) {
      expect(read(`${path}/package.json`)).toEqual(manifest)
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a release publishes every package after those that it depends on', () => {
  const workflow = readFileSync('.github/workflows/release.yml', 'utf8')
  const published = Array.from(workflow.matchAll(/ -w (\S+)/g), ([, name = '']) => name)
  const manifests = readdirSync('packages').map(
    (folder) =>
      JSON.parse(readFileSync(`packages/${folder}/package.json`, 'utf8')) as {
        name: string
        dependencies?: Record<string, string>
      },
  )
  expect(published.toSorted()).toEqual(manifests.map(({ name }) => name).toSorted())
  for (const { name, dependencies = {} } of manifests) {
    const ours = Object.keys(dependencies).filter((each) => published.includes(each))
    for (const each of ours) expect(published.indexOf(each)).toBeLessThan(published.indexOf(name))
  }
})
