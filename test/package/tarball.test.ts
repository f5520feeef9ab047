// @module-tag slow
import { cpSync, existsSync, readFileSync, rmSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { join } from 'node:path'
import { build, type Rolldown } from 'vite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { root } from '../repository/sources.ts'
import * as consumer from './consumer.ts'
import {
  exampleIn,
  filesUnder,
  folderOf,
  PACKAGES,
  type PackageName,
  type Packed,
  Project,
  RESOLUTIONS,
} from './packed.ts'

const SCHEMAS = [
  'cassette',
  'output-item',
  'response',
  'response-event',
  'stream-event',
  'stream-message',
  'stream-output',
]

// Compilers and bundlers run here, on machines that may be busy with the other tests.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

/** A project that has turnstream installed: the four packages, and nothing else but their dependencies. */
const project = new Project()
let packed: Record<PackageName, Packed>

beforeAll(() => {
  const isBuilt = existsSync(join(folderOf('turnstream'), 'dist/index.js'))
  if (!isBuilt) throw new Error('no dist/: run `npm run build`')
  const entries = PACKAGES.map((name) => [name, project.pack(name)])
  packed = Object.fromEntries(entries) as Record<PackageName, Packed>
  const dependencies = new Set(['react'])
  for (const each of Object.values(packed)) {
    project.unpack(each)
    for (const name of Object.keys(each.manifest.dependencies ?? {})) dependencies.add(name)
  }
  for (const { manifest } of Object.values(packed)) dependencies.delete(manifest.name)
  project.link([...dependencies])
})

afterAll(() => project.remove())

describe('the tarballs', () => {
  /** What they have besides their sources, the compiled sources, and what all have. */
  const more: Record<PackageName, () => string[]> = {
    core: () => [],
    client: () => [
      'dist/core/async/clock.d.ts',
      'dist/core/formats/model-traits.d.ts',
      'dist/core/formats/provider-request.d.ts',
      'dist/core/protocol/append-frame.d.ts',
      'dist/core/protocol/append-frame.js',
      'dist/core/protocol/heartbeat.js',
      'dist/core/protocol/item-ids.js',
      'dist/core/protocol/names.js',
      'dist/core/protocol/output-item.d.ts',
      'dist/core/protocol/stream-event.d.ts',
      'dist/core/protocol/stream-output.d.ts',
    ],
    conformance: () => [],
    turnstream: () => {
      const folder = folderOf('turnstream')
      const demos = filesUnder(join(folder, 'dist/cli/demo'), folder).filter((file) =>
        file.includes('.cassette.jsonl'),
      )
      expect(demos).toHaveLength(5)
      const documents = ['docs', 'examples'].flatMap((name) => filesUnder(join(root, name), root))
      return [
        ...demos,
        ...SCHEMAS.map((name) => `dist/schema/${name}.json`),
        ...filesUnder(join(folder, 'dist/web'), folder),
        ...['CHANGELOG.md', 'llms.txt', ...documents],
      ]
    },
  }

  test.each(PACKAGES)('%s has its build, its sources and its documents', (name) => {
    const folder = folderOf(name)
    const sources = filesUnder(join(folder, 'src'), folder).filter((file) => file.endsWith('.ts'))
    const compiled = sources.flatMap((file) => {
      const path = file.replace(/^src\//, 'dist/').replace(/\.ts$/, '')
      return ['.d.ts', '.d.ts.map', '.js', '.js.map'].map((extension) => `${path}${extension}`)
    })
    const common = ['LICENSE', 'README.md', 'package.json']
    const advice = 'if dist/ is older than src/, run `npm run build`'
    expect(packed[name].files.toSorted(), advice).toEqual(
      [...sources, ...compiled, ...common, ...more[name]()].toSorted(),
    )
  })

  test('have one version, and depend on exactly that version of each other', () => {
    const manifests = Object.values(packed).map(({ manifest }) => manifest)
    const names = new Set(manifests.map(({ name }) => name))
    const versions = manifests.flatMap(({ version, dependencies = {} }) => [
      version,
      ...Object.entries(dependencies).flatMap(([name, range]) => (names.has(name) ? range : [])),
    ])
    expect(new Set(versions).size).toBe(1)
  })
})

describe('in Node', () => {
  test('import resolves every entry point', () => {
    expect(JSON.parse(project.runModule(consumer.importScript(SCHEMAS)))).toEqual({
      code: 'TIMEOUT',
      casesOfLogs: true,
      fakeTime: 5,
      turns: [],
      client: { connection: { status: 'idle' } },
      hook: 'useThread',
      schemas: SCHEMAS.map((name) => `turnstream/schema/${name}.json`),
      version: packed.turnstream.manifest.version,
    })
  })

  test('require also resolves them', () => {
    project.write('require.cjs', consumer.REQUIRE_SCRIPT)
    expect(project.run(process.execPath, ['--no-warnings', 'require.cjs'])).toBe(
      'TIMEOUT 5 MemoryLog 0\n',
    )
  })

  test('other files are not exported', () => {
    const program = "await import('turnstream/dist/turns/turn.js')\n"
    expect(() => project.runModule(program)).toThrow('ERR_PACKAGE_PATH_NOT_EXPORTED')
  })
})

test('bundlers of server components see that the hooks are for the client', () => {
  const hooks = readFileSync(join(project.folder, 'node_modules/turnstream/dist/react.js'), 'utf8')
  expect(hooks).toMatch(/^'use client';?\n/)
})

test('a gateway works beside another copy of hono, as in projects that depend on hono', () => {
  const copy = join(project.folder, 'node_modules/turnstream/node_modules/hono')
  cpSync(join(root, 'node_modules/hono'), copy, { recursive: true, dereference: true })
  expect(project.runModule(consumer.TWO_HONOS)).toBe('200 REQUEST_INVALID\n')
  rmSync(copy, { recursive: true })
})

describe('the command', () => {
  test('is executable and prints its version', () => {
    expect(runCommand(['--version']).trim()).toBe(packed.turnstream.manifest.version)
  })

  test('prints help', () => {
    expect(runCommand(['--help'])).toContain('turnstream')
  })
})

describe('in a browser bundle', () => {
  test('the main entry uses no Node modules', async () => {
    const bundle = await bundleFor(consumer.EVERYTHING)
    expect(nodeModulesIn(bundle)).toEqual([])
    expect(bundle.code).toContain('_zod')
  })

  test('the check notices a Node module', async () => {
    const bundle = await bundleFor("import { readFileSync } from 'node:fs'\nreadFileSync('a')\n")
    expect(nodeModulesIn(bundle)).not.toEqual([])
  })

  test('processor and stream work without the schema library', async () => {
    const bundle = await bundleFor(consumer.TOKEN_PATH)
    expect(nodeModulesIn(bundle)).toEqual([])
    expect(bundle.code).not.toMatch(/_zod|ZodError/)
    expect(bundle.modules.filter((id) => id.includes('/zod/'))).toEqual([])
  })
})

describe('the types', () => {
  test.each(RESOLUTIONS)(
    'satisfy a strict project with module resolution %s',
    (_name, resolution) => {
      expect(project.checkTypes(consumer.PROGRAM, resolution)).toBe('')
    },
  )
})

test('the example of @turnstream/conformance passes', () => {
  project.write('log.test.mjs', exampleIn('conformance').code)
  const report = project.run(process.execPath, ['--test', '--test-reporter=tap', 'log.test.mjs'])
  expect(report).toMatch(/^# fail 0$/m)
  expect(Number(/^# pass (\d+)$/m.exec(report)?.[1])).toBeGreaterThan(100)
})

function runCommand(args: string[]): string {
  const { bin } = packed.turnstream.manifest
  const command = join(project.folder, 'node_modules/turnstream', bin?.['turnstream'] ?? '')
  return project.run(command, args)
}

interface Bundle {
  code: string
  /** What is left to be loaded when the bundle runs. */
  imports: string[]
  /** The files of which something is in the bundle. */
  modules: string[]
}

async function bundleFor(source: string): Promise<Bundle> {
  project.write('entry.js', source)
  const result = await build({
    root: project.folder,
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      minify: false,
      lib: { entry: join(project.folder, 'entry.js'), formats: ['es'] },
    },
  })
  const outputs = (Array.isArray(result) ? result : [result]) as Rolldown.RolldownOutput[]
  const chunks = outputs.flatMap(({ output }) => output).filter((each) => each.type === 'chunk')
  return {
    code: chunks.map((chunk) => chunk.code).join('\n'),
    imports: chunks.flatMap((chunk) => [...chunk.imports, ...chunk.dynamicImports]),
    modules: chunks.flatMap((chunk) =>
      Object.entries(chunk.modules).flatMap(([id, { renderedLength }]) =>
        renderedLength > 0 ? [id] : [],
      ),
    ),
  }
}

// Vite replaces a module of Node by a stub whose name holds this word.
const STUB = '__vite-browser-external'

function nodeModulesIn({ code, imports, modules }: Bundle): string[] {
  const loaded = imports.filter((id) => id.startsWith('node:') || builtinModules.includes(id))
  const stubbed = modules.filter((id) => id.includes(STUB))
  return [...loaded, ...stubbed, ...(code.includes(STUB) ? ['a stub'] : [])]
}
