import type { Fields } from '../fields.ts'
import type { ModelTable } from '../model-traits.ts'
import {
  DEFAULT_MODELS,
  LONG_CALL_IDS_REFUSED,
  writeEffort,
  writeOutputLimit,
  writeSampling,
} from '../openai-settings.ts'
import {
  BY_ITSELF,
  budgetAsEffort,
  thinkingAsEffort,
  type VendorSettings,
  WITHIN,
} from '../settings.ts'

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

/** The settings of `POST /chat/completions`. */
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
