import { DEFAULT_PROCESSOR } from '@turnstream/core/internal/processor/options'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { withoutUndefined } from '@turnstream/core/internal/protocol/json'

/** How the turns of a server become snapshots, and how those are stored. */
export interface ProcessorSettings {
  /** Tokens between snapshots; the last step repeats. An empty array emits by time and completion only. */
  readonly batchGradient: readonly number[]
  /** Emits pending text after this long without a delta, in ms. Default 1000. */
  readonly batchTimeoutMs: number
  /** Emits pending text at the latest this long after it arrived, in ms. Default 3000. */
  readonly maxLatencyMs: number
  /** How often a write that the store refused is retried. As often as the lease allows by default. */
  readonly retryAttempts: number
  /** First delay between attempts in ms, doubled each time. Default 20. */
  readonly retryBaseMs: number
  /** Longest delay between attempts in ms. Default 1000. */
  readonly retryMaxMs: number
  /** Maximum characters of one tool call's arguments. 1,000,000 by default, or the provider's own limit. */
  readonly maxArgumentChars: number
}

export type ResolvedProcessor = ReturnType<typeof resolveProcessor>

/** Bounds of the settings, also for those in text. */
export const PROCESSOR_BOUNDS = {
  steps: 1000,
  tokens: 1_000_000,
  ms: 3_600_000,
  attempts: 1_000_000,
  argumentChars: 100_000_000,
} as const

/** Sorts the settings. OPTION_INVALID for one that is out of bounds. */
export function resolveProcessor(given: Partial<ProcessorSettings> = {}, leaseMs = Infinity) {
  const { batchGradient, batchTimeoutMs, maxLatencyMs } = { ...DEFAULT_PROCESSOR, ...given }
  const { retryAttempts, retryBaseMs, retryMaxMs, maxArgumentChars } = given
  const { steps, tokens, ms, attempts, argumentChars } = PROCESSOR_BOUNDS
  const isShort = Array.isArray(batchGradient) && batchGradient.length <= steps
  if (!isShort || !batchGradient.every((step) => step >= 1 && step <= tokens)) {
    refuse('batchGradient', `at most ${steps} numbers from 1 to ${tokens}`, batchGradient)
  }
  check('batchTimeoutMs', batchTimeoutMs, { max: ms })
  check('maxLatencyMs', maxLatencyMs, { max: ms })
  // A longer delay is never waited for: the turn is lost with its lease.
  check('retryBaseMs', retryBaseMs, { max: Math.min(ms, leaseMs) })
  check('retryMaxMs', retryMaxMs, { max: ms })
  if (retryAttempts !== Infinity) check('retryAttempts', retryAttempts, { min: 0, max: attempts })
  check('maxArgumentChars', maxArgumentChars, { max: argumentChars })
  return {
    emission: { batchGradient, batchTimeoutMs, maxLatencyMs },
    retry: withoutUndefined({ retryAttempts, retryBaseMs, retryMaxMs }),
    call: withoutUndefined({ maxArgumentChars }),
  }
}

function check(
  name: keyof ProcessorSettings,
  value: number | undefined,
  { min = 1, max }: { readonly min?: number; readonly max: number },
): void {
  if (value === undefined || (Number.isInteger(value) && value >= min && value <= max)) return
  refuse(name, `an integer from ${min} to ${max}`, value)
}

function refuse(name: keyof ProcessorSettings, takes: string, value: unknown): never {
  const shown = String(value).slice(0, 60)
  throw new TurnstreamError('OPTION_INVALID', `processor.${name} must be ${takes}, not ${shown}`)
}
