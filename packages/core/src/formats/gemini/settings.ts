import type { Fields } from '../fields.ts'
import {
  BY_ITSELF,
  Instead,
  isOff,
  knownEffort,
  THINKING_IS_OFF,
  thinkingAsEffort,
  type VendorSettings,
  WITHIN,
} from '../settings.ts'

/** Thinking budgets in tokens, as in the vendor's own Chat Completions API. */
const EFFORT_BUDGETS = { none: 0, minimal: 1024, low: 1024, medium: 8192, high: 24_576 } as const
const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high'] as const

const NO_SUCH = 'Gemini has no such parameter'

function generation(fields: Fields): Fields {
  return { generationConfig: fields }
}

function thinking(thinkingBudget: number): Fields {
  return generation({ thinkingConfig: { thinkingBudget, includeThoughts: thinkingBudget !== 0 } })
}

export const GEMINI_SETTINGS: VendorSettings = {
  strict: 'Gemini does not support strict schemas',
  name: NO_SUCH,
  compaction: 'only OpenAI reads it',
  longCallIds: WITHIN,
  thinkingBudget: thinking,
  thinking(given, request) {
    const { type, budgetTokens, display } = given
    const isBudget = type === 'enabled' && budgetTokens !== undefined && display === undefined
    return isBudget ? thinking(budgetTokens) : thinkingAsEffort(given, request)
  },
  reasoningEffort(effort, request) {
    if (request.thinkingBudget !== undefined) {
      return 'it conflicts with thinkingBudget; set only one'
    }
    if (isOff(request)) return THINKING_IS_OFF
    if (request.thinking?.budgetTokens !== undefined) return {}
    const known = knownEffort(effort, EFFORTS, request.model)
    return known instanceof Instead
      ? known
      : thinking(EFFORT_BUDGETS[effort as keyof typeof EFFORT_BUDGETS])
  },
  reasoningSummary: NO_SUCH,
  // Schemas are always strict here, and need no name.
  responseFormat: (format) =>
    format.type === 'text'
      ? {}
      : generation({
          responseMimeType: 'application/json',
          ...(format.type === 'json_schema' && { responseJsonSchema: format.schema }),
        }),
  parallelToolCalls: (isParallel) => (isParallel ? {} : 'Gemini cannot disable parallel calls'),
  maxOutputTokens: (maxOutputTokens) => generation({ maxOutputTokens }),
  temperature: (temperature) => generation({ temperature }),
  topP: (topP) => generation({ topP }),
  topK: (topK) => generation({ topK }),
  stop: (stop) => generation({ stopSequences: [...stop] }),
  seed: (seed) => generation({ seed }),
  frequencyPenalty: (frequencyPenalty) => generation({ frequencyPenalty }),
  presencePenalty: (presencePenalty) => generation({ presencePenalty }),
  logitBias: NO_SUCH,
  verbosity: NO_SUCH,
  serviceTier: NO_SUCH,
  user: NO_SUCH,
  promptCacheKey: NO_SUCH,
  promptCache: BY_ITSELF,
}
