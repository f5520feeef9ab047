import { isRecord } from '../protocol/json.ts'
import { ParameterError } from './openai-errors.ts'
import type { ToolDefinition } from './provider-request.ts'
import { MAX_DESCRIPTION_CHARS, MAX_SCHEMA_CHARS } from './request-in.ts'

/** A function of a request. Without parameters it takes none. */
export function functionDefinition(
  name: string,
  given: { description?: unknown; parameters?: unknown; strict?: unknown },
): ToolDefinition {
  const { description, strict } = given
  const parameters = isRecord(given.parameters)
    ? given.parameters
    : { type: 'object', properties: {} }
  if (JSON.stringify(parameters).length > MAX_SCHEMA_CHARS) {
    throw new ParameterError('tools', `the schema of ${name} is too large`)
  }
  return {
    name,
    ...(typeof description === 'string' && {
      description: description.slice(0, MAX_DESCRIPTION_CHARS),
    }),
    parameters,
    ...(typeof strict === 'boolean' && { strict }),
  }
}

interface Named {
  readonly name: string
  readonly namespace?: string | undefined
}

/** A choice or a call of a request. */
type ToolReference = Readonly<Record<string, unknown>>

/** Tools by name. A request may have thousands of tools and of references to them. The first of a name wins. */
export class ToolIndex<Tool extends Named> {
  readonly #byName = new Map<unknown, Tool>()
  readonly #byKey = new Map<string, Tool>()

  constructor(tools: readonly Tool[]) {
    for (const tool of tools) {
      const { name, namespace } = tool
      const key = keyOf(name, namespace)
      if (!this.#byName.has(name)) this.#byName.set(name, tool)
      if (!this.#byKey.has(key)) this.#byKey.set(key, tool)
    }
  }

  /** The tool of this name in this namespace, or outside of all. */
  exact({ name, namespace }: ToolReference): Tool | undefined {
    return this.#byKey.get(keyOf(name, namespace))
  }

  /** The same. Without a namespace it may be one of any namespace, if no other has its name. */
  find(reference: ToolReference): Tool | undefined {
    const { name, namespace } = reference
    return this.exact(reference) ?? (namespace == null ? this.#byName.get(name) : undefined)
  }
}

function keyOf(name: unknown, namespace: unknown): string {
  return JSON.stringify([name, namespace ?? null])
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
