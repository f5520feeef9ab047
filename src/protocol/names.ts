/** Header names, in lower case as they are sent. */
export const HEADERS = {
  requestId: 'x-request-id',
  apiKey: 'x-api-key',
  turnId: 'x-turn-id',
  threadId: 'x-thread-id',
  lastEventId: 'last-event-id',
  idempotencyKey: 'idempotency-key',
  cancelOnDisconnect: 'turnstream-cancel-on-disconnect',
  traceparent: 'traceparent',
  tracestate: 'tracestate',
} as const

// What our client uses are constants of their own: a page loads no others.

/** Names of SSE control frames. Records have no name, so `onmessage` receives all of them. */
export const APPEND_EVENT = 'append'
export const RESYNC_EVENT = 'resync'
export const SSE_EVENTS = { append: APPEND_EVENT, resync: RESYNC_EVENT } as const

export const SUBMIT_ROUTE = '/api/v2/submit'
export const CANCEL_ROUTE = '/api/v2/runs/:runId/cancel'
export const APPROVAL_ROUTE = '/api/v2/runs/:runId/approvals/:approvalId'
export const THREADS_ROUTE = '/api/v2/threads'
export const THREAD_ROUTE = '/api/v2/threads/:threadId'
export const TURN_STREAM_ROUTE = '/xapi/turns/:turnId/stream'
export const THREAD_OUTPUTS_ROUTE = '/xapi/threads/:threadId'

/** Fills the parameters of a path, in their order. */
export function fillRoute(route: string, ...values: string[]): string {
  return route.replace(/:\w+/g, () => encodeURIComponent(values.shift() ?? ''))
}

/** Paths of the HTTP API; `:name` is a parameter. */
export const ROUTES = {
  submit: SUBMIT_ROUTE,
  runCancel: CANCEL_ROUTE,
  runApproval: APPROVAL_ROUTE,
  threads: THREADS_ROUTE,
  thread: THREAD_ROUTE,
  turnOutputStream: TURN_STREAM_ROUTE,
  threadOutputs: THREAD_OUTPUTS_ROUTE,
  run: '/api/v2/runs/:runId',
  threadOutputStream: '/xapi/threads/:threadId/stream',
  runStream: '/api/v2/stream/:runId',
  streamTokens: '/api/v2/stream-tokens',
  turnOutputs: '/xapi/turns/:turnId',
  threadTurn: '/xapi/threads/:threadId/turn',
  chatCompletions: '/v1/chat/completions',
  models: '/v1/models',
  model: '/v1/models/:model',
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
