// Everything that must hold before a change lands, in the order in which it fails fastest.
// With --without-tests it stops before the tests, for those who run them by themselves.
import { spawnSync } from 'node:child_process'

const steps = [
  ['commit titles', 'node', 'scripts/commit-titles.mjs'],
  ['format', 'npx', 'biome', 'check', '--error-on-warnings', '.'],
  ['lint', 'npx', 'oxlint', '--type-aware', '--deny-warnings'],
  ['types', 'npx', 'tsc', '-p', 'tsconfig.json'],
  ['unused code', 'npx', 'knip'],
  ['audit', 'node', 'scripts/audit.mjs'],
  ['build', 'node', 'scripts/build.mjs'],
  ['package', 'npx', 'publint', '--strict'],
  ['exported types', 'npx', 'attw', '--pack', '.', '--profile', 'esm-only'],
  ['tests and coverage', 'npm', 'run', 'test:full', '--', '--coverage'],
]
if (process.argv.includes('--without-tests')) steps.pop()

for (const [name = '', command = '', ...args] of steps) {
  const started = Date.now()
  const { status } = spawnSync(command, args, { stdio: 'inherit' })
  const seconds = ((Date.now() - started) / 1000).toFixed(1)
  if (status !== 0) {
    console.error(`\ncheck failed: ${name} (${command} ${args.join(' ')})`)
    process.exit(1)
  }
  console.log(`ok  ${name}  ${seconds} s`)
}
