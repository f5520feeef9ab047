import { LONG_CALL_IDS_REFUSED } from '@turnstream/core/internal/formats/openai-settings'
import {
  BY_ITSELF,
  budgetAsEffort,
  isOff,
  knownEffort,
  THINKING_IS_OFF,
  thinkingAsEffort,
  type VendorSettings,
} from '@turnstream/core/internal/formats/settings'
import { EFFORTS } from './catalog.ts'

const NO_SUCH = 'codex has no such parameter'

/** The settings of `turn/start`. The app-server would ignore others without a word. */
export const CODEX_SETTINGS: VendorSettings = {
  strict: 'codex does not support strict schemas',
  name: NO_SUCH,
  compaction: 'only OpenAI reads it',
  longCallIds: LONG_CALL_IDS_REFUSED,
  thinkingBudget: budgetAsEffort('codex takes reasoningEffort instead'),
  reasoningEffort(effort, request) {
    if (isOff(request)) return THINKING_IS_OFF
    const known = knownEffort(effort, EFFORTS, 'codex')
    return known === effort ? { effort, ...(effort !== 'none' && { summary: 'auto' }) } : known
  },
  thinking: thinkingAsEffort,
  reasoningSummary: (summary) => ({ summary }),
  responseFormat(format) {
    if (format.type === 'json_object') return 'codex takes a json_schema, not json_object'
    return format.type === 'json_schema' ? { outputSchema: format.schema } : {}
  },
  parallelToolCalls: (isParallel) => (isParallel ? {} : 'codex cannot disable parallel calls'),
  stop: 'codex has no stop sequences',
  maxOutputTokens: 'codex has no limit of output tokens',
  temperature: NO_SUCH,
  topP: NO_SUCH,
  topK: NO_SUCH,
  seed: NO_SUCH,
  frequencyPenalty: NO_SUCH,
  presencePenalty: NO_SUCH,
  logitBias: NO_SUCH,
  verbosity: NO_SUCH,
  serviceTier: NO_SUCH,
  user: NO_SUCH,
  promptCacheKey: NO_SUCH,
  promptCache: BY_ITSELF,
}
