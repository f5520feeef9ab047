import type { Command } from '../command.ts'

/** What can be typed after the name of a command. */
export interface Completion {
  readonly name: string
  readonly summary: string
  /** What its first word may be; empty where that is a file or free. */
  readonly words: readonly string[]
  readonly options: readonly OptionCompletion[]
}

export interface OptionCompletion {
  readonly flag: string
  readonly takesValue: boolean
  /** The values that there are; empty where the value is a file or free. */
  readonly choices: readonly string[]
}

export const GLOBAL_FLAGS = ['--help', '--version'] as const

const HELP_OPTION: OptionCompletion = { flag: '--help', takesValue: false, choices: [] }

/** The tables that the commands parse their options with, as shells need them. */
export function completionTable(commands: Readonly<Record<string, Command>>): Completion[] {
  return Object.entries(commands).map(([name, { summary, options, choices = {}, words = [] }]) => ({
    name,
    summary,
    words,
    options: [
      ...Object.entries(options).map(([option, { type }]) => ({
        flag: `--${option}`,
        takesValue: type === 'string',
        choices: choices[option] ?? [],
      })),
      HELP_OPTION,
    ],
  }))
}

/** The names of all options of a command, with a space between them. */
export function flagsOf({ options }: Completion): string {
  return options.map(({ flag }) => flag).join(' ')
}
