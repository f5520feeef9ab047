import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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

test('npm run release bumps, commits and tags with the changelog closed', {
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
    const pkg = { name: 'x', version: '0.1.0', private: true, scripts: { release, version } }
    writeFileSync(join(folder, 'package.json'), JSON.stringify(pkg))
    writeFileSync(join(folder, 'CHANGELOG.md'), CHANGELOG)
    mkdirSync(join(folder, 'scripts'))
    cpSync('scripts/changelog.mjs', join(folder, 'scripts/changelog.mjs'))
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
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
