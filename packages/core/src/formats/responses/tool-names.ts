import { isRecord } from '../../protocol/json.ts'

/**
 * A tool of a Responses request as a function. Providers know only flat names, so a namespace becomes a prefix, and a
 * custom tool a function with one string, `input`. The response names the tools as the request did.
 */
export interface NamedTool {
  /** How the provider calls it. */
  readonly flatName: string
  readonly name: string
  readonly namespace?: string
  readonly isCustom: boolean
  /** As the client sent it. */
  readonly tool: Record<string, unknown>
}

/** The names that every provider accepts. */
const MAX_NAME_CHARS = 64
/** What is left of a name before the longest number. */
const STEM_CHARS = 56
const REFUSED_CHARS = /[^\w-]/g

/** Lists the tools that a client can run. Hosted ones, such as `web_search`, are not among them. */
export function namedTools(tools: readonly unknown[]): NamedTool[] {
  const names = new FlatNames()
  return tools
    .flatMap((tool) => toolsOf(tool))
    .map((each) => {
      const name = each.namespace ? `${each.namespace}__${each.name}` : each.name
      return { ...each, flatName: names.add(name) }
    })
}

type Unnamed = Omit<NamedTool, 'flatName'>

function toolsOf(tool: unknown): Unnamed[] {
  if (!isRecord(tool) || typeof tool['name'] !== 'string' || tool['name'] === '') return []
  const { type, name, tools } = tool
  if (type === 'function' || type === 'custom') return [{ name, isCustom: type === 'custom', tool }]
  if (type !== 'namespace' || !Array.isArray(tools)) return []
  return tools.flatMap((each) => {
    const isTool = isRecord(each) && (each['type'] === 'function' || each['type'] === 'custom')
    return isTool ? toolsOf(each).map((inner) => ({ ...inner, namespace: name })) : []
  })
}

class FlatNames {
  readonly #used = new Set<string>()
  /** The last number of each stem. It is counted on from there: a request may repeat one name thousands of times. */
  readonly #numbers = new Map<string, number>()

  /** Returns the name as providers accept it, with a number if it is taken. */
  add(name: string): string {
    const safe = name.replaceAll(REFUSED_CHARS, '_').slice(0, MAX_NAME_CHARS)
    const stem = safe.slice(0, STEM_CHARS)
    let unused = safe
    let number = this.#numbers.get(stem) ?? 1
    while (this.#used.has(unused)) {
      number += 1
      const suffix = `_${number}`
      unused = safe.slice(0, MAX_NAME_CHARS - suffix.length) + suffix
    }
    this.#numbers.set(stem, number)
    this.#used.add(unused)
    return unused
  }
}
