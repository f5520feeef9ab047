// Finds the newest Node LTS in the npm registry, and installs it into a cache folder.
//
// LTS lines are the even majors. From April to October the newest of them is not yet called LTS; it counts half a year
// early.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))

/** The package of the npm registry that holds Node itself for this machine. */
function packageName() {
  const platform = `${process.platform}-${process.arch}`
  return platform === 'darwin-arm64' ? `node-bin-${platform}` : `node-${platform}`
}

/** @param {string[]} args */
function npm(args) {
  return execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })
}

/** @param {string} name @returns {string} */
function newestLts(name) {
  /** @type {string[]} */
  const versions = [JSON.parse(npm(['view', name, 'versions', '--json']))].flat()
  const numbers = versions
    .filter((version) => /^\d+\.\d+\.\d+$/.test(version))
    .map((version) => version.split('.').map(Number))
    .filter(([major = 0]) => major % 2 === 0)
  const newest = numbers.toSorted((a, b) => compare(b, a))[0]
  if (!newest) throw new Error(`the registry lists no even version of ${name}`)
  return newest.join('.')
}

/** @param {number[]} a @param {number[]} b @returns {number} */
function compare(a, b) {
  for (const [index, number] of a.entries()) {
    const difference = number - (b[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** Installs that Node, unless it is there, and returns its program. */
export function installNode() {
  const name = packageName()
  const version = newestLts(name)
  const folder = join(root, 'node_modules', '.cache', 'turnstream', `node-${version}`)
  const node = join(folder, 'node_modules', name, 'bin', 'node')
  if (!existsSync(node)) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{ "private": true }\n')
    const quiet = ['--no-save', '--no-package-lock', '--no-audit', '--no-fund']
    npm(['install', '--prefix', folder, '--ignore-scripts', ...quiet, `${name}@${version}`])
  }
  const reported = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
  if (reported !== `v${version}`) throw new Error(`${node} calls itself ${reported}`)
  return { node, version }
}
