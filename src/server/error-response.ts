import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { GatewayEnv } from './context.ts'
import { LimitedError } from './limits/limited-error.ts'
import { isVendorPath, openaiErrorBody } from './openai/error-body.ts'
import { TurnFailedError } from './openai/turn-failure.ts'
import { RequestInvalidError } from './request-error.ts'

/** What our own routes answer with when they refuse. */
export interface ErrorBody {
  error: { code: ErrorCode; message: string; details?: unknown; requestId: string }
}

export interface ErrorAnswer {
  status: ContentfulStatusCode
  body: ErrorBody
  headers: Record<string, string>
}

/** Long enough for a turn or an instance to end, short enough for nobody to notice. */
const RETRY_AFTER_S = '1'

/**
 * What a client is told of an error: its code and message if it is ours, nothing of it otherwise, and the id
 * under which the log has the rest.
 */
export function answerOf(error: unknown, requestId: string): ErrorAnswer {
  const known = error instanceof HTTPException ? ofFramework(error) : error
  if (!(known instanceof TurnstreamError) || !Object.hasOwn(ERROR_CODES, known.code))
    return answer('INTERNAL_ERROR', { requestId })
  const { code } = known
  // What fails on our side is told by its code alone: the rest may name hosts and paths of ours.
  if (ERROR_CODES[code].status >= 500) return answer(code, { requestId })
  const details = known instanceof RequestInvalidError ? { details: known.details } : undefined
  const told = answer(code, { message: known.message, ...details, requestId })
  if (known instanceof LimitedError) told.headers['retry-after'] = `${known.retryAfterS}`
  return told
}

/** Answers with an error, and reports it if it is our fault. */
export function refuse(
  c: Context<GatewayEnv>,
  error: unknown,
  onError: (error: unknown, about: { readonly requestId?: string }) => void,
): Response {
  const requestId = c.get('requestId')
  if (error instanceof TurnFailedError) return c.json(error.body, error.status, error.headers)
  const { status, body, headers } = answerOf(error, requestId)
  c.set('refusal', body.error.code)
  const isOurs = status >= 500 && body.error.code !== 'SERVER_SHUTDOWN'
  if (isOurs) onError(error, { requestId })
  const isVendors = isVendorPath(c.req.path)
  return c.json(isVendors ? openaiErrorBody(error, body, status) : body, status, headers)
}

/** Hono says of a body only that it is no JSON, or no JSON by its type. */
function ofFramework({ status }: HTTPException): TurnstreamError | undefined {
  if (status === 415) {
    return new TurnstreamError('MEDIA_TYPE_UNSUPPORTED', 'a body must be application/json')
  }
  if (status === 400) return new RequestInvalidError([{ path: 'body', message: 'is no JSON' }])
  return undefined
}

interface Told {
  readonly message?: string
  readonly details?: unknown
  readonly requestId: string
}

function answer(code: ErrorCode, told: Told): ErrorAnswer {
  const { status, retryable, summary } = ERROR_CODES[code]
  const waits = retryable && (status === 503 || status === 409)
  return {
    // 499 is no status that a server may send.
    status: status === 499 ? 500 : status,
    body: { error: { code, message: summary, ...told } },
    headers: waits ? { 'retry-after': RETRY_AFTER_S } : {},
  }
}
