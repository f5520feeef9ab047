import type { Fields } from '../fields.ts'
import { BY_ITSELF, type VendorSettings, WITHIN } from '../settings.ts'

interface Server {
  /** Has `max_tokens` in place of `max_completion_tokens`. */
  readonly legacyMaxTokens?: boolean
  readonly baseUrl?: string
}

const OPENAI = /^https:\/\/api\.openai\.com(?:\/|$)/

/** The settings of `POST /chat/completions`. */
export function openaiChatSettings({ legacyMaxTokens, baseUrl }: Server): VendorSettings {
  const isOpenai = baseUrl === undefined || OPENAI.test(baseUrl)
  return {
    strict: WITHIN,
    name: WITHIN,
    compaction: 'Chat Completions has no items',
    thinkingBudget: 'not supported; use reasoningEffort',
    reasoningEffort: (reasoning_effort) => ({ reasoning_effort }),
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
    maxOutputTokens: (tokens) =>
      legacyMaxTokens ? { max_tokens: tokens } : { max_completion_tokens: tokens },
    temperature: (temperature) => ({ temperature }),
    topP: (top_p) => ({ top_p }),
    // Other servers have it as an extension.
    topK: isOpenai ? 'OpenAI has no such parameter' : (top_k) => ({ top_k }),
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
