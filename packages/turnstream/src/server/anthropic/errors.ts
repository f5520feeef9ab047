import {
  type MessagesError,
  messagesErrorType,
} from '@turnstream/core/internal/formats/messages/wire'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { ContentfulStatusCode } from 'hono/utils/http-status'

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

/** Anthropic's reasons for refusing a request of a message thread, by which its clients choose what to send instead. */
interface ThreadRefusal {
  readonly error_code: 'thread_not_found' | 'thread_unsupported_request'
  readonly unsupported?: readonly string[]
}

/** A request that may lack the messages before it. */
export class MessageThreadError extends TurnstreamError {
  override readonly name = 'MessageThreadError'
  readonly details: ThreadRefusal

  private constructor(
    code: 'TURN_UNKNOWN' | 'REQUEST_INVALID',
    why: string,
    details: ThreadRefusal,
  ) {
    super(code, why)
    this.details = details
  }

  /** Clients send all messages again, in a new thread. */
  static notFound(): MessageThreadError {
    const why = 'thread: message threads are not stored; send all messages'
    return new MessageThreadError('TURN_UNKNOWN', why, { error_code: 'thread_not_found' })
  }

  static unsupported(): MessageThreadError {
    const details = {
      error_code: 'thread_unsupported_request',
      unsupported: ['thread.type'],
    } as const
    return new MessageThreadError('REQUEST_INVALID', 'thread.type: must be create', details)
  }
}

const TYPES: Record<number, string> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

const STATUSES = new Map(Object.entries(TYPES).map(([status, type]) => [type, Number(status)]))

export interface AnthropicErrorFields {
  readonly message: string
  readonly status: number
  readonly requestId: string
  /** Of a failed turn. */
  readonly code?: string
  readonly details?: object | undefined
}

/**
 * An error in Anthropic's format. A turn that fails has the type that its stream would have, and the status of that type.
 * Clients retry a 529 as they would a 503.
 */
export function anthropicError({
  message,
  status: given,
  requestId,
  code = '',
  details,
}: AnthropicErrorFields): {
  status: ContentfulStatusCode
  body: MessagesError
} {
  const known = messagesErrorType(code)
  const status = STATUSES.get(known ?? '') ?? (given === 503 ? 529 : given)
  const fallback = status < 500 ? 'invalid_request_error' : 'api_error'
  const type = known ?? TYPES[status] ?? fallback
  return {
    status: status as ContentfulStatusCode,
    body: {
      type: 'error',
      error: { type, message, ...(details && { details }) },
      request_id: requestId,
    },
  }
}
