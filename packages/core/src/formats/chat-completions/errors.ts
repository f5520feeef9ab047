import { type OpenaiErrorBody, openaiErrorBody, PARAMETER_NAMES } from '../openai-errors.ts'
import type { Refusal } from '../request-errors.ts'

const NAMES = {
  ...PARAMETER_NAMES,
  input: 'messages',
  maxOutputTokens: 'max_completion_tokens',
  reasoningEffort: 'reasoning_effort',
  responseFormat: 'response_format',
}

export function chatErrorBody(refusal: Refusal): OpenaiErrorBody {
  return openaiErrorBody(refusal, NAMES)
}
