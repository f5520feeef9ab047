/** The packages as users get them: packed by npm, and installed in a project outside the repository. */
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { root } from '../repository/sources.ts'

export const PACKAGES = ['core', 'client', 'conformance', 'turnstream'] as const
export type PackageName = (typeof PACKAGES)[number]

interface Manifest {
  readonly name: string
  readonly version: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly bin?: Readonly<Record<string, string>>
}

export interface Packed {
  readonly manifest: Manifest
  readonly tarball: string
  /** The paths in the tarball. */
  readonly files: readonly string[]
}

/** The folder of a package. */
export function folderOf(name: PackageName): string {
  return join(root, 'packages', name)
}

/** The files below a folder, named from `base`. */
export function filesUnder(folder: string, base: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(base, join(entry.parentPath, entry.name)))
}

/** The example in a README, and what it prints. */
export function exampleIn(name: PackageName): { code: string; printed: string } {
  const readme = readFileSync(join(folderOf(name), 'README.md'), 'utf8')
  const [, code = ''] = /^```js\n(.*?)^```$/ms.exec(readme) ?? []
  const [, printed = ''] = /^```\n\n((?: {4}.*\n)+)/m.exec(readme) ?? []
  return { code, printed: printed.replaceAll(/^ {4}/gm, '') }
}

/** A project with an empty package.json. */
export class Project {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'turnstream-package-')))

  constructor() {
    this.write('package.json', '{ "type": "module" }')
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }

  write(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text)
  }

  /** Packs a package into the folder of the project. */
  pack(name: PackageName): Packed {
    const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', this.folder]
    const text = execFileSync('npm', args, {
      cwd: folderOf(name),
      encoding: 'utf8',
      stdio: 'pipe',
    })
    const [report] = JSON.parse(text) as { filename: string; files: { path: string }[] }[]
    const manifest = JSON.parse(
      readFileSync(join(folderOf(name), 'package.json'), 'utf8'),
    ) as Manifest
    return {
      manifest,
      tarball: join(this.folder, report?.filename ?? ''),
      files: (report?.files ?? []).map((file) => file.path),
    }
  }

  /** Unpacks a package into node_modules, without its dependencies. */
  unpack({ manifest, tarball }: Packed): void {
    const folder = join(this.folder, 'node_modules', manifest.name)
    mkdirSync(folder, { recursive: true })
    this.run('tar', ['-xzf', tarball, '-C', folder, '--strip-components=1'])
  }

  /** Installs packages as the repository has them. */
  link(names: readonly string[]): void {
    for (const name of names) {
      const target = join(this.folder, 'node_modules', name)
      // The name of a package may have a scope, which is a folder.
      mkdirSync(dirname(target), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), target)
    }
  }

  /** Runs a program in the project; throws with what it wrote to stderr or stdout. */
  run(program: string, args: readonly string[]): string {
    try {
      const options = { cwd: this.folder, encoding: 'utf8', stdio: 'pipe' } as const
      return execFileSync(program, args, options)
    } catch (error) {
      const { stderr, stdout } = error as { stderr?: string; stdout?: string }
      throw new Error(`${program} ${args.join(' ')} failed\n${stdout}${stderr}`, { cause: error })
    }
  }

  /** Runs a JavaScript module in Node. */
  runModule(code: string): string {
    this.write('module.mjs', code)
    return this.run(process.execPath, ['module.mjs'])
  }

  /** Checks a TypeScript program as strictly as projects do. Returns what the compiler reports. */
  checkTypes(program: string, resolution: Readonly<Record<string, string>>): string {
    this.write('consumer.ts', program)
    this.write('tsconfig.json', JSON.stringify(tsconfig(resolution)))
    return this.run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc')])
  }
}

/** Both ways to resolve packages in use. */
export const RESOLUTIONS = [
  ['nodenext', { module: 'nodenext' }],
  ['bundler', { module: 'esnext', moduleResolution: 'bundler' }],
] as const

/** As strict as projects are; `types` is empty, so that nothing of Node's types may be needed. */
function tsconfig(resolution: Readonly<Record<string, string>>): object {
  return {
    compilerOptions: {
      target: 'es2023',
      lib: ['es2023', 'dom', 'dom.iterable'],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noPropertyAccessFromIndexSignature: true,
      verbatimModuleSyntax: true,
      resolveJsonModule: true,
      skipLibCheck: false,
      noEmit: true,
      ...resolution,
    },
    files: ['consumer.ts'],
  }
}
