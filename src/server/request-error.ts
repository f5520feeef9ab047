import type * as z from 'zod'
import { TurnstreamError } from '../protocol/errors.ts'

/** One field of a request that is not as it should be. */
export interface FieldFault {
  /** `body.input.0.content`; `query.limit`; only `body` when it is the whole. */
  readonly path: string
  readonly message: string
}

// What is wrong is told in full, but the answer must not grow with what was sent.
const MAX_FAULTS = 20
const MAX_CHARS = 200

/** REQUEST_INVALID, with the fields at fault. */
export class RequestInvalidError extends TurnstreamError {
  override readonly name = 'RequestInvalidError'
  readonly details: readonly FieldFault[]

  constructor(details: readonly FieldFault[]) {
    const [first] = details.map(({ path, message }) => `${path}: ${message}`)
    super('REQUEST_INVALID', `${first}`)
    this.details = details
  }
}

/** What a schema says of a part of a request: `body`, `query`, `params` or `headers`. */
export function requestInvalid(part: string, error: z.ZodError): RequestInvalidError {
  const faults = error.issues.slice(0, MAX_FAULTS).map((issue) => ({
    path: [part, ...issue.path.map(String)].join('.').slice(0, MAX_CHARS),
    message: messageOf(issue).slice(0, MAX_CHARS),
  }))
  return new RequestInvalidError(faults)
}

/** A union only says that nothing fits; which field is unknown is more useful. */
function messageOf(issue: z.core.$ZodIssue): string {
  if (issue.code !== 'invalid_union') return issue.message
  return (
    issue.errors.flat().find(({ code }) => code === 'unrecognized_keys')?.message ?? issue.message
  )
}
