import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The folders of packages/, each after those that it imports. */
export const PACKAGES = ['core', 'client', 'conformance', 'turnstream'] as const

export interface Import {
  /** The importing file, from the root of the repository. */
  file: string
  specifier: string
  /** The file that the specifier stands for; undefined for a package that is not ours. */
  target: string | undefined
  /** False for `import type` and its kin, which leave nothing behind in the compiled file. */
  runtime: boolean
}

interface Node {
  type: string
  [field: string]: unknown
}

/** The text of a file, named from the root of the repository. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

/** The documents at the root and under docs/, named from the root of the repository, sorted. */
export function documents(): string[] {
  const atRoot = readdirSync(root).filter((name) => name.endsWith('.md'))
  const below = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.split(sep).join('/')}`)
  return [...atRoot, ...below].toSorted()
}

/** Every TypeScript file of all packages, named from the root of the repository, sorted. */
export function sourceFiles(): string[] {
  return PACKAGES.flatMap((name) => filesUnder(`packages/${name}/src`)).toSorted()
}

/** Every TypeScript file under a folder, named from the root of the repository, sorted. */
export function filesUnder(path: string): string[] {
  const folder = join(root, path)
  const found = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
    .map((entry) => join(entry.parentPath, entry.name))
  return found.map(fromRoot).toSorted()
}

/** The folders of the sources, such as `core/protocol`, sorted. */
export function sourceFolders(): string[] {
  return PACKAGES.flatMap((name) =>
    readdirSync(join(root, 'packages', name, 'src'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map((entry) => `${name}/${entry.name}`),
  ).toSorted()
}

/** Everything a file imports or re-exports, statically, dynamically or as a type. */
export function importsOf(file: string, text: string = read(file)): Import[] {
  const imports: Import[] = []
  for (const node of nodesOf(file, text)) {
    const specifier = importedBy(node)
    if (specifier === undefined) continue
    imports.push({ file, specifier, target: targetOf(file, specifier), runtime: isRuntime(node) })
  }
  return imports
}

/** The file that a specifier stands for; undefined for a package that is not ours. */
export function targetOf(file: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return fromRoot(resolve(root, dirname(file), specifier))
  const [, name, path = 'index'] =
    /^@turnstream\/(\w+)(?:\/(?:internal\/)?(.+))?$/.exec(specifier) ?? []
  return name === undefined ? undefined : `packages/${name}/src/${path}.ts`
}

/** The names among `globals` that a file uses as a variable or as a property of globalThis. */
export function globalsOf(
  file: string,
  globals: readonly string[],
  text: string = read(file),
): string[] {
  const used = new Set<string>()
  for (const node of nodesOf(file, text)) {
    const name = variableName(node)
    if (name !== undefined && globals.includes(name)) used.add(name)
  }
  return [...used].toSorted()
}

/** Every string literal of a file. */
export function literalsOf(file: string): string[] {
  return [...nodesOf(file, read(file))].flatMap((node) => literal(node) ?? [])
}

/** The names of the types that an entry point re-exports by name, sorted. */
export function exportedTypesOf(file: string): string[] {
  const names: string[] = []
  for (const statement of statementsOf(file, read(file))) {
    // 'use client'
    if (statement['directive']) continue
    if (statement.type === 'ExportAllDeclaration') {
      const target = targetOf(file, literal(statement['source']) ?? '')
      names.push(...exportedTypesOf(target ?? ''))
      continue
    }
    if (statement.type !== 'ExportNamedDeclaration' || !isNode(statement['source'])) {
      throw new Error(`${file} holds a ${statement.type}: an entry point only re-exports, by name`)
    }
    for (const specifier of statement['specifiers'] as Node[]) {
      const isType = statement['exportKind'] === 'type' || specifier['exportKind'] === 'type'
      if (isType) names.push((specifier['exported'] as Node)['name'] as string)
    }
  }
  return names.toSorted()
}

/** The top-level statements of a file. */
function statementsOf(file: string, text: string = read(file)): Node[] {
  const { program, errors } = parseSync(file, text)
  if (errors.length > 0) throw new Error(`${file} does not parse: ${errors[0]?.message}`)
  return program.body as unknown as Node[]
}

function fromRoot(path: string): string {
  return relative(root, path).split(sep).join('/')
}

function importedBy(node: Node): string | undefined {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportAllDeclaration':
    case 'ExportNamedDeclaration':
    case 'ImportExpression':
    case 'TSImportType':
      return literal(node['source'])
    default:
      return undefined
  }
}

// `import { type A }` keeps an empty import in the output under verbatimModuleSyntax, so only the
// kind of the whole declaration counts.
function isRuntime(node: Node): boolean {
  const kind = node['importKind'] ?? node['exportKind']
  return kind !== 'type' && node.type !== 'TSImportType'
}

/** The variable a node names; `nodesUnder` leaves out names after a dot or before a colon. */
function variableName(node: Node): string | undefined {
  if (node.type === 'Identifier') return node['name'] as string
  if (node.type !== 'MemberExpression') return undefined
  const { object, property } = node
  const ofGlobalThis = isNode(object) && object['name'] === 'globalThis'
  if (!ofGlobalThis || !isNode(property)) return undefined
  return literal(property) ?? (property['name'] as string | undefined)
}

function* nodesOf(file: string, text: string): Generator<Node> {
  for (const statement of statementsOf(file, text)) yield* nodesUnder(statement)
}

function* nodesUnder(node: Node): Generator<Node> {
  yield node
  for (const [field, value] of Object.entries(node)) {
    if (isPlainName(node, field)) continue
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child)) yield* nodesUnder(child)
    }
  }
}

function isPlainName(node: Node, field: string): boolean {
  const named = field === 'property' || field === 'key' || field === 'imported'
  return named && node['computed'] !== true
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value
}

function literal(node: unknown): string | undefined {
  if (!isNode(node) || node.type !== 'Literal') return undefined
  return typeof node['value'] === 'string' ? node['value'] : undefined
}
