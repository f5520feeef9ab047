// Installs what the tests of test/clients/ need beside the package itself: frameworks that people use the
// gateway with. It has its own lock, so that nobody who uses the package gets them.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../test/clients/', import.meta.url))
const LIMIT_MS = 300_000

/**
 * Does nothing when the packages of the lock are installed already. Throws a sentence that says what to do when they
 * cannot be had.
 * @param {string} [where] the folder of package.json and its lock
 */
export function installTestClients(where = folder) {
  const lock = readFileSync(`${where}/package-lock.json`, 'utf8')
  const mark = `${where}/node_modules/.installed-lock.json`
  if (read(mark) === lock) return
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund']
  const { status, error, stdout, stderr } = spawnSync('npm', args, {
    cwd: where,
    encoding: 'utf8',
    timeout: LIMIT_MS,
  })
  if (status !== 0) {
    const reason = error?.message ?? `${stdout}${stderr}`.trim()
    throw new Error(
      `The packages of test/clients/package.json could not be installed. ` +
        `Run "npm ci --prefix test/clients" where the npm registry can be reached. ${reason}`,
    )
  }
  writeFileSync(mark, lock)
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
