// Compiles src/ into dist/, copies the demo cassettes, writes the JSON Schemas beside it, and builds web/, the page, into dist/web.
// With --if-stale it does nothing when dist/ is newer than its sources.
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

const root = fileURLToPath(new URL('..', import.meta.url))
const stamp = join(root, 'dist', '.built')
const inputs = ['src', 'web', 'scripts', 'package.json', 'tsconfig.json', 'tsconfig.build.json']

/** @param {string} path @returns {number} */
function newestChange(path) {
  const stats = statSync(path)
  if (!stats.isDirectory()) return stats.mtimeMs
  const inside = readdirSync(path).map((name) => newestChange(join(path, name)))
  return Math.max(stats.mtimeMs, ...inside)
}

function isStale() {
  if (!existsSync(stamp)) return true
  const built = statSync(stamp).mtimeMs
  return inputs.some((input) => newestChange(join(root, input)) > built)
}

async function build() {
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'))
  const tsc = join(typescript, 'bin', 'tsc')
  execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], {
    cwd: root,
    stdio: 'inherit',
  })
  chmodSync(join(root, 'dist', 'cli', 'main.js'), 0o755)
  cpSync(join(root, 'src', 'cli', 'demo'), join(root, 'dist', 'cli', 'demo'), {
    recursive: true,
    filter: (path) => !path.endsWith('.ts'),
  })
  const schemas = await import(pathToFileURL(join(root, 'scripts', 'schemas.mjs')).href)
  await schemas.writeSchemas(join(root, 'dist'))
  const vite = await import('vite')
  await vite.build({ configFile: join(root, 'web', 'vite.config.ts'), logLevel: 'warn' })
  writeFileSync(stamp, '')
}

if (!process.argv.includes('--if-stale') || isStale()) await build()
