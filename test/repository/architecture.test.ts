import { existsSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  filesUnder,
  globalsOf,
  type Import,
  importsOf,
  read,
  root,
  sourceFiles,
  sourceFolders,
} from './sources.ts'
import { section, tableRows } from './tables.ts'

/** What each package may import of the others. */
const PACKAGES_MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  client: ['core'],
  conformance: ['core'],
  turnstream: ['core', 'client', 'conformance'],
}

/** Each folder of a package, and what it may import of the same package. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  'core/protocol': [],
  'core/schemas': ['protocol'],
  'core/async': ['protocol'],
  'core/sse': [],
  'core/items': ['protocol', 'async'],
  'core/formats': ['protocol', 'async', 'sse', 'items', 'processor', 'reducer'],
  'core/processor': ['protocol', 'async', 'items'],
  'core/reducer': ['protocol', 'items'],
  'core/cassettes': ['protocol', 'sse', 'items', 'formats', 'processor'],
  'core/log': ['protocol', 'async'],
  'client/client': [],
  'client/react': ['client'],
  'conformance/turn-log': [],
  'conformance/endpoint': [],
  'turnstream/providers': [],
  'turnstream/codex': ['providers'],
  'turnstream/log': [],
  'turnstream/turns': ['log', 'providers'],
  'turnstream/tools': ['turns'],
  'turnstream/server': ['log', 'providers', 'turns'],
  'turnstream/cli': ['codex', 'log', 'providers', 'server', 'tools', 'turns'],
}

/** These run in browsers, workers, Bun and Deno as they do in Node. */
const isNeutral = (folder: string): boolean => /^(core|client)\//.test(folder)
const NODE_GLOBALS = ['process', 'Buffer', 'global', 'require', '__dirname', '__filename']

/** What runs once per token, where a schema library would cost more than the work itself, or in a page. */
const TOKEN_PATH = [
  'core/protocol',
  'core/async',
  'core/sse',
  'core/items',
  'core/formats',
  'core/processor',
  'core/reducer',
  'core/cassettes',
  'client/client',
  'turnstream/providers',
]

/** A client's request is decoded once, before its turn. */
const DECODES_REQUESTS = /\/formats\/(?:request-schemas|[^/]+\/(?:schemas|request-in))\.ts$/

const folders = sourceFolders()
const neutral = folders.filter(isNeutral)

describe('the imports of each folder', () => {
  test('every folder has a row in the table', () => {
    expect(folders.filter((folder) => !(folder in MAY_IMPORT))).toEqual([])
  })

  test('every row names only folders that have a row', () => {
    const named = Object.entries(MAY_IMPORT).flatMap(([folder, names]) =>
      names.map((name) => `${packageOf(folder)}/${name}`),
    )
    expect(named.filter((folder) => !(folder in MAY_IMPORT))).toEqual([])
  })

  test.each(folders)('%s imports only what its row allows', (folder) => {
    expect(importsOfFolder(folder).filter((each) => !isAllowed(folder, each))).toEqual([])
  })

  test.each(folders)('%s imports no entry point', (folder) => {
    const entries = importsOfFolder(folder).filter(({ target }) => isEntryPoint(folder, target))
    expect(entries).toEqual([])
  })
})

describe('docs/architecture.md', () => {
  const doc = read('docs/architecture.md')
  const built = layersIn(section(doc, 'Folders'))

  test('lists the folders', () => {
    expect(Object.keys(built).toSorted()).toEqual(folders)
  })

  test('has the same table as this test', () => {
    expect(built).toEqual(MAY_IMPORT)
  })

  const walks = doc
    .split('\n## ')
    .filter((each) => each.startsWith('The path of'))
    .map((walk) => [walk.split('\n', 1)[0], walk] as const)

  test.each(walks)('%s has at most 20 steps, through files that exist', (_title, walk) => {
    const steps = walk.match(/^\d+\. /gm) ?? []
    expect(steps.length).toBeGreaterThan(5)
    expect(steps.length).toBeLessThanOrEqual(20)
    const paths = Array.from(walk.matchAll(/`(\w+)\/([\w/-]+\.ts)`(?: \(`#?(\w+)`\))?/g))
    expect(paths.length).toBeGreaterThanOrEqual(steps.length / 2)
    for (const [, name, path, symbol = ''] of paths) {
      expect(read(`packages/${name}/src/${path}`), `${path} has ${symbol}`).toContain(symbol)
    }
  })
})

describe('import paths', () => {
  const relative = sourceFiles()
    .flatMap((file) => importsOf(file))
    .filter(({ target }) => target !== undefined)

  test('a relative import names a TypeScript file that exists', () => {
    expect(relative.filter(({ target }) => !isSourceFile(target))).toEqual([])
  })

  test('a relative import stays inside its package', () => {
    const leaving = relative.filter(
      ({ file, specifier, target }) =>
        specifier.startsWith('.') && !target?.startsWith(file.replace(/\/src\/.*$/, '/src/')),
    )
    expect(leaving).toEqual([])
  })
})

describe('portable code', () => {
  test.each(neutral)('%s imports nothing of Node', (folder) => {
    const ofNode = importsOfFolder(folder).filter(({ specifier }) => isBuiltin(specifier))
    expect(ofNode).toEqual([])
  })

  test.each(neutral)('%s uses no Node globals', (folder) => {
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

  test.each(TOKEN_PATH)('%s loads no package, directly or through others', (folder) => {
    const files = filesOf(folder).filter((file) => !DECODES_REQUESTS.test(file))
    expect(files.flatMap((file) => packagesLoadedBy(file))).toEqual([])
  })

  test('the main entry of core loads no package', () => {
    expect(packagesLoadedBy('packages/core/src/index.ts')).toEqual([])
  })

  test('the check sees a package behind two imports', () => {
    expect(packagesLoadedBy('packages/core/src/schemas/response.ts')).toContainEqual(
      'packages/core/src/schemas/response.ts > packages/core/src/schemas/output-item.ts > packages/core/src/schemas/shape.ts > zod',
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
  const rows = tableRows(text).map(([folder = '', , imports = '']): [string, readonly string[]] => [
    folder.replaceAll('`', ''),
    imports.split(', ').filter((name) => name !== 'nothing'),
  ])
  return Object.fromEntries(rows)
}

function filesOf(folder: string): string[] {
  const [name, inside] = folder.split('/')
  return filesUnder(`packages/${name}/src/${inside}`)
}

function importsOfFolder(folder: string): Import[] {
  return filesOf(folder).flatMap((file) => importsOf(file))
}

/** `core` of `core/protocol` and of `packages/core/src/protocol/json.ts`. */
function packageOf(path: string): string {
  return path.replace(/^packages\//, '').split('/')[0] ?? ''
}

function isAllowed(folder: string, { target }: Import): boolean {
  if (target === undefined) return true
  const importing = packageOf(folder)
  const imported = packageOf(target)
  if (imported !== importing) return PACKAGES_MAY_IMPORT[importing]?.includes(imported) === true
  const inside = target.split('/')[3] ?? ''
  return `${importing}/${inside}` === folder || MAY_IMPORT[folder]?.includes(inside) === true
}

/** Files at the root of src/ are what users import; nothing inside does. */
function isEntryPoint(folder: string, target: string | undefined): boolean {
  return (
    target !== undefined && new RegExp(`^packages/${packageOf(folder)}/src/[^/]+$`).test(target)
  )
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
