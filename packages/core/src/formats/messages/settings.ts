import { type Effort, ModelTable, type ModelTraits } from '../model-traits.ts'
import type { ModelSettings, ThinkingParameters } from '../provider-request.ts'
import {
  budgetAsEffort,
  Instead,
  knownEffort,
  thinkingAsEffort,
  type VendorSettings,
  WITHIN,
  type Written,
} from '../settings.ts'
import { BY_BUDGET, CLAUDE_MODELS } from './models.ts'

/** The API has no default. More than most answers need, within the limit of its models. */
const DEFAULT_MAX_TOKENS = 8192

/** For models that decide themselves how much to think: the limit includes it. Their own limit is 128,000. */
const ADAPTIVE_MAX_TOKENS = 32_000

const MIN_THINKING_TOKENS = 1024

/** In tokens. The highest, plus the default for the answer, is below the limit of some models, 32,000. */
const EFFORT_BUDGETS = { none: 0, minimal: 1024, low: 2048, medium: 8192, high: 16_384 } as const

const SERVICE_TIERS: Record<string, string> = { auto: 'auto', default: 'standard_only' }

const NO_SUCH = 'Anthropic has no such parameter'
const IS_FORCED = 'it cannot be combined with a forced call'
const NOT_WITH_THINKING = 'it cannot be combined with thinking'

const DEFAULT_MODELS = new ModelTable(CLAUDE_MODELS)

/** The settings of `POST /v1/messages`. The API refuses contradictions with a 400 that does not name our parameter. */
export function anthropicSettings(models: ModelTable = DEFAULT_MODELS): VendorSettings {
  const traitsOf = ({ model }: ModelSettings) => models.traitsOf(model)
  const isThinking = (request: ModelSettings) => thinks(request, traitsOf(request))
  return {
    strict: WITHIN,
    name: NO_SUCH,
    compaction: 'only OpenAI reads it',
    longCallIds: WITHIN,
    thinkingBudget(budget, request) {
      const { model, maxOutputTokens } = request
      const instead = (reason: string) => budgetAsEffort(reason)(budget, request)
      if (!Number.isSafeInteger(budget) || budget < MIN_THINKING_TOKENS) {
        return `it must be an integer from ${MIN_THINKING_TOKENS}`
      }
      if (!takesBudgets(traitsOf(request))) {
        return instead(`${model} has no budgets; use reasoningEffort`)
      }
      if (budget >= (maxOutputTokens ?? Infinity))
        return instead('it must be below maxOutputTokens')
      return isForced(request) ? IS_FORCED : { thinking: toEnabled(budget) }
    },
    thinking(given, request) {
      const traits = traitsOf(request)
      const own = ownParameters(request, traits)
      if (own === undefined && given.type === 'disabled') return notOff(given, request, traits)
      if (own === undefined) return thinkingAsEffort(given, request)
      return own.thinking === undefined ? {} : { thinking: own.thinking }
    },
    reasoningEffort: (effort, request) => writeEffort(effort, request, traitsOf(request)),
    maxOutputTokens: (max_tokens) => ({ max_tokens }),
    temperature(temperature, request) {
      if (temperature < 0 || temperature > 1) return 'it must be from 0 to 1'
      if (temperature === 1 && traitsOf(request).sampling === 'none') return {}
      if (traitsOf(request).sampling === 'none') return `${request.model} does not take it`
      return temperature === 1 || !isThinking(request) ? { temperature } : NOT_WITH_THINKING
    },
    topP(top_p, request) {
      const { sampling } = traitsOf(request)
      if (sampling === 'none') return top_p === 1 ? {} : `${request.model} does not take it`
      if (sampling === 'one' && request.temperature !== undefined) {
        return `${request.model} takes temperature or topP, not both`
      }
      const isAllowed = top_p >= 0.95 || !isThinking(request)
      return isAllowed ? { top_p } : 'it must be at least 0.95 with thinking'
    },
    topK(top_k, request) {
      if (traitsOf(request).sampling === 'none') return `${request.model} does not take it`
      return isThinking(request) ? NOT_WITH_THINKING : { top_k }
    },
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
}

function toEnabled(budget_tokens: number) {
  return { type: 'enabled', budget_tokens }
}

function takesBudgets({ thinking }: ModelTraits): boolean {
  return thinking === 'budget' || thinking === 'both'
}

/** The client's own parameters, unchanged. Undefined if the model does not take them: then the effort counts. */
function ownParameters(
  { thinking, maxOutputTokens = Infinity }: ModelSettings,
  traits: ModelTraits,
): { thinking: Record<string, unknown> | undefined } | undefined {
  if (thinking === undefined) return undefined
  const { type, budgetTokens: budget = 0, display } = thinking
  const shown = display !== undefined && { display }
  switch (type) {
    case undefined:
      return { thinking: undefined }
    case 'adaptive':
      return traits.thinking === 'budget' ? undefined : { thinking: { type, ...shown } }
    case 'enabled': {
      const isTaken = takesBudgets(traits) && budget >= MIN_THINKING_TOKENS
      return isTaken && budget < maxOutputTokens
        ? { thinking: { ...toEnabled(budget), ...shown } }
        : undefined
    }
    case 'disabled':
      return offFor(traits) === type ? { thinking: { type } } : undefined
    default:
      return { thinking: { type } }
  }
}

/** How thinking is turned off, or what comes closest. Undefined for a model that always thinks. */
function offFor({ thinking }: ModelTraits): 'disabled' | 'between_tools' | undefined {
  if (thinking === 'always') return undefined
  return thinking === 'between_tools' ? thinking : 'disabled'
}

function notOff(
  thinking: ThinkingParameters,
  { model }: ModelSettings,
  traits: ModelTraits,
): Instead {
  const { type: _, ...given } = thinking
  const type = offFor(traits)
  return new Instead({ thinking: { ...given, ...(type && { type }) } }, `${model} always thinks`)
}

function writeEffort(effort: Effort, request: ModelSettings, traits: ModelTraits): Written {
  const isOwn = ownParameters(request, traits) !== undefined
  if (isOwn || request.thinkingBudget !== undefined) {
    if (isOwn && request.thinking?.isEffortImplied === true) return {}
    const isConflict = !isOwn && traits.efforts.length === 0
    if (isConflict) return 'it conflicts with thinkingBudget; set only one'
    return toKnown(effort, request, traits)
  }
  if (effort === 'none') {
    const type = offFor(traits)
    return type === 'disabled' ? { thinking: { type } } : notOff({}, request, traits)
  }
  if (isForced(request)) return IS_FORCED
  if (traits.thinking !== 'budget') {
    const known = toKnown(effort, request, traits)
    if (typeof known === 'string' || known instanceof Instead) return known
    const display = request.thinking?.display ?? 'summarized'
    return { thinking: { type: 'adaptive', display }, ...known }
  }
  const known = knownEffort(effort, BY_BUDGET, request.model)
  if (known instanceof Instead) return known
  const budget = budgetOf(request)
  return budget === undefined
    ? `it needs a maxOutputTokens above ${MIN_THINKING_TOKENS}`
    : { thinking: toEnabled(budget) }
}

/** The API has no `minimal`. */
function toKnown(effort: Effort, { model }: ModelSettings, { efforts }: ModelTraits): Written {
  if (effort === 'none') return 'Anthropic has no such effort'
  const known = knownEffort(effort === 'minimal' ? 'low' : effort, efforts, model)
  return known instanceof Instead ? known : { output_config: { effort: known } }
}

/** The limit for a request without one. It includes both thinking and answer. */
export function defaultMaxTokens(
  request: ModelSettings,
  models: ModelTable = DEFAULT_MODELS,
): number {
  const isAdaptive = !takesBudgets(models.traitsOf(request.model))
  return isAdaptive ? ADAPTIVE_MAX_TOKENS : DEFAULT_MAX_TOKENS + (budgetOf(request) ?? 0)
}

function thinks(request: ModelSettings, traits: ModelTraits): boolean {
  const type = ownParameters(request, traits)?.thinking?.['type']
  if (type !== undefined) return type === 'enabled' || type === 'adaptive'
  if (traits.thinking === 'budget') return budgetOf(request) !== undefined
  const { thinkingBudget, thinking, reasoningEffort: effort = 'none' } = request
  return thinkingBudget !== undefined || (thinking === undefined && effort !== 'none')
}

/** Undefined without thinking. An effort gets the highest budget that leaves room for the answer. */
function budgetOf(request: ModelSettings): number | undefined {
  const { thinkingBudget, thinking, reasoningEffort, maxOutputTokens = Infinity } = request
  if (thinkingBudget !== undefined) return thinkingBudget
  if (thinking?.type === 'enabled' && thinking.budgetTokens !== undefined) {
    if (thinking.budgetTokens < maxOutputTokens) return thinking.budgetTokens
  }
  const effort = BY_BUDGET.find((each) => each === reasoningEffort) ?? 'none'
  const wanted = EFFORT_BUDGETS[effort]
  const budgets = Object.values(EFFORT_BUDGETS).filter((each) => each > 0 && each <= wanted)
  return budgets.findLast((each) => each < maxOutputTokens)
}

function isForced({ toolChoice }: ModelSettings): boolean {
  return toolChoice === 'required' || typeof toolChoice === 'object'
}
