import { isRecord } from '@turnstream/core/internal/protocol/json'
import { ToolIndex } from './tool-index.ts'

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
  const index = new ToolIndex(tools)
  const named = new Set<Tool | undefined>()
  const namespaces = new Set<unknown>()
  for (const entry of Array.isArray(list) ? list.filter(isRecord) : []) {
    if (entry['type'] === 'namespace') namespaces.add(entry['name'])
    else named.add(index.find([entry['function'], entry['custom']].find(isRecord) ?? entry))
  }
  namespaces.delete(undefined)
  const allowed = tools.filter((tool) => named.has(tool) || namespaces.has(tool.namespace))
  return allowed.length > 0 ? allowed : tools
}
