import { suggestion } from '../protocol/nearest.ts'
import { UsageError } from './command.ts'

/** What `parseArgs` refuses, in our words: its own are advice for whoever writes a program. */
export function optionFault(error: unknown, names: readonly string[]): UsageError | undefined {
  if (!(error instanceof TypeError) || !('code' in error)) return undefined
  const { message } = error
  // The first that it quotes is what was typed, without a value.
  const typed = /'(.*?)(?: <value>)?'/s.exec(message)?.[1] ?? ''
  switch (error.code) {
    case 'ERR_PARSE_ARGS_UNKNOWN_OPTION':
      return new UsageError(`there is no option ${typed}${adviceFor(typed, names)}`)
    case 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL':
      return new UsageError(`'${typed}' is not expected: this command takes options alone`)
    case 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE':
      return new UsageError(valueFault(typed, message))
    default:
      return undefined
  }
}

function adviceFor(typed: string, names: readonly string[]): string {
  return suggestion(
    typed,
    names.map((name) => `--${name}`),
  )
}

function valueFault(option: string, message: string): string {
  if (message.includes('does not take')) return `${option} takes no value`
  if (!message.includes('ambiguous')) return `${option} takes a value, and there is none`
  return `${option} takes a value; one that begins with a dash is written as ${option}=-…`
}
