import type {
  ProviderRequest,
  ToolDefinition,
} from '@turnstream/core/internal/formats/provider-request'
import type { SubmissionSettings } from '@turnstream/core/internal/formats/submission'
import { EXECUTED_BY_PROVIDER, isExecutedByProvider } from '@turnstream/core/internal/items/marks'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { parseJsonObject, withoutUndefined } from '@turnstream/core/internal/protocol/json'
import type { FunctionCall, OutputItem } from '@turnstream/core/internal/protocol/output-item'
import { redactShapes } from '@turnstream/core/internal/protocol/redaction'
import { argumentsChecker, type CheckOptions } from './arguments-checker.ts'
import type { ToolAnswer } from './transcript.ts'

export interface ToolCallContext {
  readonly turnId: string
  readonly threadId: string
  readonly callId: string
  /** Aborts when the turn is stopped or the tool times out. */
  readonly signal: AbortSignal
}

/** A tool that the server runs when a model calls it. */
export interface Tool extends ToolDefinition {
  /** Timeout of a call. Default 60 s. */
  readonly timeoutMs?: number
  /** Whether a client must approve a call. Default false. A function gets the arguments; a call fails if it throws. */
  readonly needsApproval?: boolean | ((args: Record<string, unknown>) => boolean)
  /**
   * `args` is the JSON object the model wrote, valid by `parameters`. The returned or resolved value is the
   * result, as JSON unless it is a string. A thrown error becomes a failed result.
   */
  execute(args: Record<string, unknown>, context: ToolCallContext): unknown
}

type Metadata = Record<string, unknown>

// Marks what this server ran, as opposed to the vendor. For a vendor these are ordinary calls.
const RUN_HERE = 'executed_here'

/** Returns the metadata of a call that this server runs, or of its output: no client has to answer it. */
export function markedAsRunHere(metadata: Metadata | undefined): Metadata {
  return { ...metadata, executed_by: EXECUTED_BY_PROVIDER, [RUN_HERE]: true }
}

/** Returns the item as it is sent back to its provider: an ordinary call, or its output. */
export function withoutMark<Item extends OutputItem>(item: Item): Item {
  const { provider_metadata: metadata, ...rest } = item
  if (metadata?.[RUN_HERE] !== true || !isExecutedByProvider(metadata)) return item
  const { executed_by: _by, [RUN_HERE]: _here, ...vendors } = metadata
  const kept = Object.keys(vendors).length > 0 ? { provider_metadata: vendors } : {}
  return { ...rest, ...kept } as Item
}

export class ToolRegistry {
  readonly names: ReadonlySet<string>
  readonly #byName: ReadonlyMap<string, Tool>
  readonly #definitions: readonly ToolDefinition[]

  /** Models call `unoffered` tools without being told of them. */
  constructor(tools: readonly Tool[] = [], unoffered: readonly Tool[] = []) {
    this.#byName = new Map([...unoffered, ...tools].map((tool) => [tool.name, tool]))
    this.names = new Set(this.#byName.keys())
    if (this.#byName.size < tools.length + unoffered.length) {
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

  /** Adds tools that are not offered, except those whose names tools of the server or the client have. */
  withUnoffered(more: readonly Tool[], { tools = [] }: SubmissionSettings): ToolRegistry {
    const taken = new Set([...this.names, ...tools.map(({ name }) => name)])
    const free = more.filter(({ name }) => !taken.has(name))
    return free.length === 0 ? this : new ToolRegistry([...this.#byName.values()], free)
  }

  /** Throws REQUEST_INVALID for a client tool with the name of a server tool: a call must have one owner. */
  check({ tools = [] }: SubmissionSettings): void {
    const taken = tools.find(({ name }) => this.#byName.has(name))
    if (taken === undefined) return
    throw new TurnstreamError('REQUEST_INVALID', `tools: ${taken.name} is a tool of this server`)
  }

  /** Returns the settings of a round. A forced tool choice is for the first only, or the model would never stop. */
  settingsOf(
    settings: SubmissionSettings,
    round: number,
  ): Omit<ProviderRequest, 'model' | 'input'> {
    const { tools = [], toolChoice, ...rest } = settings
    const all = [...this.#definitions, ...tools]
    const isForced = toolChoice === 'required' || typeof toolChoice === 'object'
    const choice = isForced && round > 1 ? 'auto' : toolChoice
    const offered = all.length > 0 && { tools: all }
    return { ...rest, ...offered, ...withoutUndefined({ toolChoice: choice }) }
  }
}

/** Reports the failure of a tool and returns it as the result of the call. */
export function failedAnswer(
  name: string,
  cause: unknown,
  onError: (error: unknown) => void,
): ToolAnswer {
  const error = hasCode(cause, 'TOOL_TIMEOUT')
    ? cause
    : new TurnstreamError('TOOL_FAILED', `${name}: ${reasonOf(cause)}`, { cause })
  onError(error)
  // The model and all readers of the turn see this.
  return { output: `${error.code}: ${redactShapes(error.message)}`, success: false }
}

/** Returns whether a call must be approved; one that will fail need not. Throws what the tool throws. TOOL_TIMEOUT. */
export async function needsApproval(
  tool: Tool,
  call: FunctionCall,
  options: CheckOptions,
): Promise<boolean> {
  const { needsApproval: rule = false } = tool
  if (rule === false) return false
  const found = await decodeArguments(tool, call, options)
  if ('fault' in found) return false
  const isNeeded: unknown = typeof rule === 'function' ? rule(found.args) : rule
  if (typeof isNeeded === 'boolean') return isNeeded
  throw new Error('needsApproval did not return a boolean')
}

/** Returns the arguments of a call, or what is wrong with them. TOOL_TIMEOUT. */
export async function decodeArguments(
  { parameters }: Tool,
  { arguments: text }: FunctionCall,
  options: CheckOptions,
): Promise<{ readonly args: Record<string, unknown> } | { readonly fault: string }> {
  const args = parseJsonObject(text)
  if (args === undefined) return { fault: 'the arguments are not a JSON object' }
  const fault = await argumentsChecker.check(parameters, args, text, options)
  if (fault === undefined) return { args }
  return { fault: `the arguments do not match the schema: ${fault}` }
}

/** A tool may throw anything, even values that cannot be converted to text, such as `Object.create(null)`. */
function reasonOf(cause: unknown): string {
  try {
    return String(cause instanceof Error ? cause.message : cause)
  } catch {
    return 'it threw a value that cannot be converted to text'
  }
}
