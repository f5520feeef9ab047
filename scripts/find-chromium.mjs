// A Chromium for tests: an installed one, or one from npm, which needs neither root nor a package manager.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findFile, USUAL_FOLDERS } from './find-program.mjs'
import { installTestClients } from './install-test-clients.mjs'

/**
 * A browser that runs on this machine. `env` are additional environment variables.
 * @typedef {{ file: string, env: Record<string, string>, version: string }} Chromium
 */

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
const PACKAGE = fileURLToPath(
  new URL('../packages/turnstream/test/clients/chromium', import.meta.url),
)
/** Where the browser of npm is. npm removes it when it installs another version. */
export const NPM_BROWSER = join(PACKAGE, 'node_modules/.unpacked')
const UNPACK_LIMIT_MS = 120_000

// The package is made for a cloud service, and unpacks additional libraries only there.
const UNPACK = `
process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs20.x'
const { default: chromium } = await import('@sparticuz/chromium')
await chromium.executablePath()`

/**
 * Looks in this order: `file`, the folders of `path`, the npm package of packages/turnstream/test/clients/chromium. `{ path: '' }` looks in
 * no folder, so that the package is used. Throws an error with what was tried and what to do.
 * @param {{ file?: string | undefined, path?: string }} [where]
 * @returns {Chromium}
 */
export function findChromium(where = {}) {
  const { file = process.env['CHROMIUM_PATH'] } = where
  if (file)
    return attempt(`CHROMIUM_PATH, which is ${file}, does not run`, () => describe(file, {}))
  const path = where.path ?? [process.env['PATH'] ?? '', ...USUAL_FOLDERS].join(delimiter)
  for (const name of NAMES) {
    const found = findFile(name, path)
    if (found) return attempt(`${found} does not run`, () => describe(found, {}))
  }
  return attempt(`no ${NAMES.join(', ')} is in PATH, and npm gave none that runs`, fromNpm)
}

/** @returns {Chromium} */
function fromNpm() {
  installTestClients(PACKAGE)
  if (!existsSync(NPM_BROWSER)) unpack()
  return describeUnpacked(NPM_BROWSER)
}

/**
 * Unpacks to a temporary folder first: a folder with the final name is complete and tested. Of two concurrent
 * processes the slower one deletes its copy.
 */
function unpack() {
  const temporary = mkdtempSync(`${NPM_BROWSER}-`)
  try {
    const { status, error, stderr } = spawnSync(
      process.execPath,
      ['--input-type=module', '--eval', UNPACK],
      {
        cwd: PACKAGE,
        env: { ...process.env, TMPDIR: temporary },
        encoding: 'utf8',
        timeout: UNPACK_LIMIT_MS,
      },
    )
    if (status !== 0) throw error ?? new Error(lastLine(stderr))
    describeUnpacked(temporary)
    renameSync(temporary, NPM_BROWSER)
  } catch (error) {
    rmSync(temporary, { recursive: true, force: true })
    if (!existsSync(NPM_BROWSER)) throw error
  }
}

/** @param {string} folder @returns {Chromium} */
function describeUnpacked(folder) {
  const inherited = process.env['LD_LIBRARY_PATH']
  const libraries = [join(folder, 'al2023/lib'), ...(inherited ? [inherited] : [])]
  return describe(join(folder, 'chromium'), {
    LD_LIBRARY_PATH: libraries.join(delimiter),
    // The package's configuration names folders of the cloud service.
    FONTCONFIG_FILE: join(PACKAGE, 'fonts.conf'),
  })
}

/** @param {string} file @param {Record<string, string>} env @returns {Chromium} */
function describe(file, env) {
  const { stdout, stderr, status, error } = spawnSync(file, ['--version', '--no-sandbox'], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })
  const version = /\d+(?:\.\d+){3}/.exec(stdout ?? '')?.[0]
  if (version) return { file, env, version }
  throw error ?? new Error(lastLine(stderr) || `it exits with ${status}`)
}

/** @param {string} problem @param {() => Chromium} find */
function attempt(problem, find) {
  try {
    return find()
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new Error(
      `There is no Chromium to run with: ${problem} (${reason}); run \`apt-get install chromium\`, or set ` +
        'CHROMIUM_PATH to a chromium.',
      { cause: error },
    )
  }
}

/** @param {string} text */
function lastLine(text) {
  return text.trim().split('\n').at(-1) ?? ''
}
