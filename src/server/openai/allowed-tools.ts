import { isRecord } from '../../protocol/json.ts'

/** The tools that a choice of the type `allowed_tools` leaves. All of them if it names none. */
export function allowedTools<Tool extends { readonly name: string }>(
  choice: unknown,
  tools: readonly Tool[],
): readonly Tool[] {
  if (!isRecord(choice) || choice['type'] !== 'allowed_tools') return tools
  // Chat Completions has the list within an object of the same name.
  const { tools: list } = isRecord(choice['allowed_tools']) ? choice['allowed_tools'] : choice
  const names = new Set(Array.isArray(list) ? list.map(nameOf) : [])
  const allowed = tools.filter(({ name }) => names.has(name))
  return allowed.length > 0 ? allowed : tools
}

function nameOf(tool: unknown): unknown {
  if (!isRecord(tool)) return undefined
  return isRecord(tool['function']) ? tool['function']['name'] : tool['name']
}
