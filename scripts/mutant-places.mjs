// Finds what a rule of mutant-rules.mjs breaks: by the name of a function, method, class or constant of any package, and
// by tokens inside it. So files may move, and code be formatted, without a change of the rules.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'oxc-parser'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @typedef {{ file: string, name: string, text: string, start: number }} Declared */

/** @type {Map<string, Declared[]> | undefined} */
let declared

/**
 * The one place that the rule breaks, from the root of the repository.
 * @param {{ rule: string, symbol: string, from: string }} mutant
 * @returns {{ file: string, start: number, end: number }}
 */
export function placeOf({ rule, symbol, from }) {
  declared ??= readDeclarations()
  const tokens = from.match(/[\w$#]+|[^\s\w$#]/g) ?? []
  const pattern = new RegExp(tokens.map(escape).join('\\s*'), 'g')
  const places = (declared.get(symbol) ?? []).flatMap(({ file, text, start }) =>
    [...text.matchAll(pattern)].map(({ index, 0: found }) => ({
      file,
      start: start + index,
      end: start + index + found.length,
    })),
  )
  const [place, ...more] = places
  if (place === undefined || more.length > 0) {
    throw new Error(`${rule}: ${symbol} has \`${from}\` ${places.length} times, not once`)
  }
  return place
}

/** @param {string} token */
function escape(token) {
  return token.replaceAll(/[^\w]/g, String.raw`\$&`)
}

function readDeclarations() {
  /** @type {Map<string, Declared[]>} */
  const found = new Map()
  for (const name of readdirSync(join(root, 'packages'))) {
    const folder = join(root, 'packages', name, 'src')
    for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!path.endsWith('.ts')) continue
      const file = relative(root, join(folder, path))
      for (const each of declarationsOf(file)) {
        found.set(each.name, [...(found.get(each.name) ?? []), each])
      }
    }
  }
  return found
}

/** Also methods, as `Class.method`. @param {string} file @returns {Declared[]} */
function declarationsOf(file) {
  const source = readFileSync(join(root, file), 'utf8')
  const { program } = parseSync(file, source)
  return program.body.flatMap((statement) => {
    const declaration =
      'declaration' in statement && statement.declaration ? statement.declaration : statement
    const nodes = 'declarations' in declaration ? declaration.declarations : [declaration]
    return nodes.flatMap((node) => {
      const name = 'id' in node && node.id && 'name' in node.id ? node.id.name : undefined
      if (name === undefined) return []
      const own = { file, name, text: source.slice(node.start, node.end), start: node.start }
      const members = 'body' in node && node.type === 'ClassDeclaration' ? node.body.body : []
      return [own, ...members.flatMap((member) => toMember(member, own, source))]
    })
  })
}

/**
 * @param {{ start: number, end: number, key?: unknown }} member
 * @param {Declared} owner
 * @param {string} source
 * @returns {Declared[]}
 */
function toMember({ start, end, key }, { file, name }, source) {
  if (typeof key !== 'object' || key === null || !('name' in key)) return []
  const hash = 'type' in key && key.type === 'PrivateIdentifier' ? '#' : ''
  return [
    { file, name: `${name}.${hash}${String(key.name)}`, text: source.slice(start, end), start },
  ]
}
