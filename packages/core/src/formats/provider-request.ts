import type { OutputItem } from '../protocol/output-item.ts'
import type { Effort } from './model-traits.ts'

/** A tool that the model may call; `parameters` is a JSON Schema. */
export interface ToolDefinition {
  name: string
  description?: string
  parameters: Record<string, unknown>
  /** Whether arguments must match the schema exactly. */
  strict?: boolean
}

/**
 * One vendor-neutral call to a model. `input` is the thread so far, oldest first: messages of user, agent and system,
 * reasoning, calls and outputs. An item's `provider_metadata` goes back to the provider it came from.
 */
export interface ProviderRequest {
  model: string
  input: readonly OutputItem[]
  tools?: readonly ToolDefinition[]
  toolChoice?: 'auto' | 'none' | 'required' | { name: string }
  reasoningEffort?: Effort
  /** How to summarize the reasoning, for vendors that only show a summary. With an effort `auto` by default. */
  reasoningSummary?: 'none' | 'auto' | 'concise' | 'detailed'
  /** Thinking budget in tokens, for providers that support one. */
  thinkingBudget?: number
  /** Anthropic's own parameters, passed on unchanged. Other vendors go by `reasoningEffort`. */
  thinking?: ThinkingParameters
  maxOutputTokens?: number
  temperature?: number
  topP?: number
  stop?: readonly string[]
  responseFormat?: { type: 'text' } | { type: 'json_object' } | JsonSchemaFormat
  parallelToolCalls?: boolean
  topK?: number
  seed?: number
  frequencyPenalty?: number
  presencePenalty?: number
  /** From -100 to 100, by token id. */
  logitBias?: Readonly<Record<string, number>>
  /** How long the answer should be. */
  verbosity?: 'low' | 'medium' | 'high'
  /** `auto`, `default`, or a name of the vendor. */
  serviceTier?: string
  /** An id of the end user, for the vendor's abuse detection. */
  user?: string
  promptCacheKey?: string
  /** How long to cache the prompt, for vendors that cache only on request. */
  promptCache?: '5m' | '1h'
}

/** Whether and how Claude thinks, as a client of Anthropic's API writes it. */
export interface ThinkingParameters {
  /** Missing: what the model does by default. */
  type?: 'enabled' | 'adaptive' | 'disabled' | 'between_tools'
  budgetTokens?: number
  display?: 'summarized' | 'omitted'
  /** Whether `reasoningEffort` is only for other vendors: the client has given none. */
  isEffortImplied?: boolean
}

export type ModelSettings = Omit<ProviderRequest, 'input'>

/** What a provider may lack: `strict` of tools; of items `name`, `compaction` of OpenAI, and call ids over 64 characters. */
export type SettingName =
  | Exclude<keyof ModelSettings, 'model' | 'tools' | 'toolChoice'>
  | 'strict'
  | 'name'
  | 'compaction'
  | 'longCallIds'

export interface JsonSchemaFormat {
  type: 'json_schema'
  name: string
  schema: Record<string, unknown>
  strict?: boolean
}

/** What a provider takes of a request. */
export interface FittedSettings {
  /** The settings to leave out; always those of items if it has none. */
  readonly unsupported: readonly SettingName[]
  /** What comes closest to them, to be used in their place. */
  readonly nearest: Partial<ModelSettings>
}

export interface RunContext {
  runId: string
  turnId: string
  threadId: string
  /** Tenant of the turn: turn ids are unique within one only. */
  tenant?: string
  /** Which call of the turn this is, from 1: one per round of the tool loop. 1 by default. */
  round?: number
  /** Generates the ids of the response's items. By default they are numbered from 1. */
  nextItemId?: () => string
  /** Maximum characters of one tool call's arguments. The provider's own limit by default. */
  maxArgumentChars?: number
  /** Called for each retry. */
  onRetry?: () => void
  /** Called for each type of vendor event that is not known, once per call. */
  onUnknown?: (type: string) => void
  /**
   * Waits until a client has answered an `approval_request` item, by its `approval_id`. False if none arrives before
   * the turn ends. Missing if approvals are not supported.
   */
  isApproved?: (approvalId: string) => Promise<boolean>
}
