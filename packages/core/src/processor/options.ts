import { type Clock, systemClock } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { generateEventId } from '../protocol/ids.ts'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'

export interface ProcessorOptions {
  turnId: string
  threadId: string
  /**
   * Receives each snapshot, in order, one at a time. Accepts it by returning or by resolving its promise.
   * `output` is the object that `message.payload` serialises.
   */
  onEmit: (message: StreamMessage, output: StreamOutput) => Promise<void> | void
  /** Tokens between snapshots. An empty array emits by time and completion only. */
  batchGradient?: readonly number[]
  /** Emits pending text of an item after this long without a delta, in ms (1000). */
  batchTimeoutMs?: number
  /** Emits pending text at the latest this long after it arrived, in ms (3000). */
  maxLatencyMs?: number
  /** Attempts after the first (3). */
  retryAttempts?: number
  /** First delay between attempts in ms, doubled each time (1000). */
  retryBaseMs?: number
  /** Longest delay between attempts in ms (10000). */
  retryMaxMs?: number
  /** Estimates the tokens of a text from its length (a quarter, rounded up). */
  estimateTokens?: (totalLength: number) => number
  /** Emits tool calls while their arguments stream, with `toolArgumentsText` (false). */
  showToolArguments?: boolean
  /** Called for failures outside of a call: failed timer emissions, events without an item. */
  onError?: (error: TurnstreamError) => void
  clock?: Clock
  /** Generates the `eventId` of a snapshot. */
  generateId?: () => string
}

export type ResolvedOptions = Required<ProcessorOptions>

/** Tokens between snapshots. Small steps first, so that readers see progress at once. */
export const DEFAULT_BATCH_GRADIENT: readonly number[] = [
  10, 10, 10, 10, 20, 20, 20, 20, 50, 50, 50, 50, 100, 100, 200, 200, 500, 500, 500, 500, 1000,
  1000, 2000,
]

/** When snapshots are emitted, by default. */
export const DEFAULT_PROCESSOR = {
  batchGradient: DEFAULT_BATCH_GRADIENT,
  batchTimeoutMs: 1000,
  maxLatencyMs: 3000,
} as const

const DEFAULTS = {
  ...DEFAULT_PROCESSOR,
  retryAttempts: 3,
  retryBaseMs: 1000,
  retryMaxMs: 10_000,
  estimateTokens: estimateTokensOfLength,
  showToolArguments: false,
  // The core logs nothing.
  onError: () => {},
  clock: systemClock,
  generateId: generateEventId,
}

type Check = (value: unknown) => boolean

const isId: Check = (value) => typeof value === 'string' && value !== ''
const isFunction: Check = (value) => typeof value === 'function'
const isBoolean: Check = (value) => typeof value === 'boolean'
const isNumber: Check = (value) => typeof value === 'number' && value >= 0
const isCount: Check = (value) => isNumber(value) && Number.isInteger(value)

/** Applies the defaults, also for null. Throws OPTION_INVALID with the option's name for invalid values. */
export function resolveOptions(options: ProcessorOptions): ResolvedOptions {
  const given = Object.entries(options).filter(([, value]) => value != null)
  const resolved: ResolvedOptions = { ...options, ...DEFAULTS, ...Object.fromEntries(given) }
  const check = (expected: string, isValid: Check, ...names: (keyof ProcessorOptions)[]): void => {
    for (const name of names) {
      const value: unknown = resolved[name]
      if (isValid(value)) continue
      const detail = `${name} must be ${expected}, not ${String(value)}`
      throw new TurnstreamError('OPTION_INVALID', detail)
    }
  }
  check('a non-empty string', isId, 'turnId', 'threadId')
  check('a function', isFunction, 'onEmit', 'estimateTokens', 'onError', 'generateId')
  check('a number of at least 0', isNumber, 'batchTimeoutMs', 'maxLatencyMs')
  check('a number of at least 0', isNumber, 'retryBaseMs', 'retryMaxMs')
  check('an array of numbers', Array.isArray, 'batchGradient')
  check('true or false', isBoolean, 'showToolArguments')
  check('an integer of at least 0', isCount, 'retryAttempts')
  return { ...resolved, estimateTokens: guardEstimate(resolved) }
}

/** An estimate that throws is reported and never costs a snapshot or the end of a turn. */
function guardEstimate({ estimateTokens, onError }: ResolvedOptions): (length: number) => number {
  if (estimateTokens === estimateTokensOfLength) return estimateTokens
  let isReported = false
  return (length) => {
    try {
      return estimateTokens(length)
    } catch (cause) {
      if (!isReported) {
        isReported = true
        report(onError, new TurnstreamError('OPTION_INVALID', 'estimateTokens threw', { cause }))
      }
      return estimateTokensOfLength(length)
    }
  }
}

export function report(onError: (error: TurnstreamError) => void, error: TurnstreamError): void {
  try {
    onError(error)
  } catch {
    // `onError` itself failed, so there is nowhere to report it.
  }
}

/** The steps of a gradient as cumulative thresholds. The last step repeats forever. */
export class BatchGradient {
  readonly #thresholds: readonly number[]
  readonly #lastStep: number

  /** An empty list has no thresholds: snapshots are emitted by time and completion only. */
  constructor(steps: readonly number[]) {
    let total = 0
    this.#thresholds = steps.map((step, index) => {
      // A smaller step might not change the sum, and the loop would never end.
      if (!Number.isFinite(step) || step < 1) {
        throw new TurnstreamError(
          'OPTION_INVALID',
          `batchGradient[${index}] must be a finite number of at least 1, not ${step}`,
        )
      }
      total += step
      return total
    })
    this.#lastStep = steps.at(-1) ?? Infinity
  }

  /** The number of tokens to exceed at this position of the gradient. */
  threshold(index: number): number {
    const threshold = this.#thresholds[index]
    if (threshold !== undefined) return threshold
    const last = this.#thresholds.length - 1
    return last < 0 ? Infinity : (this.#thresholds[last] ?? 0) + (index - last) * this.#lastStep
  }
}

/** Estimates four characters per token, rounded up. Works on the length, so text is never rescanned. */
export function estimateTokensOfLength(length: number): number {
  return Math.ceil(length / 4)
}

export function estimateTokenCount(text: string): number {
  return estimateTokensOfLength(text.length)
}
