/** Providers know only functions: a custom tool becomes a function with one string, `input`. */

import { parseJsonObject } from '../protocol/json.ts'

/** The text that a custom tool was called with. */
export function customInput(args: string): string {
  const input = parseJsonObject(args)?.['input']
  return typeof input === 'string' ? input : args
}

/** The arguments of a function that stands for a custom tool. */
export function customArguments(input: string): string {
  return JSON.stringify({ input })
}
