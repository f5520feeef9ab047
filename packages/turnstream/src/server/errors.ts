import { type ErrorCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { Approval } from '@turnstream/core/internal/protocol/stream-output'
import type * as z from 'zod'

/** An invalid field of a request. */
export interface FieldFault {
  /** Such as `body.input.0.content` or `query.limit`; `body` for the body itself. */
  readonly path: string
  readonly message: string
}

// The response must not grow with the request.
export const MAX_FAULTS = 20
export const MAX_CHARS = 200

/** REQUEST_INVALID with the invalid fields. */
export class RequestInvalidError extends TurnstreamError {
  override readonly name = 'RequestInvalidError'
  readonly details: readonly FieldFault[]

  constructor(details: readonly FieldFault[]) {
    const [first] = details
    super('REQUEST_INVALID', `${first?.path}: ${first?.message}`)
    this.details = details
  }
}

/** Converts schema issues of a request part: `body`, `query`, `params` or `headers`. */
export function requestInvalid(part: string, error: z.ZodError): RequestInvalidError {
  const faults = error.issues.slice(0, MAX_FAULTS).map((each) => {
    const { issue, path } = innermost(each, [])
    return {
      path: [part, ...path.map(String)].join('.').slice(0, MAX_CHARS),
      message: toMessage(issue).slice(0, MAX_CHARS),
    }
  })
  return new RequestInvalidError(faults)
}

export type Issue = z.core.$ZodIssue
export type Path = readonly PropertyKey[]

/** For a union, the variant closest to the value: the one with the deepest issue. */
export function innermost(issue: Issue, parent: Path): { issue: Issue; path: Path } {
  const path = [...parent, ...issue.path]
  if (issue.code !== 'invalid_union') return { issue, path }
  const ways = issue.errors.flatMap(([first]) => (first ? [innermost(first, path)] : []))
  const deepest = ways.toSorted((one, other) => other.path.length - one.path.length)[0]
  return deepest !== undefined && deepest.path.length > path.length ? deepest : { issue, path }
}

/** A union's issue only states that no variant matches; an unknown field is more useful. */
function toMessage(issue: Issue): string {
  if (issue.code !== 'invalid_union') return issue.message
  return (
    issue.errors.flat().find(({ code }) => code === 'unrecognized_keys')?.message ?? issue.message
  )
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
