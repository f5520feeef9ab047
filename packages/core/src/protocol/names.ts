const THREAD_ID = 'x-thread-id'
const CODEX_SESSION = 'thread-id'
const CLAUDE_CODE_SESSION = 'x-claude-code-session-id'

/** Header names, in lower case as sent. */
export const HEADERS = {
  requestId: 'x-request-id',
  apiKey: 'x-api-key',
  turnId: 'x-turn-id',
  threadId: THREAD_ID,
  lastEventId: 'last-event-id',
  idempotencyKey: 'idempotency-key',
  cancelOnDisconnect: 'turnstream-cancel-on-disconnect',
  ignored: 'x-turnstream-ignored',
  reattach: 'x-turnstream-reattach',
  reattached: 'x-turnstream-reattached',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const

/** Request headers that name the session of an agent: codex's and Claude Code's. */
export const SESSION_HEADERS = [CODEX_SESSION, CLAUDE_CODE_SESSION] as const

/** Request headers that name a turn's thread on vendors' APIs. Without a spread, bundlers can drop it. */
export const THREAD_HEADERS = [THREAD_ID, CODEX_SESSION, CLAUDE_CODE_SESSION] as const

/** Names of SSE control frames. Records have no name, so `onmessage` receives all of them. */
export const APPEND_EVENT = 'append'
export const RESYNC_EVENT = 'resync'
export const GONE_EVENT = 'gone'
export const SSE_EVENTS = { append: APPEND_EVENT, resync: RESYNC_EVENT, gone: GONE_EVENT } as const

/** Paths of the HTTP API; `:name` is a parameter. */
export const ROUTES = {
  submit: '/api/v2/submit',
  runCancel: '/api/v2/runs/:runId/cancel',
  runApproval: '/api/v2/runs/:runId/approvals/:approvalId',
  threads: '/api/v2/threads',
  thread: '/api/v2/threads/:threadId',
  turnOutputStream: '/xapi/turns/:turnId/stream',
  threadOutputs: '/xapi/threads/:threadId',
  run: '/api/v2/runs/:runId',
  threadOutputStream: '/xapi/threads/:threadId/stream',
  outputStreams: '/xapi/streams',
  runStream: '/api/v2/stream/:runId',
  streamTokens: '/api/v2/stream-tokens',
  turnOutputs: '/xapi/turns/:turnId',
  threadTurn: '/xapi/threads/:threadId/turn',
  chatCompletions: '/v1/chat/completions',
  responses: '/v1/responses',
  response: '/v1/responses/:responseId',
  responseCancel: '/v1/responses/:responseId/cancel',
  responseInputItems: '/v1/responses/:responseId/input_items',
  responseInputTokens: '/v1/responses/input_tokens',
  messages: '/v1/messages',
  message: '/v1/messages/:messageId',
  messagesCountTokens: '/v1/messages/count_tokens',
  models: '/v1/models',
  model: '/v1/models/:model',
  hello: '/api/hello',
  health: '/healthz',
  ready: '/readyz',
  metrics: '/metrics',
  openapi: '/openapi.json',
  docs: '/docs',
} as const

/** The first line of a cassette names its format and version. */
export const CASSETTE_FORMAT = 'turnstream-cassette'
export const CASSETTE_VERSION = 1
/** Far more than the rounds and retries of a turn. */
export const MAX_CASSETTE_CALLS = 1000

/** The tenant of all turns when no keys are configured. */
export const DEFAULT_TENANT = 'default'

/** Excludes every character with a meaning in a store key, a keys file or a URL. */
const TENANT = /^[a-z0-9][a-z0-9_-]{0,63}$/

export function isTenant(name: string): boolean {
  return TENANT.test(name)
}
