import type { ErrorObject } from '../../protocol/stream-event.ts'
import { retrySeconds } from '../fields.ts'
import { type OpenaiErrorBody, openaiErrorBody, PARAMETER_NAMES } from '../openai-errors.ts'
import type { Refusal } from '../request-errors.ts'
import type { ResponsesError } from './wire.ts'

export function responsesErrorBody(refusal: Refusal): OpenaiErrorBody {
  return openaiErrorBody(refusal, {
    ...PARAMETER_NAMES,
    input: 'input',
    maxOutputTokens: 'max_output_tokens',
    reasoningEffort: 'reasoning.effort',
    responseFormat: 'text.format',
  })
}

/** OpenAI's codes for failures of other vendors: codex repeats a request after any other code. */
const CODES: Record<string, readonly string[]> = {
  insufficient_quota: ['HTTP_402', 'billing_error'],
  invalid_prompt: ['HTTP_400', 'HTTP_422', 'OPTION_INVALID', 'invalid_request_error'],
  rate_limit_exceeded: ['HTTP_429', 'rate_limit_error'],
  server_is_overloaded: ['HTTP_503', 'HTTP_529', 'overloaded_error'],
}

/** Clients read the delay from the message. */
export function responsesError(error: ErrorObject): ResponsesError {
  const { code, message } = error
  const known = Object.keys(CODES).find((name) => CODES[name]?.includes(code))
  const seconds = retrySeconds(error)
  const hint = seconds === undefined ? '' : ` Please try again in ${seconds}s.`
  return { code: known ?? code, message: message + hint }
}

export function errorTypeOf(code: string): string {
  if (code === 'rate_limit_exceeded') return 'rate_limit_error'
  const isClients = code === 'context_length_exceeded' || code === 'invalid_prompt'
  return isClients ? 'invalid_request_error' : 'server_error'
}
