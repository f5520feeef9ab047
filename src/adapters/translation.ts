import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'

/** What a translation needs from outside, since it reads neither clock nor network. */
export interface TranslationContext {
  /** The run of the first response; later ones in the same input get a suffix. */
  runId: string
  turnId: string
  threadId: string
  providerId: string
  /** The requested model; the one that the vendor names wins. */
  modelId: string
  now: () => number
  /** Called for vendor event types that are unknown, once for each type. */
  onUnknown?: ((type: string) => void) | undefined
  /** Cap for the arguments of one tool call. */
  maxArgumentChars?: number | undefined
  /** Changes errors before they are written, to keep secrets out of them. */
  conceal?: ((error: ErrorObject) => ErrorObject) | undefined
}

/**
 * The meaning of one vendor's stream: vendor events in, payloads out. It does no I/O, never waits, and never
 * throws, whatever goes in.
 */
export interface Translation {
  translate(event: unknown): readonly StreamEventPayload[]
  /**
   * The input has ended. Nothing follows a response that has ended; any other is truncated, or failed with `fault`
   * if the reason is known.
   */
  end(fault?: ErrorObject): readonly StreamEventPayload[]
}

/** Whether a payload is the end of its response. */
export function isTerminal({ type }: StreamEventPayload): boolean {
  return type === 'response_done' || type === 'response_error' || type === 'turn_aborted_by_user'
}

/** Why a response ended, in one vocabulary for all vendors. */
export type FinishReason =
  | 'stop'
  | 'length'
  | 'tool_calls'
  | 'content_filter'
  | 'refusal'
  | 'pause'
  | 'other'

// Type names come from outside. Past this many the source is broken, and storing more would let it fill the memory.
const MAX_TYPES = 1000

/** Reports each type once, and at most 1,000 of them. */
export function oncePerType(report: (type: string) => void = () => {}): (type: string) => void {
  const reported = new Set<string>()
  return (type) => {
    if (reported.size >= MAX_TYPES || reported.has(type)) return
    reported.add(type)
    report(type)
  }
}

// Some vendors refuse ids of more than 40 characters, or of any but these.
const MAX_RUN_CHARS = 24
const NOT_ALPHANUMERIC = /[^a-zA-Z0-9]/g

/** Ids for calls that came without one: the same for the same run, different from those of any other. */
export function callIdsOf(runId: string): () => string {
  const run = runId.replaceAll(NOT_ALPHANUMERIC, '').slice(-MAX_RUN_CHARS)
  let next = 0
  return () => {
    next += 1
    return `call_${run}_${next}`
  }
}
