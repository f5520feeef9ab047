#!/usr/bin/env node
import { createRequire } from 'node:module'
import { suggestion } from '@turnstream/core/internal/protocol/nearest'
import { redactShapes } from '@turnstream/core/internal/protocol/redaction'
import { diff } from './cassettes/diff.ts'
import { exportCassette } from './cassettes/export.ts'
import { record } from './cassettes/record.ts'
import { replay } from './cassettes/replay.ts'
import { chat } from './chat.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  formatHelp,
  parseAction,
  UsageError,
} from './command.ts'
import { compact } from './compact.ts'
import { createCompletions } from './completions.ts'
import { config } from './config.ts'
import { convert } from './convert.ts'
import { doctor } from './doctor/doctor.ts'
import { keys } from './keys.ts'
import { codex, serve } from './serve/serve.ts'
import { tail } from './tail.ts'
import { processTerminal, type Terminal } from './terminal.ts'
import { exportCommand } from './transfer/export.ts'
import { importCommand } from './transfer/import.ts'

/** Start reading here: each imported file is one command, implemented by its `run`. */
const COMMANDS: readonly Command[] = [
  serve,
  codex,
  keys,
  doctor,
  config,
  chat,
  tail,
  convert,
  record,
  replay,
  diff,
  exportCassette,
  compact,
  exportCommand,
  importCommand,
  createCompletions(() => COMMANDS),
]

const listOf = (commands: readonly Command[]) =>
  commands.map(({ name, summary }) => `  ${name.padEnd(17)}${summary}`).join('\n')

const HELP = `turnstream: an LLM turn as a durable log

Usage
  turnstream <command> [options]

Commands
${listOf(COMMANDS)}

Options
  -h, --help      print this help, or a command's
  -v, --version   print the version

Start with: turnstream serve
`

const HELP_FLAGS = new Set(['-h', '--help'])

/** Picks the command and runs it. Usage errors end here, whichever command throws them. */
async function main(args: string[], terminal: Terminal): Promise<ExitCode> {
  const [name = '--help', ...rest] = args[0] === 'help' ? [...args.slice(1), '--help'] : args
  if (['-v', '--version', 'version'].includes(name)) return print(terminal, `${version()}\n`)
  if (HELP_FLAGS.has(name)) return print(terminal, HELP)
  const group = COMMANDS.filter((each) => each.name.startsWith(`${name} `))
  const hasVerbs = group.length > 0
  if (hasVerbs && HELP_FLAGS.has(rest[0] ?? '')) {
    const usage = `Usage\n  turnstream ${name} <verb> [options]`
    return print(terminal, `${usage}\n\nCommands\n${listOf(group)}\n`)
  }
  let shown = hasVerbs ? `turnstream ${name}` : 'turnstream'
  try {
    const verbs = group.map((each) => each.name.slice(name.length + 1))
    const verb = hasVerbs ? ` ${parseAction(name, rest.shift(), verbs)}` : ''
    const command = findCommand(`${name}${verb}`)
    shown = `turnstream ${command.name}`
    if (rest.some((arg) => HELP_FLAGS.has(arg)))
      return await print(terminal, formatHelp(command, terminal.columns))
    return await command.run(rest, terminal)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const message = redactShapes(error.message)
    terminal.writeError(`turnstream: ${message}\nTry: ${shown} --help\n`)
    return EXIT.usage
  }
}

function findCommand(name: string): Command {
  const command = COMMANDS.find((each) => each.name === name)
  if (command !== undefined) return command
  if (name.startsWith('-')) throw new UsageError(`unknown option ${name}`)
  const names = new Set(COMMANDS.map((each) => each.name.split(' ', 1)[0] ?? ''))
  throw new UsageError(`unknown command '${name}'${suggestion(name, [...names])}`)
}

async function print({ write }: Terminal, text: string): Promise<ExitCode> {
  await write(text)
  return EXIT.done
}

function version(): string {
  const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }
  return version
}

// A closed pipe (`| head`) is not a failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.failed)
})

process.exitCode = await main(process.argv.slice(2), processTerminal())
