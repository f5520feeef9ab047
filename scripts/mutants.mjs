// Breaks one rule at a time, in a copy of the tree, and checks that a test notices. A rule without such a test will
// be broken by a later change. `npm run mutants -- sse log` breaks only those whose file contains one of the words.
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { placeOf } from './mutant-places.mjs'
import { MUTANTS } from './mutant-rules.mjs'

const PARTS = [
  'packages',
  'scripts',
  'test',
  'docs',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
]

const words = process.argv.slice(2)
const chosen = MUTANTS.filter((mutant) => {
  return words.length === 0 || words.some((word) => placeOf(mutant).file.includes(word))
})

const root = fileURLToPath(new URL('..', import.meta.url))
const copy = mkdtempSync(join(tmpdir(), 'turnstream-mutants-'))
const survivors = []

try {
  for (const part of PARTS) {
    cpSync(join(root, part), join(copy, part), { recursive: true, filter: isOwn })
  }
  linkModules()
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

/** The packages of others from here, ours from the copy. */
function linkModules() {
  const modules = join(copy, 'node_modules')
  mkdirSync(modules)
  for (const name of readdirSync(join(root, 'node_modules'))) {
    if (name !== '@turnstream' && name !== 'turnstream') {
      symlinkSync(join(root, 'node_modules', name), join(modules, name))
    }
  }
  cpSync(join(root, 'node_modules/@turnstream'), join(modules, '@turnstream'), {
    recursive: true,
    verbatimSymlinks: true,
  })
}

/** @param {string} path */
function isOwn(path) {
  return !path.endsWith('node_modules')
}

/** @param {import('./mutant-rules.mjs').Mutant} mutant */
function kills(mutant) {
  const { file, start, end } = placeOf(mutant)
  const path = join(copy, file)
  const source = readFileSync(path, 'utf8')
  writeFileSync(path, source.slice(0, start) + mutant.to + source.slice(end))
  try {
    return !passes(mutant.tests)
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
