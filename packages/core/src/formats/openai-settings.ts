/** The settings of both APIs of OpenAI. */

import type { Fields } from './fields.ts'
import { type Effort, ModelTable, type ModelTraits, type TraitRows } from './model-traits.ts'
import type { ModelSettings } from './provider-request.ts'
import { MAX_CALL_ID_CHARS } from './sent-call-ids.ts'
import {
  BY_ITSELF,
  budgetAsEffort,
  Instead,
  isOff,
  knownEffort,
  THINKING_IS_OFF,
  thinkingAsEffort,
  type VendorSettings,
  WITHIN,
  type Written,
} from './settings.ts'

function reasoning(sampling: ModelTraits['sampling'], ...efforts: readonly Effort[]): ModelTraits {
  return { thinking: 'budget', efforts, sampling }
}

const TO_HIGH = ['low', 'medium', 'high'] as const
const TO_XHIGH = [...TO_HIGH, 'xhigh'] as const
const TO_MAX = [...TO_XHIGH, 'max'] as const

/** OpenAI's models by generation. Other names take everything: their servers decide. */
export const OPENAI_MODELS: TraitRows = [
  [/^(?:openai\/)?(?:gpt-[34]|chatgpt-4|gpt-5-chat)/, reasoning('any')],
  [/^(?:openai\/)?o\d(?:-|$)/, reasoning('none', ...TO_HIGH)],
  [/^(?:openai\/)?gpt-5\.\d+-chat/, reasoning('none', 'medium')],
  [/^(?:openai\/)?gpt-5-pro/, reasoning('none', 'high')],
  [/^(?:openai\/)?gpt-5\.\d+-pro/, reasoning('none', 'medium', 'high', 'xhigh')],
  [/^(?:openai\/)?gpt-5(?:\.1)?-codex(?!-max)/, reasoning('none', ...TO_HIGH)],
  [/^(?:openai\/)?gpt-5\.\d+-codex/, reasoning('none', ...TO_XHIGH)],
  [/^(?:openai\/)?gpt-5\.1(?!\d)/, reasoning('without_effort', 'none', ...TO_HIGH)],
  [/^(?:openai\/)?gpt-5\.[2-4](?!\d)/, reasoning('without_effort', 'none', ...TO_XHIGH)],
  [/^(?:openai\/)?gpt-5\.5(?!\d)/, reasoning('effort_none', 'none', ...TO_XHIGH)],
  [/^(?:openai\/)?gpt-5\.\d/, reasoning('effort_none', 'none', ...TO_MAX)],
  [/^(?:openai\/)?gpt-5(?!\d)/, reasoning('none', 'minimal', ...TO_HIGH)],
  [/^(?:openai\/)?gpt-6(?:-astra|\.1-sol)/, reasoning('none', ...TO_MAX)],
  [/^(?:openai\/)?gpt-6(?!\d)/, reasoning('effort_none', 'none', ...TO_MAX)],
]

const DEFAULT_MODELS = new ModelTable(OPENAI_MODELS)

function writeEffort(
  models: ModelTable,
  write: (effort: Effort, request: ModelSettings) => Fields,
) {
  return (effort: Effort, request: ModelSettings): Written => {
    if (isOff(request)) return THINKING_IS_OFF
    const { efforts } = models.traitsOf(request.model)
    const known = knownEffort(effort, efforts, request.model)
    return known === effort ? write(effort, request) : known
  }
}

/** Writes `temperature` or `topP`, unless it is the default and the model takes no other. */
function writeSampling(models: ModelTable, write: (value: number) => Fields) {
  return (value: number, { model, reasoningEffort }: ModelSettings): Fields | string => {
    const { sampling } = models.traitsOf(model)
    if (sampling === 'any' || sampling === 'one') return write(value)
    if (value === 1) return {}
    if (isUnreasoned(sampling, reasoningEffort)) return write(value)
    return `${model} does not take it`
  }
}

function isUnreasoned(sampling: ModelTraits['sampling'], effort: Effort | undefined): boolean {
  if (effort === undefined) return sampling === 'without_effort'
  return effort === 'none' && sampling !== 'none'
}

const MIN_OUTPUT_TOKENS = 16
const TOO_FEW_TOKENS = new Instead(
  { maxOutputTokens: MIN_OUTPUT_TOKENS },
  `it must be at least ${MIN_OUTPUT_TOKENS}`,
)

function writeOutputLimit(write: (tokens: number) => Fields) {
  return (tokens: number) => (tokens < MIN_OUTPUT_TOKENS ? TOO_FEW_TOKENS : write(tokens))
}

export const LONG_CALL_IDS_REFUSED = `OpenAI takes call ids of up to ${MAX_CALL_ID_CHARS} characters`

interface Server {
  /** Has `max_tokens` in place of `max_completion_tokens`. */
  readonly legacyMaxTokens?: boolean
  readonly baseUrl?: string
  readonly models?: ModelTable
}

const OPENAI = /^https:\/\/(?:api\.openai\.com|[\w.-]+\.openai\.azure\.com)(?:[/:]|$)/

/** Whether the server is OpenAI's own, by default or at Azure. */
export function isOpenai(baseUrl: string | undefined): boolean {
  return baseUrl === undefined || OPENAI.test(baseUrl)
}

export function openaiChatSettings({
  legacyMaxTokens,
  baseUrl,
  models = DEFAULT_MODELS,
}: Server): VendorSettings {
  const isVendor = isOpenai(baseUrl)
  const writeLimit = (tokens: number) =>
    legacyMaxTokens ? { max_tokens: tokens } : { max_completion_tokens: tokens }
  return {
    strict: WITHIN,
    name: WITHIN,
    compaction: 'Chat Completions has no items',
    longCallIds: isVendor ? LONG_CALL_IDS_REFUSED : WITHIN,
    thinkingBudget: budgetAsEffort('not supported; use reasoningEffort'),
    reasoningEffort: writeEffort(models, (reasoning_effort) => ({ reasoning_effort })),
    thinking: thinkingAsEffort,
    reasoningSummary: 'Chat Completions has no summaries',
    responseFormat(format): Fields {
      if (format.type !== 'json_schema') return { response_format: { ...format } }
      const { type, name, schema, strict } = format
      return { response_format: { type, json_schema: { name, schema, strict } } }
    },
    verbosity: (verbosity) => ({ verbosity }),
    // The API refuses it without tools.
    parallelToolCalls: (parallel_tool_calls, { tools = [] }) =>
      tools.length > 0 ? { parallel_tool_calls } : {},
    maxOutputTokens: isVendor ? writeOutputLimit(writeLimit) : writeLimit,
    temperature: writeSampling(models, (temperature) => ({ temperature })),
    topP: writeSampling(models, (top_p) => ({ top_p })),
    // Other servers have it as an extension.
    topK: isVendor ? 'OpenAI has no such parameter' : (top_k) => ({ top_k }),
    stop: (stop) => ({ stop }),
    seed: (seed) => ({ seed }),
    frequencyPenalty: (frequency_penalty) => ({ frequency_penalty }),
    presencePenalty: (presence_penalty) => ({ presence_penalty }),
    logitBias: (logit_bias) => ({ logit_bias }),
    serviceTier: (service_tier) => ({ service_tier }),
    // More servers know it than `safety_identifier`.
    user: (user) => ({ user }),
    promptCacheKey: (prompt_cache_key) => ({ prompt_cache_key }),
    promptCache: BY_ITSELF,
  }
}

const NO_SUCH = 'the Responses API has no such parameter'

export function openaiResponsesSettings(models: ModelTable = DEFAULT_MODELS): VendorSettings {
  return {
    strict: WITHIN,
    name: NO_SUCH,
    compaction: WITHIN,
    longCallIds: LONG_CALL_IDS_REFUSED,
    thinkingBudget: budgetAsEffort('the Responses API takes reasoningEffort instead'),
    // With an effort, requests the reasoning: the API only exposes summaries.
    reasoningEffort: writeEffort(models, (effort, { reasoningSummary }) => ({
      reasoning:
        effort === 'none' || reasoningSummary !== undefined
          ? { effort }
          : { effort, summary: 'auto' },
    })),
    thinking: thinkingAsEffort,
    reasoningSummary: (summary) => (summary === 'none' ? {} : { reasoning: { summary } }),
    responseFormat(format): Fields {
      if (format.type === 'text') return {}
      if (format.type === 'json_object') return { text: { format: { type: 'json_object' } } }
      const { type, name, schema, strict } = format
      return { text: { format: { type, name, schema, strict } } }
    },
    verbosity: (verbosity) => ({ text: { verbosity } }),
    parallelToolCalls: (parallel_tool_calls) => ({ parallel_tool_calls }),
    maxOutputTokens: writeOutputLimit((max_output_tokens) => ({ max_output_tokens })),
    temperature: writeSampling(models, (temperature) => ({ temperature })),
    topP: writeSampling(models, (top_p) => ({ top_p })),
    serviceTier: (service_tier) => ({ service_tier }),
    user: (safety_identifier) => ({ safety_identifier }),
    promptCacheKey: (prompt_cache_key) => ({ prompt_cache_key }),
    promptCache: BY_ITSELF,
    stop: 'the Responses API has no stop sequences',
    topK: NO_SUCH,
    seed: NO_SUCH,
    frequencyPenalty: NO_SUCH,
    presencePenalty: NO_SUCH,
    logitBias: NO_SUCH,
  }
}
