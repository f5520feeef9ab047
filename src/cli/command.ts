import { createReadStream } from 'node:fs'
import { type ParseArgsConfig, parseArgs } from 'node:util'
import { suggestion } from '../protocol/nearest.ts'
import type { Terminal } from './terminal.ts'
import { jsonLine, printable } from './text.ts'

export const EXIT = { done: 0, failed: 1, usage: 2 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** The command line, or the input, makes no sense; the message says what and how. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export interface Command {
  /** Its first line is `turnstream <name>: <summary>`. */
  help: string
  /** What `run` accepts, as `parseArgs` takes it. Shell completions are made of it. */
  options: Readonly<Record<string, { readonly type: 'string' | 'boolean' }>>
  /** The values of options that take one of a few names. */
  choices?: Readonly<Record<string, readonly string[]>>
  /** What the first word after the command may be, if that is one of a few. */
  words?: readonly string[]
  run(args: string[], terminal: Terminal): Promise<ExitCode>
}

/** One line for the list of commands. */
export function summaryOf({ help }: Command): string {
  return help.slice(help.indexOf(': ') + 2, help.indexOf('\n'))
}

/** Reports a failure as JSON on standard output, or as a sentence on standard error. */
export async function reportFailure(
  { code, message }: { readonly code?: string; readonly message: string },
  { status, write, writeError }: Pick<Terminal, 'status' | 'write' | 'writeError'>,
  json: boolean,
): Promise<ExitCode> {
  status('')
  if (json) await write(jsonLine({ error: { ...(code !== undefined && { code }), message } }))
  else writeError(`turnstream: ${printable(message)}\n`)
  return EXIT.failed
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

/** `parseArgs` with UsageErrors: its own messages address programmers. */
export function parseOptions<const Config extends ParseArgsConfig>(
  config: Config,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config)
  } catch (error) {
    throw optionError(error, Object.keys(config.options ?? {})) ?? error
  }
}

function optionError(error: unknown, names: readonly string[]): UsageError | undefined {
  if (!(error instanceof TypeError) || !('code' in error)) return undefined
  const { message } = error
  // The first quote is what was typed, without a value.
  const typed = /'(.*?)(?: <value>)?'/s.exec(message)?.[1] ?? ''
  switch (error.code) {
    case 'ERR_PARSE_ARGS_UNKNOWN_OPTION': {
      const flags = names.map((name) => `--${name}`)
      return new UsageError(`there is no option ${typed}${suggestion(typed, flags)}`)
    }
    case 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL':
      return new UsageError(`'${typed}' is not expected: this command takes options alone`)
    case 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE':
      if (message.includes('does not take')) return new UsageError(`${typed} takes no value`)
      return new UsageError(
        message.includes('ambiguous')
          ? `${typed} takes a value; one that begins with a dash is written as ${typed}=-…`
          : `${typed} takes a value, and there is none`,
      )
    default:
      return undefined
  }
}

/** Why a file cannot be read. For a directory the system says it without the name. */
export function fileFault(error: unknown, file: string): string {
  if (!(error instanceof Error)) return `${file} is unreadable`
  return 'code' in error && error.code === 'EISDIR' ? `${file} is a directory` : error.message
}

/** The bytes of a file, or of standard input when none is named. */
export async function* readInput(file: string | undefined, { input }: Terminal) {
  if (file === undefined) return yield* input
  try {
    for await (const chunk of createReadStream(file)) yield chunk as Uint8Array
  } catch (error) {
    throw new UsageError(fileFault(error, file))
  }
}
