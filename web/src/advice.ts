const BUSY = 'Wait a moment, then retry.'
const PROVIDER = 'Retry, or choose another model.'

const ACCOUNT =
  "The provider refuses this server's key or account, so retrying does not help. Tell the operator of the server, or choose a model of another provider."
const BUDGET =
  'The account of this server has no budget left at the provider. Tell the operator of the server, or choose a model of another provider.'
const RATE =
  'The provider limits how much this server may ask. Wait a minute, then retry, or choose another model.'
const OVERLOAD = 'The provider is overloaded. Wait a minute, then retry, or choose another model.'
const MODEL = 'Choose another model, then retry.'
const TOO_LONG =
  'The conversation is too long for this model. Begin a new one, or choose another model.'
const REQUEST = 'The provider does not accept this request. Change it, or choose another model.'

/** What a person can do about an error. */
const ADVICE: Readonly<Record<string, string>> = {
  HTTP_400: REQUEST,
  HTTP_401: ACCOUNT,
  HTTP_402: BUDGET,
  HTTP_403: ACCOUNT,
  HTTP_404: MODEL,
  HTTP_407: ACCOUNT,
  HTTP_413: TOO_LONG,
  HTTP_422: REQUEST,
  HTTP_429: RATE,
  HTTP_503: OVERLOAD,
  HTTP_529: OVERLOAD,
  authentication_error: ACCOUNT,
  billing_error: BUDGET,
  context_length_exceeded: TOO_LONG,
  insufficient_quota: BUDGET,
  invalid_request_error: REQUEST,
  model_not_found: MODEL,
  not_found_error: MODEL,
  overloaded_error: OVERLOAD,
  permission_error: ACCOUNT,
  rate_limit_error: RATE,
  rate_limit_exceeded: RATE,
  request_too_large: TOO_LONG,
  server_is_overloaded: OVERLOAD,
  slow_down: OVERLOAD,
  usage_not_included: BUDGET,
  BODY_TOO_LARGE: 'Send a shorter message.',
  INPUT_TOO_LARGE: 'The conversation is too long for this server. Begin a new one.',
  KEY_INVALID: 'Retry, and enter a valid key.',
  KEY_REQUIRED: 'Retry, and enter a key.',
  MODEL_UNKNOWN: MODEL,
  PRODUCER_LOST:
    'The server stopped during this answer. The text so far stays. Retry for a complete answer.',
  READS_LIMITED: BUSY,
  SERVER_SHUTDOWN: BUSY,
  STORE_CORRUPT: 'The stored data is damaged. Delete it, or tell the operator of the server.',
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
