// Sets the version of all packages, also where they depend on each other: node scripts/set-version.mjs <version>
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

/**
 * @typedef {object} Manifest
 * @property {string} name
 * @property {string} version
 * @property {Record<string, string>} [dependencies]
 * @property {Record<string, string>} [devDependencies]
 */

const [version = ''] = process.argv.slice(2)
if (version === '') throw new Error('usage: set-version.mjs <version>')

const folders = readdirSync('packages').map((name) => `packages/${name}`)
/** @type {Manifest[]} */
const manifests = folders.map((folder) => read(`${folder}/package.json`))
const lock = read('package-lock.json')

for (const [index, manifest] of manifests.entries()) {
  write(`${folders[index]}/package.json`, setVersion(manifest))
}
for (const folder of folders) setVersion(lock.packages[folder])
write('package-lock.json', lock)

/** @param {Manifest} manifest of a package, or its entry in the lock file */
function setVersion(manifest) {
  manifest.version = version
  for (const dependencies of [manifest.dependencies ?? {}, manifest.devDependencies ?? {}]) {
    for (const { name } of manifests) if (name in dependencies) dependencies[name] = version
  }
  return manifest
}

/** @param {string} file */
function read(file) {
  return JSON.parse(readFileSync(file, 'utf8'))
}

/** @param {string} file @param {object} json */
function write(file, json) {
  writeFileSync(file, `${JSON.stringify(json, null, 2)}\n`)
}
