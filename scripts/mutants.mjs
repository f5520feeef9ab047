// Breaks one rule at a time, in a copy of the tree, and checks that a test notices. A rule without such a test will
// be broken by a later change. `npm run mutants -- sse log` breaks only those whose file contains one of the words.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MUTANTS } from './mutant-rules.mjs'

const PARTS = [
  'src',
  'dist',
  'scripts',
  'test',
  'docs',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
]

const words = process.argv.slice(2)
const chosen = MUTANTS.filter(({ file }) => {
  return words.length === 0 || words.some((word) => file.includes(word))
})

const root = fileURLToPath(new URL('..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'turnstream-mutants-'))
const survivors = []

try {
  for (const part of PARTS) {
    cpSync(join(root, part), join(copy, part), { recursive: true, filter: isOwn })
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'), 'dir')
  for (const tests of new Set(chosen.map((mutant) => mutant.tests))) {
    if (!passes(tests)) throw new Error(`${tests} fails before anything is broken`)
  }
  for (const mutant of chosen) {
    const isKilled = kills(mutant)
    if (!isKilled) survivors.push(mutant.rule)
    console.log(`${isKilled ? 'noticed ' : 'SURVIVED'}  ${mutant.rule}`)
  }
} finally {
  rmSync(copy, { recursive: true, force: true })
}
console.log(`\n${chosen.length - survivors.length} of ${chosen.length} broken rules were noticed`)
if (survivors.length > 0) process.exitCode = 1

/** @param {string} path */
function isOwn(path) {
  return !path.endsWith('node_modules')
}

/** @param {import('./mutant-rules.mjs').Mutant} mutant */
function kills({ rule, file, from, to, tests }) {
  const path = join(copy, file)
  const source = readFileSync(path, 'utf8')
  if (source.split(from).length !== 2) throw new Error(`${rule}: ${file} does not hold it once`)
  writeFileSync(path, source.replace(from, to))
  try {
    return !passes(tests)
  } finally {
    writeFileSync(path, source)
  }
}

/** @param {string} tests */
function passes(tests) {
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  // A broken rule may make a test hang: that also counts as noticed.
  const args = [vitest, 'run', tests, '--bail', '1', '--testTimeout', '5000']
  const { status } = spawnSync(process.execPath, args, { cwd: copy, timeout: 120_000 })
  return status === 0
}
