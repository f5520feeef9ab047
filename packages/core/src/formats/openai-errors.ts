import type * as z from 'zod'
import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'
import {
  type Issue,
  innermost,
  type Path,
  type Refusal,
  RequestInvalidError,
} from './request-errors.ts'
import { TurnFailedError } from './turn-failed-error.ts'

export type ParameterFault =
  | 'invalid_type'
  | 'invalid_value'
  | 'missing_required_parameter'
  | 'previous_response_not_found'
  | 'unknown_parameter'
  | 'unsupported_parameter'

/** REQUEST_INVALID for a wrong or unsupported parameter of OpenAI's API. */
export class ParameterError extends RequestInvalidError {
  readonly param: string | null
  readonly reason: ParameterFault
  readonly why: string

  constructor(param: string | null, why: string, reason: ParameterFault = 'invalid_value') {
    super([{ path: param ?? 'body', message: why }])
    this.param = param
    this.reason = reason
    this.why = why
  }
}

const MAX_CHARS = 200

const UNKNOWN_ISSUE: Issue = { code: 'custom', path: [], message: 'is invalid' }

/** Converts the first issue that a schema finds in a body. */
export function parameterError(error: z.ZodError): ParameterError {
  const { issue, path } = innermost(error.issues[0] ?? UNKNOWN_ISSUE, [])
  if (issue.code === 'unrecognized_keys') {
    const param = formatPath([...path, issue.keys[0] ?? ''])
    return new ParameterError(param, 'unknown parameter', 'unknown_parameter')
  }
  const reason = toFault(issue)
  const why = reason === MISSING ? 'is missing' : issue.message.slice(0, MAX_CHARS)
  return new ParameterError(formatPath(path), why, reason)
}

function toFault(issue: Issue): ParameterFault {
  if (issue.code === 'custom') {
    return issue.params?.['reason'] === UNSUPPORTED ? UNSUPPORTED : 'invalid_value'
  }
  if (issue.code !== 'invalid_type') return 'invalid_value'
  return issue.message.endsWith('received undefined') ? MISSING : 'invalid_type'
}

export const MISSING = 'missing_required_parameter' satisfies ParameterFault

export const UNSUPPORTED = 'unsupported_parameter' satisfies ParameterFault

/** `messages[0].content`; null for the whole body. */
function formatPath(path: Path): string | null {
  const steps = path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`))
  const text = steps.join('').replace(/^\./, '')
  return text === '' ? null : text.slice(0, MAX_CHARS)
}

export interface OpenaiErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null }
}

/** OpenAI's codes. Without one, our code is sent, apart from limits. */
const CODES: Partial<Record<ErrorCode, string | null>> = {
  KEY_INVALID: 'invalid_api_key',
  KEY_REQUIRED: 'invalid_api_key',
  MODEL_UNKNOWN: 'model_not_found',
  ROUTE_UNSUPPORTED: 'unsupported',
  TURN_EXPIRED: 'response_expired',
  TURN_UNKNOWN: null,
}

export type ParameterNames = Readonly<Record<string, string>>

/** Writes an error in OpenAI's form. The request id is in a header. */
export function openaiErrorBody(
  { error, code, message, status }: Refusal,
  names: ParameterNames,
): OpenaiErrorBody {
  const body = (text: string, param: string | null, vendorCode: string | null) => {
    return { error: { message: text, type: errorType(status), param, code: vendorCode } }
  }
  if (error instanceof TurnFailedError) {
    const { sent, failure } = error
    return body(sent.message, refusedParam(failure, names), sent.code)
  }
  if (error instanceof ParameterError) {
    const { param, why, reason } = error
    return body(param === null ? why : `${param}: ${why}`, param, reason)
  }
  const isLimit = ERROR_CODES[code].status === 429
  const { [code]: vendorCode = isLimit ? 'rate_limit_exceeded' : code } = CODES
  return body(message, findParam(error, names), vendorCode)
}

function errorType(status: number): string {
  if (status >= 500) return 'server_error'
  return status === 429 ? 'rate_limit_error' : 'invalid_request_error'
}

function findParam(error: unknown, names: ParameterNames): string | null {
  if (error instanceof RequestInvalidError) {
    return error.details[0]?.path.replace(/^(?:body|headers|params|query)\./, '') ?? null
  }
  return error instanceof TurnstreamError ? refusedParam(error, names) : null
}

/** The parameter that a provider or the tool registry refused: the message starts with it. */
function refusedParam({ code, message }: ErrorObject, names: ParameterNames): string | null {
  if (code === 'MODEL_UNKNOWN') return 'model'
  if (code !== 'OPTION_INVALID' && code !== 'REQUEST_INVALID') return null
  const detail = message.slice(ERROR_CODES[code].summary.length + 2)
  const name = /^(\w+): /.exec(detail)?.[1] ?? ''
  return names[name] ?? null
}

export const PARAMETER_NAMES: ParameterNames = {
  model: 'model',
  parallelToolCalls: 'parallel_tool_calls',
  stop: 'stop',
  temperature: 'temperature',
  toolChoice: 'tool_choice',
  tools: 'tools',
  topP: 'top_p',
  topK: 'top_k',
}
