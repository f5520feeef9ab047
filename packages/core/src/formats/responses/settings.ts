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

const NO_SUCH = 'the Responses API has no such parameter'

/** The settings of `POST /responses`. */
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
