/** The bounds of an SseDecoder. */
export type SseLimit = 'maxLineChars' | 'maxEventChars'

/** The peer exceeded the limit for a line or an event. `code` is stable; the message is for people. */
export class SseLimitError extends Error {
  override readonly name = 'SseLimitError'
  readonly code = 'SSE_LIMIT_EXCEEDED'
  /** The option that was exceeded. */
  readonly limit: SseLimit

  constructor(limit: SseLimit, max: number) {
    super(`The event stream exceeds a limit: more than ${max} characters (${limit})`)
    this.limit = limit
  }
}
