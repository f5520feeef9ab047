import type { ModelTraits, TraitRows } from '../model-traits.ts'

export const BY_BUDGET = ['none', 'minimal', 'low', 'medium', 'high'] as const
const ALL = ['low', 'medium', 'high', 'xhigh', 'max'] as const

const FIRST: ModelTraits = { thinking: 'budget', efforts: [], sampling: 'any' }
const CURRENT: ModelTraits = { thinking: 'adaptive', efforts: ALL, sampling: 'none' }

/** Claude by generation. Unknown names of Claude are taken for newer models, other names for compatible servers. */
export const CLAUDE_MODELS: TraitRows = [
  [/claude-(?:instant|v?[123](?!\d))/, FIRST],
  [/claude-(?:opus|sonnet)-4(?:[-.]0)?(?:$|[@:]|-latest|-\d{8})|claude-4-(?:opus|sonnet)/, FIRST],
  [/claude-opus-4[-.]5(?!\d)/, { ...FIRST, efforts: ['low', 'medium', 'high'], sampling: 'one' }],
  [/claude-\w+-4[-.][1-5](?!\d)/, { ...FIRST, sampling: 'one' }],
  [
    /claude-\w+-4[-.]6(?!\d)/,
    { thinking: 'both', efforts: ['low', 'medium', 'high', 'max'], sampling: 'one' },
  ],
  [/claude-sonnet-5[-.]5(?!\d)/, { ...CURRENT, thinking: 'between_tools' }],
  [/claude-opus-5[-.]5(?!\d)|claude-(?:fable|mythos)/, { ...CURRENT, thinking: 'always' }],
  [/claude/, CURRENT],
  [/^/, FIRST],
]

const ENABLED_REFUSED =
  /thinking\.type\.enabled.{0,60}not supported|budget_tokens.{0,100}not supported/i
const ADAPTIVE_REFUSED =
  /adaptive thinking is not supported|adaptive\W.{0,60}(?:does not match|not\s+supported)/is
const DISABLED_REFUSED =
  /thinking\.type\.disabled.{0,60}not supported for this model|thinking.{0,60}cannot be (?:disabled|turned off)/i

/** What a refusal says about the model. Undefined if it is about something else. */
export function traitsAfterThinking(error: string): Partial<ModelTraits> | undefined {
  if (ENABLED_REFUSED.test(error)) return { thinking: 'adaptive', efforts: ALL }
  if (ADAPTIVE_REFUSED.test(error)) return { thinking: 'budget', efforts: [] }
  return DISABLED_REFUSED.test(error) ? { thinking: 'always' } : undefined
}
