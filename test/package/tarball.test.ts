// @module-tag slow
import { execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { builtinModules } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { build, type Rolldown } from 'vite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { root, sourceFiles } from '../repository/sources.ts'
import * as consumer from './consumer.ts'

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

/** A project that has the packed package installed, and nothing else but its dependencies. */
let project: string
let packed: string[]

beforeAll(() => {
  if (!existsSync(join(root, 'dist', 'index.js'))) throw new Error('no dist/: run `npm run build`')
  project = mkdtempSync(join(tmpdir(), 'turnstream-package-'))
  packed = pack(project)
  const modules = join(project, 'node_modules')
  mkdirSync(join(modules, 'turnstream'), { recursive: true })
  run('tar', ['-xzf', tarballName(), '-C', 'node_modules/turnstream', '--strip-components=1'])
  for (const name of [...Object.keys(packageJson.dependencies), 'react']) {
    // The name of a package may have a scope, which is a folder.
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), join(modules, name))
  }
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }')
})

afterAll(() => {
  rmSync(project, { recursive: true, force: true })
})

test('the tarball contains exactly the build, its sources and the documents', () => {
  const sources = sourceFiles()
  const compiled = sources.flatMap((file) => {
    const name = file.replace(/^src\//, 'dist/').replace(/\.ts$/, '')
    return ['.d.ts', '.d.ts.map', '.js', '.js.map'].map((extension) => `${name}${extension}`)
  })
  const schemas = SCHEMAS.map((name) => `packages/turnstream/dist/schema/${name}.json`)
  const documents = ['CHANGELOG.md', 'LICENSE', 'README.md', 'llms.txt', 'package.json']
  const shown = ['packages/turnstream/dist/web', 'docs', 'examples'].flatMap(filesUnder)
  const demos = filesUnder('packages/turnstream/dist/cli/demo').filter((file) =>
    file.includes('.cassette.jsonl'),
  )
  expect(demos).toHaveLength(5)
  const expected = [...sources, ...compiled, ...demos, ...schemas, ...documents, ...shown]
  const advice = 'if dist/ is older than src/, run `npm run build`'
  expect(packed.toSorted(), advice).toEqual(expected.toSorted())
})

describe('in Node', () => {
  test('import resolves every entry point', () => {
    writeFileSync(join(project, 'import.mjs'), consumer.importScript(SCHEMAS))
    expect(JSON.parse(run(process.execPath, ['import.mjs']))).toEqual({
      code: 'TIMEOUT',
      casesOfLogs: true,
      fakeTime: 5,
      turns: [],
      client: { connection: { status: 'idle' } },
      hook: 'useThread',
      schemas: SCHEMAS.map((name) => `turnstream/schema/${name}.json`),
      version: packageJson.version,
    })
  })

  test('require also resolves them', () => {
    writeFileSync(join(project, 'require.cjs'), consumer.REQUIRE_SCRIPT)
    expect(run(process.execPath, ['--no-warnings', 'require.cjs'])).toBe('TIMEOUT 5 MemoryLog 0\n')
  })

  test('other files are not exported', () => {
    writeFileSync(join(project, 'reach.mjs'), "await import('turnstream/dist/protocol/json.js')\n")
    expect(() => run(process.execPath, ['reach.mjs'])).toThrow('ERR_PACKAGE_PATH_NOT_EXPORTED')
  })
})

test('bundlers of server components see that the hooks are for the client', () => {
  const hooks = readFileSync(join(project, 'node_modules/turnstream/dist/react.js'), 'utf8')
  expect(hooks).toMatch(/^'use client';?\n/)
})

test('a gateway works beside another copy of hono, as in projects that depend on hono', () => {
  const copy = join(project, 'node_modules/turnstream/node_modules/hono')
  cpSync(join(root, 'node_modules/hono'), copy, { recursive: true, dereference: true })
  writeFileSync(join(project, 'two-honos.mjs'), consumer.TWO_HONOS)
  expect(run(process.execPath, ['two-honos.mjs'])).toBe('200 REQUEST_INVALID\n')
  rmSync(copy, { recursive: true })
})

describe('the command', () => {
  test('is executable and prints its version', () => {
    expect(runCommand(['--version']).trim()).toBe(packageJson.version)
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
  test.each([
    ['nodenext', { module: 'nodenext' }],
    ['bundler', { module: 'esnext', moduleResolution: 'bundler' }],
  ])('satisfy a strict project with module resolution %s', (name, resolution) => {
    writeFileSync(join(project, 'consumer.ts'), consumer.PROGRAM)
    const config = consumer.tsconfig(resolution)
    writeFileSync(join(project, `tsconfig.${name}.json`), JSON.stringify(config))
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
    expect(run(process.execPath, [tsc, '-p', `tsconfig.${name}.json`])).toBe('')
  })
})

function pack(into: string): string[] {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', into]
  const text = execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })
  const [report] = JSON.parse(text) as { files: { path: string }[] }[]
  return (report?.files ?? []).map((file) => file.path)
}

function filesUnder(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))
}

function tarballName(): string {
  return `${packageJson.name}-${packageJson.version}.tgz`
}

function runCommand(args: string[]): string {
  const command = join(project, 'node_modules', 'turnstream', packageJson.bin.turnstream)
  return run(command, args)
}

/** Runs a program in the project; throws with what it wrote to stderr or stdout. */
function run(program: string, args: string[]): string {
  try {
    return execFileSync(program, args, { cwd: project, encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    const { stderr, stdout } = error as { stderr?: string; stdout?: string }
    throw new Error(`${program} ${args.join(' ')} failed\n${stdout}${stderr}`, { cause: error })
  }
}

interface Bundle {
  code: string
  /** What is left to be loaded when the bundle runs. */
  imports: string[]
  /** The files of which something is in the bundle. */
  modules: string[]
}

async function bundleFor(source: string): Promise<Bundle> {
  writeFileSync(join(project, 'entry.js'), source)
  const result = await build({
    root: project,
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      minify: false,
      lib: { entry: join(project, 'entry.js'), formats: ['es'] },
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
