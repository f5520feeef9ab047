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

export class ServerTools {
  readonly #fixed: readonly Tool[]
  readonly #sources: readonly ToolSource[]
  readonly #onError: (error: unknown) => void
  readonly #reported = new Set<string>()
  #lists: readonly (readonly Tool[])[] = []
  #registry: ToolRegistry

  /** OPTION_INVALID if two tools, other than those of sources, have the same name. */
  constructor(entries: readonly (Tool | ToolSource)[], onError: (error: unknown) => void) {
    this.#fixed = entries.filter((entry): entry is Tool => !isToolSource(entry))
    this.#sources = entries.filter(isToolSource)
    this.#onError = onError
    this.#registry = new ToolRegistry(this.#fixed)
  }

  /** The current tools. A turn keeps its initial ones. */
  current(): ToolRegistry {
    const lists = this.#sources.map(({ tools }) => tools)
    if (lists.every((list, index) => list === this.#lists[index])) return this.#registry
    this.#lists = lists
    this.#registry = new ToolRegistry(this.#unique())
    return this.#registry
  }

  /** Tools of sources give way to tools with the same name that come before them. */
  #unique(): Tool[] {
    const byName = new Map(this.#fixed.map((tool) => [tool.name, tool]))
    for (const source of this.#sources) {
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
