import type { StreamEvent } from '../protocol/stream-event.ts'
import type { Terminal } from './terminal.ts'

/** What a process ends with. */
export const EXIT = { done: 0, failed: 1, usage: 2 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** The command line, or the input, makes no sense; the message says what and how. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The options of a command, by their names without dashes, as `parseArgs` takes them. */
type Options = Readonly<Record<string, { readonly type: 'string' | 'boolean' }>>

export interface Command {
  /** One line for the list of commands. */
  summary: string
  help: string
  /** Those that `run` takes; what shells complete is made of them. */
  options: Options
  /** The values of options that take one of a few names. */
  choices?: Readonly<Record<string, readonly string[]>>
  /** What the first word after the command may be, if that is one of a few. */
  words?: readonly string[]
  run(args: string[], terminal: Terminal): Promise<ExitCode>
}

/** Whether an event ends its turn as an error. */
export function isFailure({ payload }: StreamEvent): boolean {
  return (
    payload.type === 'response_error' ||
    (payload.type === 'response_done' && payload.status === 'error')
  )
}

/** `--speed`: 0 is as fast as it goes. */
export function parseSpeed(text: string): number {
  const speed = Number(text)
  if (text.trim() === '' || !(speed >= 0)) {
    throw new UsageError(`--speed takes a number, zero or more, got '${text}'`)
  }
  return speed === 0 ? Infinity : speed
}

/** The value of an option that takes one of a few names. */
export function parseChoice<Name extends string>(
  option: string,
  text: string | undefined,
  names: readonly Name[],
): Name {
  const name = names.find((candidate) => candidate === text)
  if (name !== undefined) return name
  const got = text === undefined ? 'it is missing' : `got '${text}'`
  throw new UsageError(`${option} takes one of ${names.join(', ')}; ${got}`)
}
