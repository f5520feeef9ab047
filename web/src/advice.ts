const BUSY = 'Wait a moment, then retry.'
const PROVIDER = 'Retry, or choose another model.'

/** What a person can do about an error. */
const ADVICE: Readonly<Record<string, string>> = {
  BODY_TOO_LARGE: 'Send a shorter message.',
  INPUT_TOO_LARGE: 'The conversation is too long for this server. Begin a new one.',
  KEY_INVALID: 'Reload the page and give a valid key.',
  KEY_REQUIRED: 'Reload the page and give a key.',
  MODEL_UNKNOWN: 'Choose another model, then retry.',
  PRODUCER_LOST:
    'The server stopped during this answer. The text so far stays. Retry for a complete answer.',
  READS_LIMITED: BUSY,
  SERVER_SHUTDOWN: BUSY,
  STORE_FULL: 'The server has no space left. Delete conversations, or tell its operator.',
  STORE_UNAVAILABLE: BUSY,
  STREAMS_LIMITED: 'Close other tabs of this page, then retry.',
  SUBMITS_LIMITED: BUSY,
  THREADS_LIMITED: 'Delete conversations that you do not need, then retry.',
  THREAD_BUSY: 'Another answer is being written here. Wait for it or stop it, then retry.',
  TURNS_LIMITED: 'Too many answers are being written. Wait for one to end, then retry.',
  TURN_EXPIRED: 'This server no longer stores it.',
  TURN_ROUND_LIMIT: 'The model called tools again and again. Ask for less, or retry.',
  TURN_TEXT_LIMIT: 'Ask for a shorter answer.',
  TURN_TIME_LIMIT: 'Retry, or ask for less.',
  UPSTREAM_UNREACHABLE:
    'The server cannot reach the provider. Retry later, or choose another model.',
}

export function adviceFor(code: string): string {
  return ADVICE[code] ?? PROVIDER
}
