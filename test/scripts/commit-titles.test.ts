import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { checkTitles, titleFault } from '../../scripts/commit-titles.mjs'

describe('a title', () => {
  test.each([
    'fix(chat): await drain before sending the next chunk',
    'docs: add an index',
    'feat(server)!: refuse unknown fields',
    'test(soak): add 40 cases',
    'fix(sse): embed the id in every frame',
    'feat(api): LMDB statistics in /metrics',
  ])('accepted: %s', (title) => {
    expect(titleFault(title)).toBeUndefined()
  })

  test.each([
    ['Say of foreign cursors and fences what is so', 'type(scope)'],
    ['fix (chat): await drain', 'type(scope)'],
    ['wip: try', 'type(scope)'],
    ['fix(chat): ', 'type(scope)'],
    ['Revert "docs: add an index"', 'type(scope)'],
    [`docs: ${'x'.repeat(67)}`, '73 characters'],
    ['docs: Add an index', 'lower-case'],
    ['docs: add an index.', 'full stop'],
    ['docs: added an index', 'imperative'],
    ['docs: adds an index', 'imperative'],
    ['fix: fixes the index', 'imperative'],
    ['refactor: making it faster', 'imperative'],
  ])('refused: %s', (title, fault) => {
    expect(titleFault(title)).toContain(fault)
  })
})

describe('the commits of a repository', () => {
  function repository(...titles: string[]) {
    const folder = mkdtempSync(join(tmpdir(), 'turnstream-titles-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.org', ...args], {
        cwd: folder,
        encoding: 'utf8',
      }).trim()
    git('init', '-q')
    for (const title of titles) git('commit', '-q', '--allow-empty', '-m', title)
    return { folder, git }
  }

  test('after the given one are checked, and each fault is reported', () => {
    const { folder, git } = repository('Old form', 'docs: add a page', 'Add another page')
    const since = git('rev-parse', 'HEAD~2')
    const { checked, faults } = checkTitles(folder, since)
    expect(checked).toBe(2)
    expect(faults).toEqual([expect.stringMatching(/^\w+ "Add another page": use "type\(scope\)/)])
  })

  test('are limited to the newest in a shallow clone without the given one', () => {
    const { folder } = repository('Old form', 'docs: add a page')
    expect(checkTitles(folder, '0'.repeat(40))).toEqual({ checked: 1, faults: [] })
  })

  test('merges are not checked', () => {
    const { folder, git } = repository('docs: add a page')
    const since = git('rev-parse', 'HEAD')
    git('checkout', '-q', '-b', 'side')
    git('commit', '-q', '--allow-empty', '-m', 'docs: add a second page')
    git('checkout', '-q', '-')
    git('merge', '-q', '--no-ff', 'side', '-m', 'Merge side')
    expect(checkTitles(folder, since)).toEqual({ checked: 1, faults: [] })
  })

  test('are empty in a folder that is not a repository', () => {
    const folder = mkdtempSync(join(tmpdir(), 'turnstream-titles-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    expect(checkTitles(folder, 'HEAD')).toEqual({ checked: 0, faults: [] })
  })
})
