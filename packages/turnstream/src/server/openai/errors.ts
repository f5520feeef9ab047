import {
  ERROR_CODES,
  type ErrorCode,
  TurnstreamError,
} from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import type { ErrorObject } from '@turnstream/core/internal/protocol/stream-event'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type * as z from 'zod'
import type { ErrorBody } from '../error-response.ts'
import { type Issue, innermost, type Path, RequestInvalidError } from '../errors.ts'
import { toFormat } from '../vendor-settings.ts'

/** OpenAI's error codes. */
export type ParameterFault =
  | 'invalid_type'
  | 'invalid_value'
  | 'missing_required_parameter'
  | 'previous_response_not_found'
  | 'unknown_parameter'
  | 'unsupported_parameter'

/** REQUEST_INVALID for a wrong or unsupported parameter of OpenAI's API. */
export class ParameterError extends RequestInvalidError {
  /** Such as `messages[0].content`. */
  readonly param: string | null
  readonly reason: ParameterFault
  /** Message without the parameter name. */
  readonly why: string

  constructor(param: string | null, why: string, reason: ParameterFault = 'invalid_value') {
    super([{ path: param ?? 'body', message: why }])
    this.param = param
    this.reason = reason
    this.why = why
  }
}

/** Throws for a format that cannot be used: without it the answer would be another one. */
export function refuseFormat(param: string, format: unknown): void {
  if (format === undefined || format === null) return
  const read = toFormat(format)
  if (!('fault' in read)) return
  const { field, fault } = read
  const reason = fault === 'is missing' ? MISSING : 'invalid_value'
  throw new ParameterError(field === '' ? param : `${param}.${field}`, fault, reason)
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

const MISSING = 'missing_required_parameter' satisfies ParameterFault

export const UNSUPPORTED = 'unsupported_parameter' satisfies ParameterFault

/** `messages[0].content`; null for the whole body. */
function formatPath(path: Path): string | null {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else text += text === '' ? String(step) : `.${String(step)}`
  }
  return text === '' ? null : text.slice(0, MAX_CHARS)
}

/** Error body of OpenAI-compatible routes. */
export interface OpenaiErrorBody {
  error: { message: string; type: string; param: string | null; code: string | null }
}

/** Whether a path belongs to a vendor's API, whose clients expect that vendor's errors. */
export function isVendorPath(path: string): boolean {
  return path.startsWith('/v1/')
}

/** OpenAI's codes. Without one, our code is sent. */
const CODES: Partial<Record<ErrorCode, string | null>> = {
  KEY_INVALID: 'invalid_api_key',
  KEY_REQUIRED: 'invalid_api_key',
  MODEL_UNKNOWN: 'model_not_found',
  READS_LIMITED: 'rate_limit_exceeded',
  ROUTE_UNSUPPORTED: 'unsupported',
  STREAMS_LIMITED: 'rate_limit_exceeded',
  SUBMITS_LIMITED: 'rate_limit_exceeded',
  THREADS_LIMITED: 'rate_limit_exceeded',
  TURNS_LIMITED: 'rate_limit_exceeded',
  TURN_EXPIRED: 'response_expired',
  TURN_UNKNOWN: null,
  UNREAD_LIMITED: 'rate_limit_exceeded',
}

/** Converts our error body to OpenAI's form. The request id is in a header. */
export function openaiErrorBody(error: unknown, body: ErrorBody, status: number): OpenaiErrorBody {
  const { code, message } = body.error
  const type = errorType(status)
  if (error instanceof ParameterError) {
    const { param, why, reason } = error
    const text = param === null ? why : `${param}: ${why}`
    return { error: { message: text, type, param, code: reason } }
  }
  const vendorCode = CODES[code]
  return {
    error: {
      message,
      type,
      param: findParam(error),
      code: vendorCode === undefined ? code : vendorCode,
    },
  }
}

function errorType(status: number): string {
  if (status >= 500) return 'server_error'
  return status === 429 ? 'rate_limit_error' : 'invalid_request_error'
}

function findParam(error: unknown): string | null {
  if (error instanceof RequestInvalidError) {
    return error.details[0]?.path.replace(/^(?:body|headers|params|query)\./, '') ?? null
  }
  return error instanceof TurnstreamError ? refusedParam(error) : null
}

/** OpenAI's names for our settings. */
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
  topK: 'top_k',
}

/** The same in the Responses API, where it has other names. */
const RESPONSES_PARAMS: Record<string, string> = {
  messages: 'input',
  max_completion_tokens: 'max_output_tokens',
  reasoning_effort: 'reasoning.effort',
  response_format: 'text.format',
}

/** Names the parameter as the API of the path does. */
export function withParamOf(path: string, { error }: OpenaiErrorBody): OpenaiErrorBody {
  if (error.param === null || !path.startsWith(ROUTES.responses)) return { error }
  return { error: { ...error, param: RESPONSES_PARAMS[error.param] ?? error.param } }
}

/** The parameter that a provider or the tool registry refused: the message starts with it. */
function refusedParam({ code, message }: ErrorObject): string | null {
  if (code === 'MODEL_UNKNOWN') return 'model'
  if (code !== 'OPTION_INVALID' && code !== 'REQUEST_INVALID') return null
  const detail = message.slice(ERROR_CODES[code].summary.length + 2)
  const name = /^(\w+): /.exec(detail)?.[1] ?? ''
  return PARAMS[name] ?? null
}

/** A turn that ended without output, as an error response. */
export class TurnFailedError extends TurnstreamError {
  override readonly name = 'TurnFailedError'
  readonly status: ContentfulStatusCode
  readonly body: OpenaiErrorBody
  readonly headers: Record<string, string>
  /** The turn's own code. */
  readonly failureCode: string

  /** `isNamed`: the client chose the run id, so a retry gets the same turn. */
  constructor(error: ErrorObject, isNamed: boolean) {
    super('STREAM_ERROR', error.message)
    const { status, code, message = error.message } = vendorFailure(error)
    this.status = status
    this.failureCode = error.code
    this.body = {
      error: { message, type: errorType(status), param: refusedParam(error), code },
    }
    this.headers = {
      ...retryAfter(status, error),
      ...((isNamed || !isRetryable(error.code)) && noRetry(status)),
    }
  }
}

/** Tells a vendor's client not to retry an error. Other statuses it does not retry anyway. */
export function noRetry(status: number): Record<string, string> {
  const isRetried = status >= 500 || status === 408 || status === 409 || status === 429
  return isRetried ? { 'x-should-retry': 'false' } : {}
}

interface Failure {
  readonly status: ContentfulStatusCode
  readonly code: string
  /** Replaces the provider's message. */
  readonly message?: string
}

const NOT_FOUND: Pick<Failure, 'status' | 'code'> = { status: 404, code: 'model_not_found' }
const LIMITED: Pick<Failure, 'status' | 'code'> = { status: 429, code: 'rate_limit_exceeded' }

/** The provider refused our key or account. Not sent as 401, which the client would attribute to its own key. */
const OURS = {
  status: 502,
  message: 'The provider refused this server. Its operator must check the key or the account',
} as const

/** The provider's account has no budget left. OpenAI's clients expect 429, and do not retry it with this code. */
const NO_QUOTA = { ...OURS, status: 429, code: 'insufficient_quota' } as const

/** A fault of codex itself, or one that it does not name. It is no limit, overload or lost connection. */
const UNCLASSIFIED = { status: 502 } as const

/** Failures that a retry cannot fix, although the status suggests it. */
const FINAL: ReadonlySet<VendorFailure> = new Set([OURS, NO_QUOTA, UNCLASSIFIED])

type VendorFailure = Pick<Failure, 'status' | 'message'> & { readonly code?: string }

/** Vendor error codes, by HTTP status or in the stream. */
const VENDOR_CODES = new Map<string, VendorFailure>([
  ...failures(OURS, 'HTTP_401', 'HTTP_403', 'HTTP_407', 'authentication_error'),
  ...failures(OURS, 'permission_error'),
  ...failures(NO_QUOTA, 'HTTP_402', 'billing_error', 'insufficient_quota', 'usage_not_included'),
  ...failures({ status: 400 }, 'HTTP_400', 'HTTP_415', 'HTTP_422', 'context_length_exceeded'),
  ...failures({ status: 400 }, 'cyber_policy', 'invalid_prompt', 'invalid_request_error'),
  ...failures({ status: 400 }, 'inference_hook_denied', 'misalignment_policy_violation'),
  ...failures(NOT_FOUND, 'HTTP_404', 'model_not_found', 'not_found_error'),
  ...failures({ status: 413 }, 'HTTP_413', 'request_too_large'),
  ...failures(LIMITED, 'HTTP_429', 'rate_limit_error', 'rate_limit_exceeded'),
  ...failures({ status: 503 }, 'HTTP_503', 'HTTP_529', 'overloaded_error'),
  ...failures({ status: 503 }, 'server_is_overloaded', 'slow_down'),
  ...failures({ status: 504 }, 'HTTP_408', 'HTTP_504', 'timeout_error'),
  ...failures(UNCLASSIFIED, 'other', 'sandbox_error', 'session_budget_exceeded'),
  ...failures(UNCLASSIFIED, 'too_many_denials'),
])

function failures(failure: VendorFailure, ...codes: string[]): [string, VendorFailure][] {
  return codes.map((code) => [code, failure])
}

/** Our codes for client errors. All others are server or provider failures. */
const CLIENTS: ReadonlySet<string> = new Set<ErrorCode>([
  'OPTION_INVALID',
  'TURN_ITEM_LIMIT',
  'TURN_ROUND_LIMIT',
  'TURN_TEXT_LIMIT',
])

function vendorFailure({ code }: ErrorObject): Failure {
  if (code === 'MODEL_UNKNOWN') return NOT_FOUND
  const vendors = VENDOR_CODES.get(code)
  if (vendors !== undefined) return { code, ...vendors }
  if (!isOurs(code)) return { status: 502, code }
  const { status } = ERROR_CODES[code]
  const isSent = CLIENTS.has(code) || status >= 500
  // A server must not send 499.
  return { status: isSent && status !== 499 ? status : 500, code }
}

function isOurs(code: string): code is ErrorCode {
  return Object.hasOwn(ERROR_CODES, code)
}

function isRetryable(code: string): boolean {
  if (isOurs(code)) return ERROR_CODES[code].retryable
  const failure = VENDOR_CODES.get(code)
  return !(failure !== undefined && FINAL.has(failure)) && !code.startsWith('HTTP_3')
}

/** The vendor's own delay. Without one, OpenAI's client chooses. */
function retryAfter(status: number, error: ErrorObject): Record<string, string> {
  const ms = 'retry_after_ms' in error ? error.retry_after_ms : undefined
  if (typeof ms !== 'number' || (status !== 429 && status !== 503)) return {}
  return { 'retry-after': `${Math.max(1, Math.ceil(ms / 1000))}` }
}
