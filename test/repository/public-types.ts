import { parseSync } from 'oxc-parser'
import { read, targetOf } from './sources.ts'

/** A declaration, by the file that holds it and its name there. */
export interface Declared {
  readonly file: string
  readonly name: string
}

interface Node {
  readonly type: string
  readonly [field: string]: unknown
}

/** What the entry points export, where it is declared. */
export function publicNames(entries: readonly string[]): Declared[] {
  return entries.flatMap((entry) =>
    statementsOf(entry, read(entry)).flatMap((statement) => {
      if (statement.type === 'ExportAllDeclaration') {
        return publicNames([targetOf(entry, sourceOf(statement) ?? '') ?? ''])
      }
      return ((statement['specifiers'] as Node[] | undefined) ?? []).flatMap(
        ({ local }) => resolveName(entry, nameOf(local), read(entry)) ?? [],
      )
    }),
  )
}

/** The types of this package that a declaration mentions where its users see it. */
export function typesMentionedBy(file: string, name: string, text = read(file)): Declared[] {
  const declaration = declarationsOf(file, text).find((each) => nameOf(each['id']) === name)
  if (declaration === undefined) return []
  const own = new Set<string>([name])
  const found = new Map<string, Declared>()
  for (const node of visibleNodes(declaration)) {
    if (node.type === 'TSTypeParameter') own.add(nameOf(node['name']))
    if (node.type !== 'TSTypeReference' && node.type !== 'TSInterfaceHeritage') continue
    const mentioned = nameOf(node['typeName'] ?? node['expression'])
    const declared = own.has(mentioned) ? undefined : resolveName(file, mentioned, text)
    if (declared !== undefined) found.set(`${declared.file} ${declared.name}`, declared)
  }
  return [...found.values()].filter((each) => !own.has(each.name))
}

/** Where a name of a file is declared; undefined for what is global or of another package. */
function resolveName(file: string, name: string, text: string): Declared | undefined {
  if (declarationsOf(file, text).some((each) => nameOf(each['id']) === name)) return { file, name }
  for (const statement of statementsOf(file, text)) {
    const target = targetOf(file, sourceOf(statement) ?? '')
    if (target === undefined) continue
    for (const specifier of (statement['specifiers'] as Node[] | undefined) ?? []) {
      // An import is known here by its local name, what is exported again by its exported one.
      const isImport = statement.type === 'ImportDeclaration'
      if (nameOf(isImport ? specifier['local'] : specifier['exported']) !== name) continue
      const there = nameOf(specifier[isImport ? 'imported' : 'local'])
      return target === file
        ? undefined
        : (resolveIn(target, there) ?? { file: target, name: there })
    }
  }
  return undefined
}

function sourceOf(statement: Node): string | undefined {
  return (statement['source'] as { value?: string } | null | undefined)?.value
}

function resolveIn(file: string, name: string): Declared | undefined {
  try {
    return resolveName(file, name, read(file))
  } catch {
    return undefined
  }
}

/** The declarations at the top of a file, exported or not. */
function declarationsOf(file: string, text: string): Node[] {
  return statementsOf(file, text).flatMap((statement) => {
    const declared = (statement['declaration'] as Node | null | undefined) ?? statement
    return declared.type === 'VariableDeclaration'
      ? (declared['declarations'] as Node[])
      : declared['id'] == null
        ? []
        : [declared]
  })
}

/** Files are looked at again and again, once for each name. */
const parsed = new Map<string, Node[]>()

function statementsOf(file: string, text: string): Node[] {
  const known = parsed.get(text)
  if (known !== undefined) return known
  const { program, errors } = parseSync(file, text)
  if (errors.length > 0) throw new Error(`${file} does not parse: ${errors[0]?.message}`)
  const statements = program.body as unknown as Node[]
  parsed.set(text, statements)
  return statements
}

/** Everything of a declaration but bodies, values and what is private. */
function* visibleNodes(node: Node): Generator<Node> {
  if (isHidden(node)) return
  yield node
  for (const [field, value] of Object.entries(node)) {
    const isBody = field === 'body' && !BODIES_TO_READ.has(node.type)
    if (isBody || field === 'init' || (field === 'value' && node.type === 'PropertyDefinition'))
      continue
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child)) yield* visibleNodes(child)
    }
  }
}

const BODIES_TO_READ = new Set([
  'ClassDeclaration',
  'ClassBody',
  'TSInterfaceDeclaration',
  'TSInterfaceBody',
])

function isHidden(node: Node): boolean {
  const key = node['key']
  const isPrivateName = isNode(key) && key.type === 'PrivateIdentifier'
  return isPrivateName || node['accessibility'] === 'private'
}

function nameOf(node: unknown): string {
  return isNode(node) && typeof node['name'] === 'string' ? node['name'] : ''
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && 'type' in value
}
