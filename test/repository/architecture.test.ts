import { existsSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  globalsOf,
  type Import,
  importsOf,
  read,
  root,
  sourceFiles,
  sourceFolders,
} from './sources.ts'
import { section, tableRows } from './tables.ts'

const CORE = [
  'protocol',
  'async',
  'sse',
  'formats',
  'providers',
  'processor',
  'reducer',
  'log',
] as const
const SERVER_SIDE = [...CORE, 'turns'] as const
const ALL = [
  ...SERVER_SIDE,
  'codex',
  'tools',
  'server',
  'client',
  'react',
  'cassettes',
  'cli',
  'testing',
] as const

/** The architecture: each folder of src/, in the order the data flows, and what it may import. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  protocol: [],
  async: ['protocol'],
  sse: [],
  formats: ['protocol', 'async', 'sse'],
  providers: ['protocol', 'async', 'formats'],
  codex: ['protocol', 'async', 'sse', 'formats', 'providers'],
  processor: ['protocol', 'async'],
  reducer: ['protocol'],
  log: ['protocol', 'async'],
  cassettes: ['protocol', 'sse', 'formats', 'processor'],
  turns: CORE,
  tools: ['protocol', 'async', 'turns'],
  server: SERVER_SIDE,
  client: ['protocol', 'async', 'sse'],
  react: ['client'],
  cli: ALL,
  testing: ALL,
}

/** These run in browsers, workers, Bun and Deno as they do in Node. */
const RUNTIME_NEUTRAL = [
  'protocol',
  'async',
  'sse',
  'processor',
  'reducer',
  'formats',
  'client',
  'react',
  'cassettes',
]
const NODE_GLOBALS = ['process', 'Buffer', 'global', 'require', '__dirname', '__filename']

/** What runs once per token, where a schema library would cost more than the work itself, or in a page. */
const TOKEN_PATH = [
  'async',
  'sse',
  'formats',
  'providers',
  'processor',
  'reducer',
  'client',
  'cassettes',
]

const folders = sourceFolders()
const neutral = RUNTIME_NEUTRAL.filter((folder) => folders.includes(folder))

describe('the imports of each folder', () => {
  test('every folder of src/ has a row in the table', () => {
    expect(folders.filter((folder) => !(folder in MAY_IMPORT))).toEqual([])
  })

  test('every row names only folders that have a row', () => {
    const named = new Set([...Object.values(MAY_IMPORT).flat(), ...RUNTIME_NEUTRAL])
    expect([...named].filter((folder) => !(folder in MAY_IMPORT))).toEqual([])
  })

  test.each(folders)('src/%s imports only what its row allows', (folder) => {
    expect(importsOfFolder(folder).filter((each) => !isAllowed(folder, each))).toEqual([])
  })

  test.each(folders)('src/%s imports no entry point', (folder) => {
    const entries = importsOfFolder(folder).filter(({ target }) => isEntryPoint(target))
    expect(entries).toEqual([])
  })
})

describe('docs/architecture.md', () => {
  const doc = read('docs/architecture.md')
  const built = layersIn(section(doc, 'Folders'))

  test('lists the folders of src/', () => {
    expect(Object.keys(built).toSorted()).toEqual(folders)
  })

  test('has the same table as this test', () => {
    expect(built).toEqual(MAY_IMPORT)
  })
})

describe('import paths', () => {
  const relative = sourceFiles()
    .flatMap((file) => importsOf(file))
    .filter(({ target }) => target !== undefined)

  test('a relative import names a TypeScript file that exists', () => {
    expect(relative.filter(({ target }) => !isSourceFile(target))).toEqual([])
  })

  test('a relative import stays inside src/', () => {
    expect(relative.filter(({ target }) => !target?.startsWith('src/'))).toEqual([])
  })
})

describe('portable code', () => {
  test.each(neutral)('src/%s imports nothing of Node', (folder) => {
    const ofNode = importsOfFolder(folder).filter(({ specifier }) => isBuiltin(specifier))
    expect(ofNode).toEqual([])
  })

  test.each(neutral)('src/%s uses no Node globals', (folder) => {
    const used = filesOf(folder).flatMap((file) =>
      globalsOf(file, NODE_GLOBALS).map((name) => `${file} uses ${name}`),
    )
    expect(used).toEqual([])
  })
})

describe('the token path', () => {
  test('exists', () => {
    expect(TOKEN_PATH.filter((folder) => filesOf(folder).length === 0)).toEqual([])
  })

  test.each(TOKEN_PATH)('src/%s loads no package, directly or through others', (folder) => {
    expect(filesOf(folder).flatMap((file) => packagesLoadedBy(file))).toEqual([])
  })

  test('the check sees a package behind two imports', () => {
    expect(packagesLoadedBy('packages/core/src/protocol/response.ts')).toContainEqual(
      'packages/core/src/protocol/response.ts > packages/core/src/protocol/output-item.ts > packages/core/src/protocol/shape.ts > zod',
    )
  })
})

describe('the source parser', () => {
  test.each([
    ["import { a } from './a.ts'", true],
    ["import './a.ts'", true],
    ["import { type A } from './a.ts'", true],
    ["import type { A } from './a.ts'", false],
    ["export { a } from './a.ts'", true],
    ["export * from './a.ts'", true],
    ["export type { A } from './a.ts'", false],
    ["const a = await import('./a.ts')", true],
    ["type A = import('./a.ts').A", false],
  ])('finds %s', (text, runtime) => {
    const expected = { file: 'src/x/b.ts', specifier: './a.ts', target: 'src/x/a.ts', runtime }
    expect(importsOf('src/x/b.ts', text)).toEqual([expected])
  })

  test.each([
    ['process.exit()', ['process']],
    ['globalThis.process?.exit()', ['process']],
    ["globalThis['Buffer']", ['Buffer']],
    ['const b = Buffer.from(text)', ['Buffer']],
    ['typeof process', ['process']],
    ['this.process(event)', []],
    ['class A { process() {} }', []],
    ['const step = { process: 1 }', []],
  ])('finds the globals of %s', (text, used) => {
    expect(globalsOf('a.ts', NODE_GLOBALS, text)).toEqual(used)
  })
})

function layersIn(text: string): Record<string, readonly string[]> {
  const rows = tableRows(text).map(([folder = '', , imports = '']): [string, readonly string[]] => {
    const named = imports.split(', ').filter((name) => name !== 'nothing')
    return [folder.replaceAll('`', ''), imports === 'everything' ? ALL : named]
  })
  return Object.fromEntries(rows)
}

function filesOf(folder: string): string[] {
  return folders.includes(folder) ? sourceFiles(join(root, 'src', folder)) : []
}

function importsOfFolder(folder: string): Import[] {
  return filesOf(folder).flatMap((file) => importsOf(file))
}

function isAllowed(folder: string, { target }: Import): boolean {
  if (target === undefined) return true
  const imported = target.split('/')[1] ?? ''
  const row = MAY_IMPORT[folder] ?? []
  return imported === folder || isEntryPoint(target) || row.includes(imported)
}

/** Files at the root of src/ are what users import; nothing inside does. */
function isEntryPoint(target: string | undefined): boolean {
  return target !== undefined && /^src\/[^/]+$/.test(target)
}

function isSourceFile(target: string | undefined): boolean {
  return target !== undefined && target.endsWith('.ts') && existsSync(join(root, target))
}

function isBuiltin(specifier: string): boolean {
  return specifier.startsWith('node:') || builtinModules.includes(specifier)
}

/** The packages a file loads at run time, each with the way that leads there. */
function packagesLoadedBy(file: string): string[] {
  const seen = new Set<string>()
  const follow = (at: string, way: string): string[] => {
    if (seen.has(at)) return []
    seen.add(at)
    const loaded = importsOf(at).filter(({ runtime }) => runtime)
    return loaded.flatMap(({ specifier, target }) =>
      target === undefined ? [`${way} > ${specifier}`] : follow(target, `${way} > ${target}`),
    )
  }
  return follow(file, file)
}
