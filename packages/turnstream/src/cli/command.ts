import { createReadStream } from 'node:fs'
import { parseArgs } from 'node:util'
import { ClientError } from '@turnstream/client'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { suggestion } from '@turnstream/core/internal/protocol/nearest'
import { printable } from '@turnstream/core/internal/protocol/printable'
import type { Terminal } from './terminal.ts'
import { messageOf, wrap } from './text.ts'

export const EXIT = { done: 0, failed: 1, usage: 2 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Invalid command line or input. The message says what is wrong. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The message of the UsageError that `read` throws; undefined if it throws none. */
export function usageFault(read: () => unknown): string | undefined {
  try {
    read()
    return undefined
  } catch (error) {
    if (error instanceof UsageError) return error.message
    throw error
  }
}

/** The command failed. The message says why; the code is the gateway's or ours. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly code: string | undefined

  constructor(code: string | undefined, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Whether a command failed in a way that it explains, itself or with the words of the gateway. */
export function isFailure(error: unknown): error is CommandError | ClientError {
  return error instanceof CommandError || error instanceof ClientError
}

/** The options of a command. Parsing, help and completions are derived from them. */
export type Options = Readonly<
  Record<
    string,
    {
      /** The placeholder of the value in the help; missing for a switch. */
      readonly value?: string
      readonly about: string
      /** Shown in the help, in brackets after `about`. */
      readonly default?: string
      readonly choices?: readonly string[]
    }
  >
>

/** The parsed values. A missing switch is false. */
type Values<Table extends Options> = {
  readonly [Name in keyof Table]: Table[Name] extends { readonly value: string }
    ? Table[Name] extends { readonly default: string }
      ? string
      : string | undefined
    : boolean
}

interface CommandLine<Table extends Options> {
  readonly values: Values<Table>
  readonly words: readonly string[]
}

interface Words {
  /** For the error about too many or too few: `one file`. */
  readonly takes: string
  readonly min: number
  readonly max: number
  /** The allowed values of the first one, if limited. */
  readonly choices?: readonly string[]
}

export interface Command {
  readonly name: string
  readonly summary: string
  readonly usage: readonly string[]
  readonly about?: string
  readonly options: Options
  /** Options that the help of another command explains. */
  readonly furtherOptions?: Options
  readonly words?: Words
  readonly examples: readonly string[]
  readonly exitCodes: string
  run(args: string[], terminal: Terminal): Promise<ExitCode>
}

export function defineCommand<const Table extends Options>(
  definition: Omit<Command, 'options' | 'run'> & {
    readonly options: Table
    run(given: CommandLine<Table>, terminal: Terminal): Promise<ExitCode>
  },
): Command {
  return {
    ...definition,
    async run(args, terminal) {
      const given = parseOptions(args, definition)
      try {
        return await definition.run(given, terminal)
      } catch (error) {
        const isOurs = error instanceof TurnstreamError
        if (!isOurs && !isFailure(error)) throw error
        const json = given.values['json'] === true
        const { code, message } = error
        const text = isOurs && !json ? `${message} (${code})` : message
        return reportFailure({ code, message: text }, terminal, json)
      }
    },
  }
}

const MAX_HELP_COLUMNS = 100

export function formatHelp(command: Command, columns = MAX_HELP_COLUMNS): string {
  const { name, summary, usage, about, options, examples, exitCodes } = command
  const width = Math.min(columns, MAX_HELP_COLUMNS)
  const sections = [
    `turnstream ${name}: ${summary}`,
    wrap(section('Usage', usage), width),
    ...(about === undefined ? [] : [wrap(joinLines(about), width)]),
    wrap(section('Options', optionLines(options)), width),
    section('Examples', examples),
    wrap(section('Exit codes', [exitCodes]), width),
  ]
  return `${sections.join('\n\n')}\n`
}

/** Joins the lines of each paragraph, except in tables. */
function joinLines(text: string): string {
  const paragraphs = text.split('\n\n')
  return paragraphs
    .map((each) => (/\S {2,}\S/.test(each) ? each : each.replaceAll('\n', ' ')))
    .join('\n\n')
}

function section(title: string, lines: readonly string[]): string {
  return [title, ...lines.map((line) => `  ${line}`)].join('\n')
}

const MAX_FLAG_CHARS = 28

function optionLines(options: Options): string[] {
  const rows = Object.entries(options).map(([name, { value, about, default: standard }]) => ({
    flag: `--${name}${value === undefined ? '' : ` <${value}>`}`,
    text: standard === undefined ? about : `${about} (${standard})`,
  }))
  const longest = Math.max(...rows.map(({ flag }) => flag.length))
  const width = Math.min(MAX_FLAG_CHARS, longest) + 2
  return rows.flatMap(({ flag, text }) => {
    const [first = '', ...more] = text.split('\n').map((line) => ' '.repeat(width) + line)
    return flag.length < width ? [flag + first.slice(flag.length), ...more] : [flag, first, ...more]
  })
}

export async function reportFailure(
  { code, message }: { readonly code?: string | undefined; readonly message: string },
  { status, write, writeError }: Pick<Terminal, 'status' | 'write' | 'writeError'>,
  json: boolean,
): Promise<ExitCode> {
  status('')
  if (json) await write(jsonLine({ error: { ...(code !== undefined && { code }), message } }))
  else writeError(`turnstream: ${printable(message)}\n`)
  return EXIT.failed
}

export function parseChoice<Name extends string>(
  option: string,
  text: string | undefined,
  names: readonly Name[],
): Name {
  const name = names.find((candidate) => candidate === text)
  if (name !== undefined) return name
  const got = text === undefined ? 'nothing' : `'${text}'`
  throw new UsageError(`${option} takes one of ${names.join(', ')}; got ${got}`)
}

/** Parses an action of a command. The input is not printed: it may be a key in the wrong place. */
export function parseAction<Name extends string>(
  command: string,
  word: string | undefined,
  names: readonly Name[],
): Name {
  const name = names.find((candidate) => candidate === word)
  if (name !== undefined) return name
  if (word === undefined) throw new UsageError(`${command} takes one of ${names.join(', ')}`)
  throw new UsageError(`unknown ${command} action${suggestion(word, names)}`)
}

/** `parseArgs` with UsageErrors: its own messages are for programmers. */
export function parseOptions<const Table extends Options>(
  args: string[],
  { name = '', options, words }: { name?: string; options: Table; words?: Words },
): CommandLine<Table> {
  const config = Object.entries(options).map(([option, { value, default: standard }]) => {
    if (value === undefined) return [option, { type: 'boolean', default: false }]
    return [option, { type: 'string', ...(standard !== undefined && { default: standard }) }]
  })
  let parsed: ReturnType<typeof parseArgs>
  try {
    const allowPositionals = words !== undefined
    parsed = parseArgs({ args, options: Object.fromEntries(config), allowPositionals })
  } catch (error) {
    const fault = optionFault(error, Object.keys(options))
    throw fault === undefined ? error : new UsageError(fault)
  }
  const { values, positionals } = parsed
  if (words && (positionals.length < words.min || positionals.length > words.max)) {
    throw new UsageError(`${name} takes ${words.takes}`)
  }
  return { values: values as Values<Table>, words: positionals }
}

function optionFault(error: unknown, names: readonly string[]): string | undefined {
  if (!(error instanceof TypeError) || !('code' in error)) return undefined
  const { message } = error
  // The first quoted part is the flag as typed, without its value.
  const typed = /'(.*?)(?: <value>)?'/s.exec(message)?.[1] ?? ''
  const flags = names.map((name) => `--${name}`)
  const advice = `; write one that starts with a dash as ${typed}=-…`
  switch (error.code) {
    case 'ERR_PARSE_ARGS_UNKNOWN_OPTION':
      return `unknown option ${typed}${suggestion(typed, flags)}`
    case 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL':
      return `unexpected argument '${typed}': this command only takes options`
    case 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE':
      if (message.includes('does not take')) return `${typed} takes no value`
      return `${typed} needs a value${message.includes('ambiguous') ? advice : ''}`
    default:
      return undefined
  }
}

export const FILE_FAULTS: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  EISDIR: 'is a directory',
  ENOENT: 'no such file',
}

/** The code of an error of the system or of Node, such as ENOENT. */
export function errorCode(error: unknown): string | undefined {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' ? code : undefined
}

export function fileFault(error: unknown, file: string): string {
  const reason = FILE_FAULTS[errorCode(error) ?? '']
  return reason === undefined ? messageOf(error) : `${file}: ${reason}`
}

export async function* readInput(file: string | undefined, { input }: Terminal) {
  if (file === undefined) return yield* input
  try {
    for await (const chunk of createReadStream(file)) yield chunk as Uint8Array
  } catch (error) {
    throw new UsageError(fileFault(error, file))
  }
}
