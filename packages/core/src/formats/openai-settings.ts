/** What the settings of both APIs of OpenAI share. */

import type { Fields } from './fields.ts'
import { type Effort, ModelTable, type ModelTraits, type TraitRows } from './model-traits.ts'
import type { ModelSettings } from './provider-request.ts'
import { MAX_CALL_ID_CHARS } from './sent-call-ids.ts'
import { Instead, isOff, knownEffort, THINKING_IS_OFF, type Written } from './settings.ts'

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

export const DEFAULT_MODELS = new ModelTable(OPENAI_MODELS)

export function writeEffort(
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
export function writeSampling(models: ModelTable, write: (value: number) => Fields) {
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

export function writeOutputLimit(write: (tokens: number) => Fields) {
  return (tokens: number) => (tokens < MIN_OUTPUT_TOKENS ? TOO_FEW_TOKENS : write(tokens))
}

export const LONG_CALL_IDS_REFUSED = `OpenAI takes call ids of up to ${MAX_CALL_ID_CHARS} characters`
