import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MUTANTS } from '../../scripts/mutant-rules.mjs'
import { read, root } from '../repository/sources.ts'

const TESTS = readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
  .map((name) => join('test', name))
  .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))

describe.each(MUTANTS)('$rule', ({ file, from, to, tests }) => {
  test('can be broken', () => {
    expect(read(file).split(from)).toHaveLength(2)
    expect(to).not.toBe(from)
    expect(TESTS.filter((name) => name.startsWith(tests))).not.toEqual([])
  })
})

test('every folder of src has a rule to break', () => {
  const entries = readdirSync(join(root, 'src'), { withFileTypes: true })
  const folders = entries.filter((each) => each.isDirectory()).map(({ name }) => name)
  const covered = new Set(MUTANTS.map(({ file }) => file.split('/')[1]))
  expect(folders.filter((folder) => !covered.has(folder))).toEqual([])
})
