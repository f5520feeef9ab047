import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { type Tool, ToolRegistry } from './tools.ts'

/** Tools that may change, such as the tools of an MCP server. */
export interface ToolSource {
  readonly name: string
  /** The tools now. A changed list is another array. */
  readonly tools: readonly Tool[]
  /** Whether calls can be made now. Calls fail while it is false. */
  readonly isConnected: boolean
}

export function isToolSource(entry: Tool | ToolSource): entry is ToolSource {
  return 'tools' in entry
}

function isTool(entry: Tool | ToolSource): entry is Tool {
  return !isToolSource(entry)
}

/** The tools that a server runs, from the given list and its sources. */
export class ServerTools {
  readonly #entries: readonly (Tool | ToolSource)[]
  readonly #onError: (error: unknown) => void
  readonly #reported = new Set<string>()
  #lists: readonly (readonly Tool[])[] = []
  #registry: ToolRegistry

  /** OPTION_INVALID if two tools, other than those of sources, have the same name. */
  constructor(entries: readonly (Tool | ToolSource)[], onError: (error: unknown) => void) {
    this.#entries = entries
    this.#onError = onError
    this.#registry = new ToolRegistry(entries.filter(isTool))
  }

  /** The current tools. A turn keeps its initial ones. */
  current(): ToolRegistry {
    const lists = this.#entries.filter(isToolSource).map(({ tools }) => tools)
    const isSame = lists.every((list, index) => list === this.#lists[index])
    if (isSame && lists.length === this.#lists.length) return this.#registry
    this.#lists = lists
    this.#registry = new ToolRegistry(this.#unique())
    return this.#registry
  }

  /** Tools of sources give way to tools with the same name that come before them. */
  #unique(): Tool[] {
    const fixed = this.#entries.filter(isTool)
    const byName = new Map(fixed.map((tool) => [tool.name, tool]))
    for (const source of this.#entries.filter(isToolSource)) {
      for (const tool of source.tools) {
        if (byName.has(tool.name)) this.#reportTaken(source, tool)
        else byName.set(tool.name, tool)
      }
    }
    return [...byName.values()]
  }

  #reportTaken(source: ToolSource, { name }: Tool): void {
    if (this.#reported.has(name)) return
    this.#reported.add(name)
    const detail = `${name} of ${source.name} is not offered: another tool has this name`
    this.#onError(new TurnstreamError('OPTION_INVALID', detail))
  }
}
