// All checks before a merge, except the tests. The two lists run in parallel, after the build: the types of examples are
// in `dist`, and must not change while the linter reads them.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'

const packages = readdirSync('packages').map((name) => `packages/${name}`)
const build = [['build', 'node', 'scripts/build.mjs']]

const lanes = [
  [
    ['commit titles', 'node', 'scripts/commit-titles.mjs'],
    ['format', 'npx', 'biome', 'check', '--error-on-warnings', '.'],
    ['lint', 'npx', 'oxlint', '--type-aware', '--deny-warnings'],
    ['types', 'npx', 'tsc', '-p', 'tsconfig.json'],
    ['types of the page', 'npx', 'tsc', '-p', 'web/tsconfig.json'],
  ],
  [
    // Imports of a built file count as those of its source: this file says where it is.
    ['unused code', 'npx', 'knip', '--tsConfig', 'tsconfig.build.json'],
    ['audit', 'node', 'scripts/audit.mjs'],
    ...packages.flatMap((folder) => [
      [folder, 'npx', 'publint', '--strict', folder],
      [`types of ${folder}`, 'npx', 'attw', '--pack', folder, '--profile', 'esm-only'],
    ]),
  ],
]

/** Runs a command and resolves with its exit code and output. @param {string} command @param {string[]} args */
function run(command, args) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  return new Promise((resolve) => {
    child.on('error', (error) => resolve({ status: 1, output: error.message }))
    child.on('close', (status) => resolve({ status, output }))
  })
}

/** Stops at the first failure. The other list continues, so that one run reports both. @param {string[][]} steps */
async function runLane(steps) {
  for (const [name = '', command = '', ...args] of steps) {
    const started = Date.now()
    const { status, output } = await run(command, args)
    process.stdout.write(output)
    if (status !== 0) {
      console.error(`\ncheck failed: ${name} (${command} ${args.join(' ')})`)
      process.exitCode = 1
      return
    }
    console.log(`ok  ${name}  ${((Date.now() - started) / 1000).toFixed(1)} s`)
  }
}

await runLane(build)
await Promise.all(lanes.map(runLane))
