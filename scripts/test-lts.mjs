// Runs the tests on the newest Node LTS:
//
//     node scripts/test-lts.mjs [options for vitest]
import { spawnSync } from 'node:child_process'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installNode } from './newest-node.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

function obtainNode() {
  try {
    return installNode()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    console.error('The tests did not run: the npm registry gave no newest Node LTS, see above.')
    return process.exit(1)
  }
}

const { node, version } = obtainNode()
console.log(`The tests on Node ${version}`)
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
const { status } = spawnSync(node, [vitest, 'run', ...process.argv.slice(2)], {
  cwd: root,
  stdio: 'inherit',
  // `node` in the tests must also be this one.
  env: { ...process.env, PATH: `${dirname(node)}${delimiter}${process.env['PATH'] ?? ''}` },
})
process.exit(status ?? 1)
