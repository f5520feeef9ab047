/** The arguments of a call that come value by value, each with the path at which it belongs. */
import type { Fields } from '../fields.ts'
import type { PartialArg } from './wire.ts'

type Scalar = PartialArg['value']

/** A value that grows: pieces of a text come under one path. */
type Node = Map<string, Node> | Node[] | Scalar

// `.name`, `['name']`, `["name"]` or `[0]`; the `$` at the head is the whole of the arguments.
const STEP = /\.([^.[\]]+)|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]/gy

// Deeper than any schema, and shallow enough for JSON.stringify.
const MAX_DEPTH = 64

export class PartialArgs {
  readonly #root = new Map<string, Node>()
  readonly #whole: Fields
  #length = 0

  /** `whole` is what came in one piece before. */
  constructor(whole: Fields = {}) {
    this.#whole = whole
  }

  /** About as long as the JSON text will be. */
  get length(): number {
    return this.#length
  }

  /** False when the path leads nowhere. */
  add({ path, value }: PartialArg): boolean {
    const steps = stepsOf(path)
    if (steps === undefined) return false
    this.#length += path.length + (typeof value === 'string' ? value.length : 0)
    return put(this.#root, steps, value)
  }

  toString(): string {
    return JSON.stringify({ ...this.#whole, ...plainFields(this.#root) })
  }
}

type Step = string | number

function stepsOf(path: string): [Step, ...Step[]] | undefined {
  const steps: Step[] = []
  let end = path.startsWith('$') ? 1 : 0
  STEP.lastIndex = end
  for (let match = STEP.exec(path); match !== null; match = STEP.exec(path)) {
    const [, name, single, double, index] = match
    steps.push(index === undefined ? (name ?? unescape(single ?? double ?? '')) : Number(index))
    end = STEP.lastIndex
  }
  const [first, ...rest] = steps
  const isWhole = end === path.length && steps.length <= MAX_DEPTH
  return first !== undefined && isWhole ? [first, ...rest] : undefined
}

function unescape(text: string): string {
  return text.replace(/\\(.)/g, '$1')
}

function put(parent: Node, [step, ...rest]: readonly Step[], value: Scalar): boolean {
  if (step === undefined) return false
  const [next] = rest
  const before = get(parent, step)
  if (next === undefined) return set(parent, step, grown(before, value))
  const child = fits(before, next) ? before : typeof next === 'number' ? [] : new Map()
  return set(parent, step, child) && put(child, rest, value)
}

function grown(before: Node | undefined, value: Scalar): Node {
  return typeof before === 'string' && typeof value === 'string' ? before + value : value
}

function fits(node: Node | undefined, step: Step): node is Map<string, Node> | Node[] {
  return typeof step === 'number' ? Array.isArray(node) : node instanceof Map
}

function get(parent: Node, step: Step): Node | undefined {
  if (typeof step === 'number') return Array.isArray(parent) ? parent[step] : undefined
  return parent instanceof Map ? parent.get(step) : undefined
}

/** Lists grow at their end only: a place far behind it would be a hole as large as the vendor likes. */
function set(parent: Node, step: Step, node: Node): boolean {
  if (typeof step === 'number') {
    if (!Array.isArray(parent) || step > parent.length) return false
    parent[step] = node
    return true
  }
  if (!(parent instanceof Map)) return false
  parent.set(step, node)
  return true
}

function plainFields(node: Map<string, Node>): Fields {
  return Object.fromEntries([...node].map(([name, child]) => [name, plain(child)]))
}

function plain(node: Node): unknown {
  if (node instanceof Map) return plainFields(node)
  return Array.isArray(node) ? node.map(plain) : node
}
