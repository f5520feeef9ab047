import type { Fields } from '../fields.ts'
import { BY_ITSELF, type VendorSettings, WITHIN } from '../settings.ts'

const NO_SUCH = 'the Responses API has no such parameter'

/** The settings of `POST /responses`. */
export const OPENAI_RESPONSES_SETTINGS: VendorSettings = {
  strict: WITHIN,
  name: NO_SUCH,
  compaction: WITHIN,
  thinkingBudget: 'the Responses API takes reasoningEffort instead',
  // With an effort, requests the reasoning: the API only exposes summaries.
  reasoningEffort: (effort, { reasoningSummary }) => ({
    reasoning:
      effort === 'none' || reasoningSummary !== undefined
        ? { effort }
        : { effort, summary: 'auto' },
  }),
  reasoningSummary: (summary) => (summary === 'none' ? {} : { reasoning: { summary } }),
  responseFormat(format): Fields {
    if (format.type === 'text') return {}
    if (format.type === 'json_object') return { text: { format: { type: 'json_object' } } }
    const { type, name, schema, strict } = format
    return { text: { format: { type, name, schema, strict } } }
  },
  verbosity: (verbosity) => ({ text: { verbosity } }),
  parallelToolCalls: (parallel_tool_calls) => ({ parallel_tool_calls }),
  maxOutputTokens: (max_output_tokens) => ({ max_output_tokens }),
  temperature: (temperature) => ({ temperature }),
  topP: (top_p) => ({ top_p }),
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
