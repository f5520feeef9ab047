import type * as z from 'zod'
import { type ErrorCode, TurnstreamError } from '../protocol/errors.ts'

export interface FieldFault {
  /** Such as `body.input.0.content` or `query.limit`; `body` for the body itself. */
  readonly path: string
  readonly message: string
}

// The response must not grow with the request.
export const MAX_FAULTS = 20
export const MAX_CHARS = 200

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

/** A refused request, before an API's error format. */
export interface Refusal {
  readonly error: unknown
  readonly code: ErrorCode
  readonly message: string
  readonly status: number
}
