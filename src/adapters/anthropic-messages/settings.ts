import type { ModelSettings } from '../provider.ts'
import { type VendorSettings, WITHIN } from '../settings.ts'

/** The API has no default. More than most answers need, within the limit of its models. */
const DEFAULT_MAX_TOKENS = 8192

/** Minimum thinking budget of the API. */
const MIN_THINKING_TOKENS = 1024

/**
 * Thinking budgets in tokens. The highest, plus the default for the answer, stays below 32,000, the output limit of
 * some thinking models.
 */
const EFFORT_BUDGETS = { none: 0, minimal: 1024, low: 2048, medium: 8192, high: 16_384 } as const

const SERVICE_TIERS: Record<string, string> = { auto: 'auto', default: 'standard_only' }

const NO_SUCH = 'Anthropic has no such parameter'
const IS_FORCED = 'it cannot be combined with a forced call'

/** The settings of `POST /v1/messages`. The API refuses contradictions with a 400 that does not name our parameter. */
export const ANTHROPIC_SETTINGS: VendorSettings = {
  strict: WITHIN,
  name: NO_SUCH,
  compaction: 'only OpenAI reads it',
  thinkingBudget(budget, request) {
    if (!Number.isSafeInteger(budget) || budget < MIN_THINKING_TOKENS) {
      return `it must be an integer from ${MIN_THINKING_TOKENS}`
    }
    return isForced(request) ? IS_FORCED : { thinking: { type: 'enabled', budget_tokens: budget } }
  },
  reasoningEffort(effort, request) {
    if (request.thinkingBudget !== undefined) {
      return 'it conflicts with thinkingBudget; set only one'
    }
    if (effort === 'none') return { thinking: { type: 'disabled' } }
    if (isForced(request)) return IS_FORCED
    const budget = budgetOf(request)
    if (budget !== undefined) return { thinking: { type: 'enabled', budget_tokens: budget } }
    return `it needs a maxOutputTokens above ${MIN_THINKING_TOKENS}`
  },
  maxOutputTokens: (max_tokens, { thinkingBudget: budget = 0 }) =>
    max_tokens > budget ? { max_tokens } : `it must exceed the thinking budget of ${budget} tokens`,
  temperature(temperature, request) {
    if (temperature < 0 || temperature > 1) return 'it must be from 0 to 1'
    const isAllowed = temperature === 1 || budgetOf(request) === undefined
    return isAllowed ? { temperature } : 'it cannot be combined with thinking'
  },
  topP: (top_p, request) =>
    top_p >= 0.95 || budgetOf(request) === undefined
      ? { top_p }
      : 'it must be at least 0.95 with thinking',
  topK: (top_k, request) =>
    budgetOf(request) === undefined ? { top_k } : 'it cannot be combined with thinking',
  stop: (stop_sequences) => ({ stop_sequences }),
  responseFormat(format) {
    if (format.type === 'text') return {}
    if (format.type === 'json_object') return 'JSON output requires a schema'
    return { output_config: { format: { type: 'json_schema', schema: format.schema } } }
  },
  parallelToolCalls: WITHIN,
  serviceTier(tier) {
    const service_tier = SERVICE_TIERS[tier]
    return service_tier === undefined ? 'it must be auto or default' : { service_tier }
  },
  user: (user_id) => ({ metadata: { user_id } }),
  seed: NO_SUCH,
  frequencyPenalty: NO_SUCH,
  presencePenalty: NO_SUCH,
  logitBias: NO_SUCH,
  verbosity: NO_SUCH,
  reasoningSummary: NO_SUCH,
  promptCacheKey: NO_SUCH,
  promptCache: WITHIN,
}

/** The limit for a request without one. It includes both thinking and answer. */
export function defaultMaxTokens(request: ModelSettings): number {
  return DEFAULT_MAX_TOKENS + (budgetOf(request) ?? 0)
}

/** Undefined without thinking. An effort gets the highest budget that leaves room for the answer. */
function budgetOf(request: ModelSettings): number | undefined {
  const { thinkingBudget, reasoningEffort: effort = 'none', maxOutputTokens = Infinity } = request
  if (thinkingBudget !== undefined) return thinkingBudget
  const wanted = EFFORT_BUDGETS[effort]
  const budgets = Object.values(EFFORT_BUDGETS).filter((each) => each > 0 && each <= wanted)
  return budgets.findLast((each) => each < maxOutputTokens)
}

function isForced({ toolChoice }: ModelSettings): boolean {
  return toolChoice === 'required' || typeof toolChoice === 'object'
}
