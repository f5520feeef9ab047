import { type OpenaiErrorBody, openaiErrorBody, PARAMETER_NAMES } from '../openai-errors.ts'
import type { Refusal } from '../request-errors.ts'

const NAMES = {
  ...PARAMETER_NAMES,
  input: 'input',
  maxOutputTokens: 'max_output_tokens',
  reasoningEffort: 'reasoning.effort',
  responseFormat: 'text.format',
}

export function responsesErrorBody(refusal: Refusal): OpenaiErrorBody {
  return openaiErrorBody(refusal, NAMES)
}
