#!/usr/bin/env node
import { createRequire } from 'node:module'
import { suggestion } from '../protocol/nearest.ts'
import { redactShapes } from '../protocol/redaction.ts'
import { chat } from './chat/chat.ts'
import { type Command, EXIT, type ExitCode, UsageError } from './command.ts'
import { compactCommand } from './compact.ts'
import { completionsOf } from './completions/completions.ts'
import { configCommand } from './config/config.ts'
import { convert } from './convert.ts'
import { demo } from './demo.ts'
import { doctor } from './doctor/doctor.ts'
import { keysCommand } from './keys/keys.ts'
import { optionFault } from './option-fault.ts'
import { replay } from './replay.ts'
import { serveCommand } from './serve/serve.ts'
import { tail } from './tail.ts'
import { processTerminal, type Terminal } from './terminal.ts'
import { exportCommand } from './transfer/export.ts'
import { importCommand } from './transfer/import.ts'

const COMMANDS: Record<string, Command> = {
  serve: serveCommand,
  keys: keysCommand,
  doctor,
  config: configCommand,
  chat,
  tail,
  convert,
  replay,
  compact: compactCommand,
  export: exportCommand,
  import: importCommand,
  demo,
  completions: completionsOf(() => COMMANDS),
}

const HELP = `turnstream: an LLM turn as a durable log

Usage
  turnstream <command> [options]

Commands
${Object.entries(COMMANDS)
  .map(([name, { summary }]) => `  ${name.padEnd(16)}${summary}`)
  .join('\n')}

Options
  -h, --help      this text, or that of a command
  -v, --version   the version

Start with: turnstream serve
`

const HELP_FLAGS = new Set(['-h', '--help'])
const VERSION_FLAGS = new Set(['-v', '--version'])

async function main(args: string[], terminal: Terminal): Promise<ExitCode> {
  const [name = '--help', ...rest] = withoutWords(args)
  if (VERSION_FLAGS.has(name)) return say(terminal, `${version()}\n`)
  if (HELP_FLAGS.has(name)) return say(terminal, HELP)
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  try {
    if (command === undefined) throw unknownCommand(name)
    if (rest.some((arg) => HELP_FLAGS.has(arg))) return await say(terminal, command.help)
    return await command.run(rest, terminal)
  } catch (error) {
    const fault = usageError(error, command)
    if (fault === undefined) throw error
    const hint = command === undefined ? 'turnstream --help' : `turnstream ${name} --help`
    terminal.writeError(`turnstream: ${redactShapes(fault.message)}\nTry: ${hint}\n`)
    return EXIT.usage
  }
}

/** `help`, `help serve` and `version`, which people type as well, as what they mean. */
function withoutWords(args: string[]): string[] {
  const [word, ...rest] = args
  if (word === 'version') return ['--version']
  return word === 'help' ? [...rest, '--help'] : args
}

function unknownCommand(name: string): UsageError {
  const advice = suggestion(name, Object.keys(COMMANDS))
  return new UsageError(`there is no command named '${name}'${advice}`)
}

async function say(terminal: Terminal, text: string): Promise<ExitCode> {
  await terminal.write(text)
  return EXIT.done
}

/** Ours, or that of `parseArgs` in our words. */
function usageError(error: unknown, command: Command | undefined): UsageError | undefined {
  if (error instanceof UsageError) return error
  return optionFault(error, Object.keys(command?.options ?? {}))
}

function version(): string {
  const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }
  return version
}

// A reader that has seen enough (`| head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? EXIT.done : EXIT.failed)
})

process.exitCode = await main(process.argv.slice(2), processTerminal())
