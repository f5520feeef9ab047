import type * as z from 'zod'
import { RequestInvalidError } from '../request-error.ts'

/** In the words of OpenAI. */
export type ParameterFault =
  | 'invalid_type'
  | 'invalid_value'
  | 'missing_required_parameter'
  | 'unknown_parameter'
  | 'unsupported_parameter'

/** REQUEST_INVALID, for a parameter of OpenAI's that is wrong or that cannot be honoured. */
export class ParameterError extends RequestInvalidError {
  /** As in `messages[0].content`. */
  readonly param: string | null
  readonly reason: ParameterFault
  /** Without the name of the parameter. */
  readonly why: string

  constructor(param: string | null, why: string, reason: ParameterFault = 'invalid_value') {
    super([{ path: param ?? 'body', message: why }])
    this.param = param
    this.reason = reason
    this.why = why
  }
}

const MAX_CHARS = 200

/** What a schema says of a body: of all that is wrong the first. */
export function parameterError(error: z.ZodError): ParameterError {
  const [first] = error.issues
  const { issue, path } = first === undefined ? NOTHING : innermost(first, [])
  if (issue.code === 'unrecognized_keys') {
    const param = paramOf([...path, issue.keys[0] ?? ''])
    return new ParameterError(param, 'there is no such parameter', 'unknown_parameter')
  }
  const reason = reasonOf(issue)
  const why = reason === MISSING ? 'is missing' : issue.message.slice(0, MAX_CHARS)
  return new ParameterError(paramOf(path), why, reason)
}

type Issue = z.core.$ZodIssue
type Path = readonly PropertyKey[]

const NOTHING: { issue: Issue; path: Path } = {
  issue: { code: 'custom', path: [], message: 'is not what it should be' },
  path: [],
}

/** Of the ways in which a value may be right the one that it comes closest to: what is wrong lies deepest there. */
function innermost(issue: Issue, parent: Path): { issue: Issue; path: Path } {
  const path = [...parent, ...issue.path]
  if (issue.code !== 'invalid_union') return { issue, path }
  const ways = issue.errors.flatMap(([first]) => (first ? [innermost(first, path)] : []))
  const deepest = ways.toSorted((one, other) => other.path.length - one.path.length)[0]
  return deepest !== undefined && deepest.path.length > path.length ? deepest : { issue, path }
}

function reasonOf(issue: Issue): ParameterFault {
  if (issue.code === 'custom') {
    return issue.params?.['reason'] === UNSUPPORTED ? UNSUPPORTED : 'invalid_value'
  }
  if (issue.code !== 'invalid_type') return 'invalid_value'
  return issue.message.endsWith('received undefined') ? MISSING : 'invalid_type'
}

const MISSING = 'missing_required_parameter' satisfies ParameterFault

export const UNSUPPORTED = 'unsupported_parameter' satisfies ParameterFault

/** `messages[0].content`; null for the body as a whole. */
function paramOf(path: Path): string | null {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else text += text === '' ? String(step) : `.${String(step)}`
  }
  return text === '' ? null : text.slice(0, MAX_CHARS)
}
