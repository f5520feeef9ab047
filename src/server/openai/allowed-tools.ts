import { isRecord } from '../../protocol/json.ts'

interface Named {
  readonly name: string
  readonly namespace?: string | undefined
}

/** The tools that a choice of the type `allowed_tools` leaves. All of them if it names none. */
export function allowedTools<Tool extends Named>(
  choice: unknown,
  tools: readonly Tool[],
): readonly Tool[] {
  if (!isRecord(choice) || choice['type'] !== 'allowed_tools') return tools
  // Chat Completions has the list within an object of the same name.
  const { tools: list } = isRecord(choice['allowed_tools']) ? choice['allowed_tools'] : choice
  const allowed = new Set(Array.isArray(list) ? list.flatMap((each) => toolsOf(each, tools)) : [])
  return allowed.size > 0 ? tools.filter((tool) => allowed.has(tool)) : tools
}

function toolsOf<Tool extends Named>(entry: unknown, tools: readonly Tool[]): readonly Tool[] {
  if (!isRecord(entry)) return []
  if (entry['type'] === 'namespace') {
    return tools.filter(({ namespace }) => namespace !== undefined && namespace === entry['name'])
  }
  const found = findTool(isRecord(entry['function']) ? entry['function'] : entry, tools)
  return found === undefined ? [] : [found]
}

/** The tool of a choice. Without a namespace it may be one of any namespace, if no other has its name. */
export function findTool<Tool extends Named>(
  { name, namespace }: Readonly<Record<string, unknown>>,
  tools: readonly Tool[],
): Tool | undefined {
  const found = tools.filter((tool) => tool.name === name)
  const exact = found.find((tool) => tool.namespace === (namespace ?? undefined))
  return exact ?? (namespace == null ? found[0] : undefined)
}
