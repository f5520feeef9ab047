import { asString } from '@turnstream/core/internal/formats/fields'
import { forProvider } from '@turnstream/core/internal/formats/issuer'
import { vendorFields } from '@turnstream/core/internal/formats/metadata'
import type { ProviderRequest } from '@turnstream/core/internal/formats/provider-request'
import { toInput } from '@turnstream/core/internal/formats/responses/request-out'
import { writeSettings } from '@turnstream/core/internal/formats/settings'
import { invalidOption } from '@turnstream/core/internal/formats/vendor-request'
import type { OutputItem } from '@turnstream/core/internal/protocol/output-item'
import { CODEX_ID } from '../providers/provider.ts'
import { approvalPolicy, type CodexAgent, checkAgent } from './agent.ts'
import type { Params } from './connection.ts'
import { CODEX_SETTINGS } from './settings.ts'

/** What a request becomes: a thread with its tools, the history, and a turn without input. */
export interface CodexRequest {
  readonly thread: Params
  readonly items: readonly Params[]
  readonly turn: Params
  readonly originalName: (name: string) => string
}

/** Translates a request, to `agent` if given. Throws for options that the app-server cannot honour. */
export function buildCodexRequest(
  request: ProviderRequest,
  models: readonly string[],
  agent?: CodexAgent,
): CodexRequest {
  refuseUnsupported(request)
  const names = new ToolNames()
  const thread = agent ? agentThread(request, models, agent) : modelThread(request, names)
  const items = toInput(agent ? request.input.map(ownItem) : request.input)
  return {
    thread: { ephemeral: true, model: request.model, ...thread },
    items: items.map((item) => toCodexItem(item, names)),
    turn: { input: [], ...writeSettings(CODEX_SETTINGS, request) },
    originalName: (name) => names.toClient(name),
  }
}

function modelThread({ tools = [], toolChoice }: ProviderRequest, names: ToolNames): Params {
  const offered = toolChoice === 'none' ? [] : tools
  return {
    environments: [],
    approvalPolicy: 'never',
    experimentalRawEvents: true,
    // Without it codex sends its own instructions.
    baseInstructions: '',
    dynamicTools: offered.map(({ name, description = '', parameters }) => {
      return { type: 'function', name: names.toCodex(name), description, inputSchema: parameters }
    }),
  }
}

/** An agent has its own tools. The request's tools are not offered to it. */
function agentThread(
  { model }: ProviderRequest,
  models: readonly string[],
  agent: CodexAgent,
): Params {
  checkAgent(agent)
  // The tools of codex depend on the model.
  if (!models.includes(model)) refuse('model', `runs the agent with ${models.join(', ')}`)
  return {
    cwd: agent.directory,
    sandbox: agent.sandbox,
    approvalPolicy: approvalPolicy(agent),
    experimentalRawEvents: true,
  }
}

/** What codex ran in earlier turns is history: the model sees it as calls with their results. */
function ownItem(stored: OutputItem): OutputItem {
  const item = forProvider(stored, CODEX_ID)
  if (vendorFields('codex', item) === undefined) return item
  if (item.type !== 'function_call' && item.type !== 'function_call_output') return item
  const { provider_metadata: _, ...rest } = item
  return rest
}

/** The app-server cannot do this, and would ignore it. */
function refuseUnsupported({ input, toolChoice }: ProviderRequest): void {
  if (input.some(hasFile)) refuse('attachments', 'takes images, not files')
  if (toolChoice === 'required' || typeof toolChoice === 'object') {
    refuse('toolChoice', 'cannot force a tool call')
  }
}

function hasFile(item: OutputItem): boolean {
  return item.type === 'message' && (item.attachments ?? []).some(({ type }) => type === 'file')
}

function refuse(name: string, reason: string): never {
  throw invalidOption(name, `codex ${reason}`)
}

/** codex drops items with the role system without a word. */
function toCodexItem(item: Params, names: ToolNames): Params {
  if (item['role'] === 'system') return { ...item, role: 'developer' }
  const name = asString(item['name'])
  if (item['type'] !== 'function_call' || name === undefined) return item
  return { ...item, name: names.toCodex(name) }
}

const ALLOWED = /^[a-zA-Z0-9_-]{1,128}$/
/** codex refuses or drops tools with these names. */
const RESERVED = /^(?:mcp|mcp__.*|exec_command|tool_\d+)$/

/** Gives tools whose names codex does not accept another one, the same in both directions. */
class ToolNames {
  readonly #aliases = new Map<string, string>()
  readonly #originals = new Map<string, string>()

  toCodex(name: string): string {
    if (ALLOWED.test(name) && !RESERVED.test(name)) return name
    const known = this.#aliases.get(name)
    if (known !== undefined) return known
    const alias = `tool_${this.#aliases.size + 1}`
    this.#aliases.set(name, alias)
    this.#originals.set(alias, name)
    return alias
  }

  toClient(name: string): string {
    return this.#originals.get(name) ?? name
  }
}
