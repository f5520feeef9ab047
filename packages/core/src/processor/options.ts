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

/** Applies the defaults. Throws OPTION_INVALID with the option's name for invalid values. */
export function resolveOptions(options: ProcessorOptions): ResolvedOptions {
  const resolved: ResolvedOptions = {
    turnId: options.turnId,
    threadId: options.threadId,
    onEmit: options.onEmit,
    batchGradient: options.batchGradient ?? DEFAULT_BATCH_GRADIENT,
    batchTimeoutMs: options.batchTimeoutMs ?? DEFAULT_PROCESSOR.batchTimeoutMs,
    maxLatencyMs: options.maxLatencyMs ?? DEFAULT_PROCESSOR.maxLatencyMs,
    retryAttempts: options.retryAttempts ?? 3,
    retryBaseMs: options.retryBaseMs ?? 1000,
    retryMaxMs: options.retryMaxMs ?? 10_000,
    estimateTokens: options.estimateTokens ?? estimateTokensOfLength,
    showToolArguments: options.showToolArguments ?? false,
    onError: options.onError ?? ignoreError,
    clock: options.clock ?? systemClock,
    generateId: options.generateId ?? generateEventId,
  }
  for (const name of ['turnId', 'threadId'] as const) {
    const value: unknown = resolved[name]
    if (typeof value !== 'string' || value === '') refuse(name, value, 'a non-empty string')
  }
  for (const name of ['onEmit', 'estimateTokens', 'onError', 'generateId'] as const) {
    const value: unknown = resolved[name]
    if (typeof value !== 'function') refuse(name, value, 'a function')
  }
  for (const name of ['batchTimeoutMs', 'maxLatencyMs', 'retryBaseMs', 'retryMaxMs'] as const) {
    const value: unknown = resolved[name]
    if (typeof value !== 'number' || !(value >= 0)) refuse(name, value, 'a number of at least 0')
  }
  if (!Array.isArray(resolved.batchGradient)) {
    refuse('batchGradient', resolved.batchGradient, 'an array of numbers')
  }
  const { showToolArguments } = resolved
  if (typeof showToolArguments !== 'boolean') {
    refuse('showToolArguments', showToolArguments, 'true or false')
  }
  resolved.estimateTokens = guardEstimate(resolved)
  const { retryAttempts } = resolved
  if (!Number.isInteger(retryAttempts) || retryAttempts < 0) {
    refuse('retryAttempts', retryAttempts, 'an integer of at least 0')
  }
  return resolved
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
        const error = new TurnstreamError('OPTION_INVALID', 'estimateTokens threw', { cause })
        try {
          onError(error)
        } catch {
          // `onError` itself failed, so there is nowhere to report it.
        }
      }
      return estimateTokensOfLength(length)
    }
  }
}

function refuse(name: string, value: unknown, wanted: string): never {
  throw new TurnstreamError('OPTION_INVALID', `${name} must be ${wanted}, not ${String(value)}`)
}

/** The core logs nothing. Pass `onError` to be notified. */
function ignoreError(): void {}

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
