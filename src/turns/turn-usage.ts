import type { Usage } from '../protocol/usage.ts'

const OPTIONAL_COUNTS = ['cached_tokens', 'cache_write_tokens', 'reasoning_tokens'] as const

/** What a turn has used: within a round the newest figures count, and rounds are added up. */
export class TurnUsage {
  #before: Usage | undefined
  #round: Usage | undefined
  #told: string | undefined

  /** The figures of the round that is under way, so far. */
  update(usage: Usage): void {
    this.#round = usage
  }

  endRound(): void {
    this.#before = this.sum
    this.#round = undefined
  }

  /** Undefined when no provider said a word about it. */
  get sum(): Usage | undefined {
    if (this.#before === undefined || this.#round === undefined) return this.#round ?? this.#before
    return addUsage(this.#before, this.#round)
  }

  /** The sum, unless it is unknown or what was answered last. */
  takeNews(): Usage | undefined {
    const { sum } = this
    const text = JSON.stringify(sum)
    if (sum === undefined || text === this.#told) return undefined
    this.#told = text
    return sum
  }
}

function addUsage(one: Usage, other: Usage): Usage {
  const sum: Usage = {
    prompt_tokens: one.prompt_tokens + other.prompt_tokens,
    completion_tokens: one.completion_tokens + other.completion_tokens,
    total_tokens: one.total_tokens + other.total_tokens,
  }
  for (const name of OPTIONAL_COUNTS) {
    if (name in one || name in other) sum[name] = (one[name] ?? 0) + (other[name] ?? 0)
  }
  if (one.estimated === true || other.estimated === true) sum.estimated = true
  return sum
}
