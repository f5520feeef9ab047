import { isRecord, parseJsonObject } from '../../protocol/json.ts'

/**
 * The tools of a Responses request as functions. Providers know only functions with flat names, so a custom tool becomes
 * a function with one string, `input`, and a tool of a namespace gets the namespace as a prefix. The response names the
 * tools as the request did.
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
const REFUSED_CHARS = /[^\w-]/g

/** Lists the tools that a client can run. Hosted ones, such as `web_search`, are not among them. */
export function namedTools(tools: readonly unknown[]): NamedTool[] {
  const names = new Set<string>()
  return tools
    .flatMap((tool) => toolsOf(tool))
    .map((each) => {
      const flatName = unusedName(
        each.namespace ? `${each.namespace}__${each.name}` : each.name,
        names,
      )
      names.add(flatName)
      return { ...each, flatName }
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

function unusedName(name: string, used: ReadonlySet<string>): string {
  const safe = name.replaceAll(REFUSED_CHARS, '_').slice(0, MAX_NAME_CHARS)
  if (!used.has(safe)) return safe
  for (let count = 2; ; count++) {
    const suffix = `_${count}`
    const next = safe.slice(0, MAX_NAME_CHARS - suffix.length) + suffix
    if (!used.has(next)) return next
  }
}

/** The text that a custom tool was called with. */
export function customInput(args: string): string {
  const input = parseJsonObject(args)?.['input']
  return typeof input === 'string' ? input : args
}

/** The arguments of a function that stands for a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ input })
}
