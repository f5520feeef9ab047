import { chatErrorBody } from '@turnstream/core/internal/formats/chat-completions/errors'
import { messagesErrorResponse } from '@turnstream/core/internal/formats/messages/errors'
import type { OpenaiErrorBody } from '@turnstream/core/internal/formats/openai-errors'
import { type Refusal, RequestInvalidError } from '@turnstream/core/internal/formats/request-errors'
import { responsesErrorBody } from '@turnstream/core/internal/formats/responses/errors'
import { noRetry, TurnFailedError } from '@turnstream/core/internal/formats/turn-failed-error'
import {
  ERROR_CODES,
  type ErrorCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { Approval } from '@turnstream/core/internal/protocol/stream-output'
import type { Context } from 'hono'
import type { HTTPException } from 'hono/http-exception'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { ErrorHandler, GatewayApp, GatewayEnv } from './context.ts'
import * as errors from './errors.ts'

export interface ErrorBody {
  error: {
    code: ErrorCode
    message: string
    details?: unknown
    approval?: Approval
    requestId: string
  }
}

export interface ErrorResponse extends Refusal {
  readonly status: ContentfulStatusCode
  readonly body: ErrorBody | OpenaiErrorBody
  readonly headers: Record<string, string>
}

/** Long enough for a turn or an instance to end, short enough to go unnoticed. */
const RETRY_AFTER_S = '1'

/** Encodes an error in the format of the path. The messages of server errors are only logged: they may name hosts. */
export function toErrorResponse(error: unknown, requestId: string, path = ''): ErrorResponse {
  const known = isHttpException(error) ? frameworkError(error) : error
  const isOurs = known instanceof TurnstreamError && Object.hasOwn(ERROR_CODES, known.code)
  const code = isOurs ? known.code : 'INTERNAL_ERROR'
  const { status: documented, retryable, summary } = ERROR_CODES[code]
  // A server must not send 499.
  const status = documented === 499 ? 500 : documented
  const message = isOurs && documented < 500 ? known.message : summary
  const refusal = { error, code, message, status }
  const details = known instanceof RequestInvalidError ? { details: known.details } : undefined
  const approval =
    known instanceof errors.ApprovalAnsweredError ? { approval: known.approval } : undefined
  const headers: Record<string, string> = {}
  if (known instanceof errors.LimitedError) headers['retry-after'] = `${known.retryAfterS}`
  else if (retryable && (status === 503 || status === 409)) headers['retry-after'] = RETRY_AFTER_S
  const body: ErrorBody = { error: { code, message, ...details, ...approval, requestId } }
  return { ...refusal, body: errors.isVendorPath(path) ? openaiBody(path, refusal) : body, headers }
}

/** Of the API that the path belongs to. */
function openaiBody(path: string, refusal: Refusal): OpenaiErrorBody {
  return path.startsWith(ROUTES.responses) ? responsesErrorBody(refusal) : chatErrorBody(refusal)
}

/** Server errors that are not logged: operators expect them. */
const EXPECTED: ReadonlySet<ErrorCode> = new Set(['ROUTE_UNSUPPORTED', 'SERVER_SHUTDOWN'])

export function refuse(c: Context<GatewayEnv>, error: unknown, onError: ErrorHandler): Response {
  const requestId = c.get('requestId')
  const { path } = c.req
  const response = toErrorResponse(error, requestId, path)
  if (error instanceof TurnFailedError) {
    const failed = { ...response, status: error.status as ContentfulStatusCode }
    return send(c, { ...failed, body: openaiBody(path, failed), headers: error.headers })
  }
  const { code, status, headers } = response
  c.set('refusal', code)
  if (status >= 500 && !EXPECTED.has(code)) onError(error, { requestId })
  // Another instance may accept what this one answers with 503.
  const isFinal = !ERROR_CODES[code].retryable && status !== 503
  if (isFinal && errors.isVendorPath(path)) Object.assign(headers, noRetry(status))
  return send(c, response)
}

function send(c: Context<GatewayEnv>, response: ErrorResponse): Response {
  const { body, status, headers } = response
  if (!errors.isAnthropicRequest(c.req)) return c.json(body, status, headers)
  const requestId = c.get('requestId')
  const anthropics = messagesErrorResponse(response, requestId)
  const given = { ...headers, 'request-id': requestId }
  return c.json(anthropics.body, anthropics.status as ContentfulStatusCode, given)
}

/** Recognises exceptions of every copy of hono: npm may install two. */
function isHttpException(error: unknown): error is HTTPException {
  return error instanceof Error && 'getResponse' in error && 'status' in error
}

/** Hono only reports that a body is not JSON, by content or type. */
function frameworkError({ status }: HTTPException): TurnstreamError | undefined {
  if (status === 415) return new TurnstreamError('MEDIA_TYPE_UNSUPPORTED', 'use application/json')
  if (status !== 400) return undefined
  return new RequestInvalidError([{ path: 'body', message: 'is not valid JSON' }])
}

/**
 * Refuses requests that match no route; those of a known path get its methods. Call after all routes are registered.
 */
export function refuseUnmatched(app: GatewayApp, onError: ErrorHandler) {
  const methods = new Map<string, Set<string>>()
  for (const { path, method } of app.routes) {
    // Middleware is registered for all methods.
    if (method === 'ALL') continue
    const known = methods.get(path) ?? new Set(['OPTIONS'])
    methods.set(path, known.add(method))
    if (method === 'GET') known.add('HEAD')
  }
  const paths = Array.from(methods, ([path, known]) => ({
    pattern: errors.pathPattern(path),
    allow: [...known].toSorted().join(', '),
  }))
  return (c: Context<GatewayEnv>): Response => {
    const { method, path } = c.req
    const refuseWith = (code: ErrorCode, detail: string) =>
      refuse(c, new TurnstreamError(code, detail), onError)
    const known = paths.find(({ pattern }) => pattern.test(path))
    if (known === undefined) return refuseWith('ROUTE_UNKNOWN', path.slice(0, 200))
    c.header('allow', known.allow)
    if (method === 'OPTIONS') return c.body(null, 204)
    if (!isWebSocket(c)) return refuseWith('METHOD_NOT_ALLOWED', method)
    c.header('upgrade', 'HTTP/1.1')
    return refuseWith('UPGRADE_REFUSED', 'use HTTP')
  }
}

/** Proxies may drop `upgrade`, which is meant for one hop only. */
function isWebSocket({ req }: Context): boolean {
  const isUpgrade = req.header('upgrade')?.toLowerCase() === 'websocket'
  return isUpgrade || req.header('sec-websocket-key') !== undefined
}
