// Installs what the tests of packages/turnstream/test/clients/ need besides the package: client frameworks. They have a separate lock
// file, so users of the package do not install them. Subfolders hold large packages that few tests need.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const folder = fileURLToPath(new URL('../packages/turnstream/test/clients', import.meta.url))
const LIMIT_MS = 300_000

/**
 * Does nothing when the locked packages are installed. Throws an error with what to do when they are unavailable.
 * @param {string} [where] the folder of package.json and its lock
 */
export function installTestClients(where = folder) {
  if (isInstalled(where)) return
  // Test files in other processes may need the same packages.
  const mutex = join(where, 'node_modules.lock')
  takeMutex(mutex)
  try {
    if (!isInstalled(where)) install(where)
  } finally {
    rmSync(mutex, { force: true })
  }
}

/** @param {string} where */
function install(where) {
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund']
  const { status, error, stdout, stderr } = spawnSync('npm', args, {
    cwd: where,
    encoding: 'utf8',
    timeout: LIMIT_MS,
  })
  if (status !== 0) {
    const reason = error?.message ?? `${stdout}${stderr}`.trim()
    const name = relative(root, where)
    throw new Error(
      `The packages of ${name}/package.json could not be installed. ` +
        `Run "npm ci --prefix ${name}" where the npm registry can be reached. ${reason}`,
    )
  }
  writeFileSync(markOf(where), read(join(where, 'package-lock.json')) ?? '')
}

/** Waits while another process holds the file. @param {string} file */
function takeMutex(file) {
  const until = Date.now() + LIMIT_MS
  for (;;) {
    try {
      writeFileSync(file, `${process.pid}`, { flag: 'wx' })
      return
    } catch (error) {
      if (Date.now() > until) throw error
      const owner = Number(read(file))
      if (owner > 0 && !isRunning(owner)) rmSync(file, { force: true })
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
    }
  }
}

/** @param {number} pid */
function isRunning(pid) {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

/** @param {string} where */
function isInstalled(where) {
  return read(markOf(where)) === read(join(where, 'package-lock.json'))
}

/** @param {string} where */
function markOf(where) {
  return join(where, 'node_modules/.installed-lock.json')
}

/** @param {string} file */
function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
