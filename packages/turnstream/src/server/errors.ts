import { type ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { Approval } from '@turnstream/core/internal/protocol/stream-output'
import type { HonoRequest } from 'hono'

/** Whether a path belongs to a vendor's API, whose clients expect that vendor's errors. */
export function isVendorPath(path: string): boolean {
  return path.startsWith('/v1/')
}

export function isOpenaiPath(path: string): boolean {
  return isVendorPath(path) && !path.startsWith(ROUTES.messages)
}

/** Matches the paths of a route, where `:name` is a parameter. */
export function pathPattern(route: string): RegExp {
  const escaped = route.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
  return new RegExp(`^${escaped.replaceAll(/:\w+/g, '[^/]+')}$`)
}

/** Whether a client expects Anthropic's format. `/v1/models` has it for clients that send its version header. */
export function isAnthropicRequest(request: HonoRequest): boolean {
  const { path } = request
  if (path === ROUTES.messages || path.startsWith(`${ROUTES.messages}/`)) return true
  return path.startsWith(ROUTES.models) && request.header('anthropic-version') !== undefined
}

/** APPROVAL_ANSWERED with the answer. */
export class ApprovalAnsweredError extends TurnstreamError {
  override readonly name = 'ApprovalAnsweredError'
  readonly approval: Approval

  constructor(approval: Approval) {
    const { status, answeredBy: by } = approval
    super('APPROVAL_ANSWERED', by === undefined ? status : `${status} by ${by}`)
    this.approval = approval
  }
}

/** A refusal with a retry delay. */
export class LimitedError extends TurnstreamError {
  override readonly name = 'LimitedError'
  /** For `retry-after`: seconds, rounded up, at least 1. */
  readonly retryAfterS: number

  constructor(code: ErrorCode, detail: string, waitMs: number) {
    super(code, detail)
    this.retryAfterS = Math.max(1, Math.ceil(waitMs / 1000))
  }
}
