import { ERROR_CODES, type ErrorCode, TurnstreamError } from '../../protocol/errors.ts'
import type { ErrorObject } from '../../protocol/stream-event.ts'
import type { ErrorBody } from '../error-response.ts'
import { RequestInvalidError } from '../request-error.ts'
import { ParameterError } from './parameter-error.ts'

/** What the routes of OpenAI's API answer with when they refuse. */
export interface OpenaiErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null }
}

/** Whether a path belongs to the APIs of vendors, whose clients read errors in their form only. */
export function isVendorPath(path: string): boolean {
  return path.startsWith('/v1/')
}

/** The code that clients of OpenAI know, where there is one; otherwise it is ours. */
const CODES: Partial<Record<ErrorCode, string>> = {
  KEY_INVALID: 'invalid_api_key',
  KEY_REQUIRED: 'invalid_api_key',
  MODEL_UNKNOWN: 'model_not_found',
  STREAMS_LIMITED: 'rate_limit_exceeded',
  SUBMITS_LIMITED: 'rate_limit_exceeded',
  THREADS_LIMITED: 'rate_limit_exceeded',
  TURNS_LIMITED: 'rate_limit_exceeded',
  UNREAD_LIMITED: 'rate_limit_exceeded',
}

/** What is told of an error otherwise, in this form. The id of the request is in a header. */
export function openaiErrorBody(error: unknown, told: ErrorBody, status: number): OpenaiErrorBody {
  const { code, message } = told.error
  const type = errorTypeOf(status)
  if (error instanceof ParameterError) {
    const { param, why, reason } = error
    const text = param === null ? why : `${param}: ${why}`
    return { error: { message: text, type, param, code: reason } }
  }
  return { error: { message, type, param: paramOfError(error), code: CODES[code] ?? code } }
}

export function errorTypeOf(status: number): string {
  if (status >= 500) return 'server_error'
  return status === 429 ? 'rate_limit_error' : 'invalid_request_error'
}

function paramOfError(error: unknown): string | null {
  if (error instanceof RequestInvalidError) {
    return error.details[0]?.path.replace(/^(?:body|headers|params)\./, '') ?? null
  }
  return error instanceof TurnstreamError ? refusedParam(error) : null
}

/** Our names for what clients of OpenAI call otherwise. */
const PARAMS: Record<string, string> = {
  input: 'messages',
  maxOutputTokens: 'max_completion_tokens',
  model: 'model',
  parallelToolCalls: 'parallel_tool_calls',
  reasoningEffort: 'reasoning_effort',
  responseFormat: 'response_format',
  stop: 'stop',
  temperature: 'temperature',
  toolChoice: 'tool_choice',
  tools: 'tools',
  topP: 'top_p',
}

/** The parameter that a provider, or the registry of tools, refuses: it stands before the reason. */
export function refusedParam({ code, message }: ErrorObject): string | null {
  if (code === 'MODEL_UNKNOWN') return 'model'
  if (code !== 'OPTION_INVALID' && code !== 'REQUEST_INVALID') return null
  const detail = message.slice(ERROR_CODES[code].summary.length + 2)
  const name = /^(\w+): /.exec(detail)?.[1] ?? ''
  return PARAMS[name] ?? null
}
