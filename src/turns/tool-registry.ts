import type { ProviderRequest, ToolDefinition } from '../adapters/provider.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import type { Tool } from './tool.ts'
import type { TurnSettings } from './turn-request.ts'

/** The tools that this server runs by itself. */
export class ToolRegistry {
  readonly names: ReadonlySet<string>
  readonly #byName: ReadonlyMap<string, Tool>
  readonly #definitions: readonly ToolDefinition[]

  constructor(tools: readonly Tool[] = []) {
    this.#byName = new Map(tools.map((tool) => [tool.name, tool]))
    this.names = new Set(this.#byName.keys())
    if (this.#byName.size < tools.length) {
      throw new TurnstreamError('OPTION_INVALID', 'two tools have the same name')
    }
    this.#definitions = tools.map(({ name, description, parameters }) => ({
      name,
      ...(description !== undefined && { description }),
      parameters,
    }))
  }

  get(name: string): Tool | undefined {
    return this.#byName.get(name)
  }

  /** REQUEST_INVALID for a tool of the client with the name of one of ours: a call must have one owner. */
  check({ tools = [] }: TurnSettings): void {
    const taken = tools.find(({ name }) => this.#byName.has(name))
    if (taken === undefined) return
    const detail = `tools: ${taken.name} is a tool of this server`
    throw new TurnstreamError('REQUEST_INVALID', detail)
  }

  /**
   * The settings of a round. A model that was made to call a tool may do as it likes when it has the
   * answer, or it would call tools for ever.
   */
  settingsOf(settings: TurnSettings, round: number): Omit<ProviderRequest, 'model' | 'input'> {
    const { tools = [], toolChoice, ...rest } = settings
    const all = [...this.#definitions, ...tools]
    const isForced = toolChoice === 'required' || typeof toolChoice === 'object'
    const choice = isForced && round > 1 ? 'auto' : toolChoice
    return {
      ...rest,
      ...(all.length > 0 && { tools: all }),
      ...(choice !== undefined && { toolChoice: choice }),
    }
  }
}
