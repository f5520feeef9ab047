import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'

/** What a translation must be told, because it may not look around. */
export interface TranslationContext {
  /** The run of the first response; later ones in the same input get a suffix. */
  runId: string
  turnId: string
  threadId: string
  providerId: string
  /** What was asked for; the vendor's own word wins where it gives one. */
  modelId: string
  now: () => number
  /** Told of each vendor event type that means nothing to us, once for each type. */
  onUnknown?: (type: string) => void
  /** Cap for the arguments of one tool call. */
  maxArgumentChars?: number
}

/**
 * The meaning of one vendor's stream. It does no I/O and waits for nothing: vendor events go in, the
 * payloads that they amount to come out. Nothing that goes in makes it throw.
 */
export interface Translation {
  translate(event: unknown): readonly StreamEventPayload[]
  /**
   * The input is over. Nothing follows a response that has ended; one that has not is truncated, or
   * failed with `fault` when something is known to have broken.
   */
  end(fault?: ErrorObject): readonly StreamEventPayload[]
}
