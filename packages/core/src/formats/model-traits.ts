/* What models differ in: by their names, unless the configuration or a refusal of the vendor says otherwise. */

export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type Effort = (typeof EFFORTS)[number]

export const THINKING_FORMS = ['budget', 'both', 'adaptive', 'between_tools', 'always'] as const
export const SAMPLING = ['any', 'one', 'without_effort', 'effort_none', 'none'] as const

export interface ModelTraits {
  /**
   * How Claude is told to think: with a budget, adaptively, or either. `between_tools`: adaptively, or only between calls.
   * `always`: adaptively, and never off.
   */
  readonly thinking: (typeof THINKING_FORMS)[number]
  /** The efforts that the API accepts for it. */
  readonly efforts: readonly Effort[]
  /**
   * Which of `temperature`, `topP` and `topK` it takes. `one`: `temperature` or `topP`. `without_effort`: any, unless it
   * reasons. `effort_none`: the same for a model that reasons by default.
   */
  readonly sampling: (typeof SAMPLING)[number]
}

/** By model name; `*` stands for any characters. The first match counts. */
export type ConfiguredTraits = Readonly<Record<string, Partial<ModelTraits>>>

export type TraitRows = readonly (readonly [name: RegExp, traits: ModelTraits])[]

/** Beyond it the oldest is forgotten, and costs one more refused call. */
const MAX_LEARNED = 1000

export class ModelTable {
  readonly #rows: TraitRows
  readonly #configured: readonly (readonly [name: RegExp, traits: Partial<ModelTraits>])[]
  readonly #learned = new Map<string, Partial<ModelTraits>>()

  constructor(rows: TraitRows, configured: ConfiguredTraits = {}) {
    this.#rows = rows
    this.#configured = Object.entries(configured).map(([name, traits]) => [toPattern(name), traits])
  }

  traitsOf(model: string): ModelTraits {
    const defaults = this.#rows.find(([pattern]) => pattern.test(model))?.[1] ?? ANY
    const configured = this.#configured.find(([pattern]) => pattern.test(model))?.[1]
    return { ...defaults, ...configured, ...this.#learned.get(model) }
  }

  hasLearned(model: string): boolean {
    return this.#learned.has(model)
  }

  learn(model: string, traits: Partial<ModelTraits>): void {
    const known = { ...this.#learned.get(model), ...traits }
    this.#learned.delete(model)
    this.#learned.set(model, known)
    for (const oldest of this.#learned.keys()) {
      if (this.#learned.size <= MAX_LEARNED) return
      this.#learned.delete(oldest)
    }
  }
}

const ANY: ModelTraits = { thinking: 'budget', efforts: EFFORTS, sampling: 'any' }

function toPattern(name: string): RegExp {
  const parts = name
    .split('*')
    .map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`))
  return new RegExp(`^${parts.join('.*')}$`, 'i')
}

/** The highest known effort that is not above the given one, or else the lowest. */
export function nearestEffort(effort: Effort, known: readonly Effort[]): Effort | undefined {
  const rank = (each: Effort) => EFFORTS.indexOf(each)
  const sorted = known.toSorted((one, other) => rank(one) - rank(other))
  return sorted.findLast((each) => rank(each) <= rank(effort)) ?? sorted[0]
}

/** Budgets in tokens up to which an effort is meant. */
const BUDGETS: readonly (readonly [tokens: number, effort: Effort])[] = [
  [1024, 'minimal'],
  [4096, 'low'],
  [12_000, 'medium'],
  [Infinity, 'high'],
]

/** Tokens that an effort may take from the answer. */
const NEEDED: readonly (readonly [effort: Effort, tokens: number])[] = [
  ['high', 16_384],
  ['medium', 8192],
  ['low', 2048],
  ['minimal', 1024],
]

/** The effort for a budget. Undefined if none leaves room for the answer. */
export function effortOfBudget(budget: number, maxOutputTokens = Infinity): Effort | undefined {
  const wanted = BUDGETS.find(([tokens]) => budget <= tokens)?.[1]
  const first = NEEDED.findIndex(([effort]) => effort === wanted)
  return NEEDED.slice(Math.max(0, first)).find(([, tokens]) => tokens < maxOutputTokens)?.[0]
}

/** A vendor's word that it does not know an effort above `high`, which not every server and model has. */
export function traitsAfterEffort(
  effort: Effort | undefined,
  error: string,
): Partial<ModelTraits> | undefined {
  const isHigher = effort === 'xhigh' || effort === 'max'
  return isHigher && EFFORT_REFUSED.test(error) ? { efforts: EFFORTS.slice(0, 5) } : undefined
}

/** "Unsupported value: 'xhigh' is not supported with the 'gpt-5' model." */
const EFFORT_REFUSED =
  /(?:effort|['"`](?:xhigh|max)\b).{0,300}(?:support|invalid|expected|one of|must be)|(?:unsupported|invalid).{0,100}(?:effort|['"`](?:xhigh|max)\b)/is
