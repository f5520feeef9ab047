import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { MessagesError } from '../../dialects/messages/wire.ts'
import { ROUTES } from '../../protocol/names.ts'

interface RequestHead {
  readonly path: string
  header(name: string): string | undefined
}

/** Whether a client expects Anthropic's format. `/v1/models` has it for clients that send its version header. */
export function isAnthropicRequest(request: RequestHead): boolean {
  const { path } = request
  if (path === ROUTES.messages || path.startsWith(`${ROUTES.messages}/`)) return true
  return path.startsWith(ROUTES.models) && request.header('anthropic-version') !== undefined
}

const TYPES: Record<number, string> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** An error in Anthropic's format. Its clients retry a 529 as they would a 503. */
export function anthropicError(
  message: string,
  given: number,
  requestId: string,
): { status: ContentfulStatusCode; body: MessagesError } {
  const status = given === 503 ? 529 : given
  const fallback = status < 500 ? 'invalid_request_error' : 'api_error'
  return {
    status: status as ContentfulStatusCode,
    body: {
      type: 'error',
      error: { type: TYPES[status] ?? fallback, message },
      request_id: requestId,
    },
  }
}
