import type { ErrorObject } from '../../protocol/stream-event.ts'
import { type OpenaiErrorBody, openaiErrorBody, PARAMETER_NAMES } from '../openai-errors.ts'
import type { Refusal } from '../request-errors.ts'
import type { ChatError } from './wire.ts'

export function chatErrorBody(refusal: Refusal): OpenaiErrorBody {
  return openaiErrorBody(refusal, {
    ...PARAMETER_NAMES,
    input: 'messages',
    maxOutputTokens: 'max_completion_tokens',
    reasoningEffort: 'reasoning_effort',
    responseFormat: 'response_format',
  })
}

export function chatError({ code, message }: ErrorObject): ChatError {
  return { error: { message, type: errorType(code), param: null, code } }
}

const TYPES_BY_STATUS: Record<string, string> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
}

function errorType(code: string): string {
  const status = /^HTTP_(4\d\d)$/.exec(code)?.[1]
  if (status === undefined) return 'server_error'
  return TYPES_BY_STATUS[status] ?? 'invalid_request_error'
}
