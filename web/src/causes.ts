/** An error of the client, of the gateway or of `fetch`. */
export interface Cause {
  readonly code?: string
  readonly message: string
  /** Of HTTP. */
  readonly status?: number
  readonly retryAfterMs?: number
}

const BUSY = 'The server is busy.'
const UNREACHABLE = 'The server cannot be reached.'

const SENTENCES: Readonly<Record<string, string>> = {
  CONNECTIONS_LIMITED: BUSY,
  HTTP_429: BUSY,
  HTTP_502: UNREACHABLE,
  HTTP_503: UNREACHABLE,
  HTTP_504: UNREACHABLE,
  KEY_INVALID: 'The key is not valid.',
  KEY_REQUIRED: 'A key is needed.',
  READS_LIMITED: BUSY,
  SERVER_SHUTDOWN: 'The server is stopping.',
  STORE_FULL: 'The server has no space left.',
  STORE_UNAVAILABLE: 'The server cannot reach its store.',
  STREAMS_LIMITED: 'Too many pages are open.',
  SUBMITS_LIMITED: 'Too many messages were sent in a minute.',
  THREADS_LIMITED: 'Too many conversations are stored.',
  THREAD_UNKNOWN: 'This conversation does not exist.',
  TURNS_LIMITED: 'Too many answers are being written.',
  UNREAD_LIMITED: BUSY,
}

/** What to tell a person, in one sentence. */
export function sentenceFor({ code, message }: Cause): string {
  if (code !== undefined && code !== 'CONNECTION_LOST')
    return SENTENCES[code] ?? message.replace(/\.?$/, '.')
  if (!navigator.onLine) return 'You are offline.'
  return message === 'Timed out' ? 'The server does not answer.' : UNREACHABLE
}

/** Whether the same request may work later. */
export function isTemporary({ code = 'CONNECTION_LOST', status = 0 }: Cause): boolean {
  if (status === 0) return code === 'CONNECTION_LOST'
  return code !== 'STORE_CORRUPT' && (status === 408 || status === 429 || status >= 500)
}

export function isAboutKey({ code }: Cause): boolean {
  return code === 'KEY_REQUIRED' || code === 'KEY_INVALID'
}
