// Compiles packages/*/src into their dist/, and builds web/, the page, into packages/turnstream/dist/web. The package
// turnstream also gets its demo cassettes, the JSON Schemas, and the documents of the repository.
// With --if-stale it does nothing when the build is newer than its sources. With --sources it only compiles, over the last
// build.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { inlineCore } from './inline-core.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = join(root, 'packages')
const product = join(packages, 'turnstream')
const stamp = join(product, 'dist', '.built')

/** A package comes after those that it imports. */
const ORDER = ['core', 'client', 'conformance', 'turnstream']
/** What the tarball of turnstream has from the root of the repository. Those of the others have the license. */
const DOCUMENTS = ['docs', 'examples', 'README.md', 'CHANGELOG.md', 'LICENSE', 'llms.txt']

const inputs = [
  ...ORDER.flatMap((name) => ['src', 'package.json'].map((path) => join('packages', name, path))),
  'web',
  'scripts',
  'tsconfig.json',
  ...DOCUMENTS,
]

/** @param {string} path @returns {number} */
function newestChange(path) {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (!stats?.isDirectory()) return stats?.mtimeMs ?? 0
  const inside = readdirSync(path).map((name) => newestChange(join(path, name)))
  return Math.max(stats.mtimeMs, ...inside)
}

function isStale() {
  if (!existsSync(stamp)) return true
  const built = statSync(stamp).mtimeMs
  return inputs.some((input) => newestChange(join(root, input)) > built)
}

/** @param {string} name of a folder of packages/ */
function compile(name) {
  const folder = join(packages, name)
  const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'))
  execFileSync(process.execPath, [join(typescript, 'bin', 'tsc'), '-p', 'tsconfig.build.json'], {
    cwd: folder,
    stdio: 'inherit',
  })
  if (name === 'client') inlineCore(join(packages, 'core', 'dist'), join(folder, 'dist'))
}

/** Images are built without documents. @param {string} name @param {string} folder */
function copyDocument(name, folder) {
  if (!existsSync(join(root, name))) return
  rmSync(join(folder, name), { recursive: true, force: true })
  cpSync(join(root, name), join(folder, name), { recursive: true })
}

async function build() {
  for (const name of ORDER) rmSync(join(packages, name, 'dist'), { recursive: true, force: true })
  for (const name of ORDER) compile(name)
  chmodSync(join(product, 'dist', 'cli', 'main.js'), 0o755)
  cpSync(join(product, 'src', 'cli', 'demo'), join(product, 'dist', 'cli', 'demo'), {
    recursive: true,
    filter: (path) => !path.endsWith('.ts'),
  })
  for (const name of DOCUMENTS) copyDocument(name, product)
  for (const name of ORDER) copyDocument('LICENSE', join(packages, name))
  const schemas = await import(pathToFileURL(join(root, 'scripts', 'schemas.mjs')).href)
  await schemas.writeSchemas(join(product, 'dist'))
  const vite = await import('vite')
  await vite.build({ configFile: join(root, 'web', 'vite.config.ts'), logLevel: 'warn' })
  writeFileSync(stamp, '')
}

if (process.argv.includes('--sources')) for (const name of ORDER) compile(name)
else if (!process.argv.includes('--if-stale') || isStale()) await build()
