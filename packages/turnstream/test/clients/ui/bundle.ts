/** Bundles programs as pages load them, with the packages of packages/turnstream/test/clients/, and runs them here. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runInThisContext } from 'node:vm'
import { build, defaultClientConditions, type Rolldown } from 'vite'
import { root } from '../../../../../test/repository/sources.ts'

const clients = join(root, 'packages/turnstream/test/clients')

/** By their files. A second run is a page that is loaded again. */
const bundles = new Map<string, Promise<string>>()

/** Files by name. The first one is the entry. Returns what it exports. */
export async function runBundle<T>(files: Readonly<Record<string, string>>): Promise<T> {
  const key = JSON.stringify(files)
  const built = bundles.get(key) ?? bundleFiles(files)
  bundles.set(key, built)
  return runInThisContext(`${await built}\nbundled`) as T
}

/** Returns a script that sets `bundled` to what the entry exports. */
export async function bundleFiles(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = mkdtempSync(join(clients, 'node_modules/.bundle-'))
  try {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    const [entry = ''] = Object.keys(files)
    return await bundle(join(folder, entry))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function bundle(entry: string): Promise<string> {
  const result = await build({
    ...{ root: clients, configFile: false, logLevel: 'error' },
    define: { 'process.env.NODE_ENV': '"development"' },
    resolve: {
      // Our sources would find another copy.
      dedupe: ['react', 'react-dom'],
      conditions: ['@turnstream/source', ...defaultClientConditions],
    },
    build: {
      ...{ write: false, minify: false, target: 'es2023' },
      lib: { entry, formats: ['iife'], name: 'bundled' },
    },
  })
  const outputs = (Array.isArray(result) ? result : [result]) as Rolldown.RolldownOutput[]
  const chunks = outputs.flatMap(({ output }) => output).filter((each) => each.type === 'chunk')
  if (chunks.length !== 1) throw new Error(`${chunks.length} chunks`)
  return chunks.map(({ code }) => code).join('')
}
