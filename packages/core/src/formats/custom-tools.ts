/** Providers know only functions: a custom tool becomes a function with one string, `input`. */

import { parseJsonObject } from '../protocol/json.ts'
import { MAX_DESCRIPTION_CHARS } from './request-in.ts'

export function customInput(args: string): string {
  const input = parseJsonObject(args)?.['input']
  return typeof input === 'string' ? input : args
}

export function customArguments(input: string): string {
  return JSON.stringify({ input })
}

/** The function that stands for a custom tool. Only OpenAI's own models know grammars. Others read it in the description. */
export function customDefinition(name: string, about: string, grammar: unknown) {
  const rule =
    typeof grammar === 'string' ? `\n\nThe input must match this grammar:\n${grammar}` : ''
  return {
    name,
    description: `${about}${rule}`.slice(0, MAX_DESCRIPTION_CHARS),
    parameters: {
      type: 'object',
      properties: { input: { type: 'string' } },
      required: ['input'],
      additionalProperties: false,
    },
  }
}
