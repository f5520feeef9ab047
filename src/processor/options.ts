import { type Clock, systemClock } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { generateEventId } from '../protocol/ids.ts'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'

export interface ProcessorOptions {
  turnId: string
  threadId: string
  /**
   * Takes each snapshot, in order, one at a time. It has accepted one when it returns or when its
   * promise resolves. `output` is the object that `message.payload` serialises.
   */
  onEmit: (message: StreamMessage, output: StreamOutput) => Promise<void> | void
  /** Tokens between snapshots; empty means by time and completion only. */
  batchGradient?: readonly number[]
  /** A snapshot is due when this long no delta came for an item with unshown text (1000). */
  batchTimeoutMs?: number
  /** … or when its oldest unshown delta is this old, however fast others follow (3000). */
  maxLatencyMs?: number
  /** Tries after the first one (3). */
  retryAttempts?: number
  /** The first delay between tries, doubled each time (1000) … */
  retryBaseMs?: number
  /** … up to this one (10000). */
  retryMaxMs?: number
  /** How many tokens a text of this length has (a quarter, rounded up). */
  estimateTokens?: (totalLength: number) => number
  /** Told of what nobody awaits: failed timer emissions, events that fit no item. */
  onError?: (error: TurnstreamError) => void
  clock?: Clock
  /** Makes the `eventId` of a snapshot. */
  generateId?: () => string
}

export type ResolvedOptions = Required<ProcessorOptions>

/** Fills in the defaults and refuses what could not work, with the name of the option. */
export function resolveOptions(options: ProcessorOptions): ResolvedOptions {
  const resolved: ResolvedOptions = {
    turnId: options.turnId,
    threadId: options.threadId,
    onEmit: options.onEmit,
    batchGradient: options.batchGradient ?? DEFAULT_BATCH_GRADIENT,
    batchTimeoutMs: options.batchTimeoutMs ?? 1000,
    maxLatencyMs: options.maxLatencyMs ?? 3000,
    retryAttempts: options.retryAttempts ?? 3,
    retryBaseMs: options.retryBaseMs ?? 1000,
    retryMaxMs: options.retryMaxMs ?? 10_000,
    estimateTokens: options.estimateTokens ?? estimateTokensOfLength,
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
    if (typeof value !== 'number' || !(value >= 0)) refuse(name, value, 'a number, zero or more')
  }
  if (!Array.isArray(resolved.batchGradient)) {
    refuse('batchGradient', resolved.batchGradient, 'an array of numbers')
  }
  resolved.estimateTokens = guardEstimate(resolved)
  const { retryAttempts } = resolved
  if (!Number.isInteger(retryAttempts) || retryAttempts < 0) {
    refuse('retryAttempts', retryAttempts, 'a whole number, zero or more')
  }
  return resolved
}

/** An estimate that throws costs a report, never a snapshot or the end of a turn. */
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
          // The one who would be told of this failure is the one who failed.
        }
      }
      return estimateTokensOfLength(length)
    }
  }
}

function refuse(name: string, value: unknown, wanted: string): never {
  throw new TurnstreamError('OPTION_INVALID', `${name} is ${String(value)}, it must be ${wanted}`)
}

/** The core logs nothing; who wants to hear of it passes `onError`. */
function ignoreError(): void {}

/** Tokens between one snapshot and the next: small steps first, so that a reader sees movement. */
export const DEFAULT_BATCH_GRADIENT: readonly number[] = [
  10, 10, 10, 10, 20, 20, 20, 20, 50, 50, 50, 50, 100, 100, 200, 200, 500, 500, 500, 500, 1000,
  1000, 2000,
]

/** The steps of a gradient as cumulative thresholds; past the end the last step repeats for ever. */
export class BatchGradient {
  readonly #thresholds: readonly number[]
  readonly #lastStep: number

  /** An empty list has no threshold at all: snapshots come by time and by completion only. */
  constructor(steps: readonly number[]) {
    let total = 0
    this.#thresholds = steps.map((step, index) => {
      // Below one token a step could be too small to move the sum, and a loop would never end.
      if (!Number.isFinite(step) || step < 1) {
        throw new TurnstreamError(
          'OPTION_INVALID',
          `batchGradient[${index}] is ${step}, it must be a finite number of at least 1`,
        )
      }
      total += step
      return total
    })
    this.#lastStep = steps.at(-1) ?? Infinity
  }

  /** The number of tokens that must be exceeded at this position of the gradient. */
  threshold(index: number): number {
    const threshold = this.#thresholds[index]
    if (threshold !== undefined) return threshold
    const last = this.#thresholds.length - 1
    return last < 0 ? Infinity : (this.#thresholds[last] ?? 0) + (index - last) * this.#lastStep
  }
}

/** Roughly four characters to a token, rounded up; from a length, so that no text is ever rescanned. */
export function estimateTokensOfLength(length: number): number {
  return Math.ceil(length / 4)
}

export function estimateTokenCount(text: string): number {
  return estimateTokensOfLength(text.length)
}
