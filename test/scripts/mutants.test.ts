import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { placeOf } from '../../scripts/mutant-places.mjs'
import { MUTANTS } from '../../scripts/mutant-rules.mjs'
import { PACKAGES, root, sourceFolders } from '../repository/sources.ts'

const TESTS = PACKAGES.flatMap((name) => {
  const folder = join('packages', name, 'test')
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  return names.map((path) => join(folder, path))
}).filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))

describe.each(MUTANTS)('$rule', (mutant) => {
  test('can be broken', () => {
    const { from, to, tests } = mutant
    expect(placeOf(mutant).file).toMatch(/^packages\//)
    expect(to).not.toBe(from)
    expect(TESTS.filter((name) => name.startsWith(tests))).not.toEqual([])
  })
})

test('every folder of sources with behaviour has a rule to break', () => {
  const covered = MUTANTS.map((mutant) => placeOf(mutant).file)
  const isCovered = (folder: string) => {
    const [name, inside] = folder.split('/')
    return covered.some((file) => file.startsWith(`packages/${name}/src/${inside}/`))
  }
  const left = sourceFolders().filter((folder) => !isCovered(folder))
  // The contract of a store has no behaviour; the rules of the checks and cases are those that they check.
  expect(left).toEqual(['conformance/endpoint', 'conformance/turn-log', 'core/log'])
})
