#!/usr/bin/env node
import { createRequire } from 'node:module'
import { parseArgs } from 'node:util'
import { systemClock } from '../async/clock.ts'
import { runDemo } from './demo.ts'
import { stdoutTerminal } from './terminal.ts'

const HELP = `turnstream: an LLM turn as a durable log

Usage
  turnstream demo [--speed <n>] [--json]

Commands
  demo            play a recorded turn and watch deltas become snapshots

Options
  --speed <n>     2 plays twice as fast, 0 without waiting (1)
  --json          one JSON object to a line instead of a picture
  -h, --help      this text
  -v, --version   the version

Exit codes
  0 done · 1 it failed · 2 the command line makes no sense
`

const EXIT_USAGE = 2

function usageError(message: string): void {
  process.stderr.write(`turnstream: ${message}\nTry: turnstream --help\n`)
  process.exitCode = EXIT_USAGE
}

function version(): string {
  const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }
  return version
}

function parse(args: string[]) {
  return parseArgs({
    args,
    allowPositionals: true,
    options: {
      speed: { type: 'string', default: '1' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      version: { type: 'boolean', short: 'v', default: false },
    },
  })
}

async function main(args: string[]): Promise<void> {
  let command: ReturnType<typeof parse>
  try {
    command = parse(args)
  } catch (error) {
    return usageError(error instanceof Error ? error.message : String(error))
  }
  const { values, positionals } = command
  const [name, ...rest] = positionals
  if (values.version) {
    process.stdout.write(`${version()}\n`)
  } else if (values.help || name === undefined) {
    process.stdout.write(HELP)
  } else if (name !== 'demo') {
    usageError(`there is no command named '${name}'`)
  } else if (rest.length > 0) {
    usageError(`demo takes no arguments, got '${rest.join(' ')}'`)
  } else {
    await demo(values.speed, values.json)
  }
}

async function demo(speedText: string, json: boolean): Promise<void> {
  const speed = Number(speedText)
  if (speedText.trim() === '' || !(speed >= 0)) {
    return usageError(`--speed takes a number, zero or more, got '${speedText}'`)
  }
  await runDemo({
    speed: speed === 0 ? Infinity : speed,
    json,
    clock: systemClock,
    terminal: stdoutTerminal(),
  })
}

// A reader that has seen enough (`| head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  process.exit(error.code === 'EPIPE' ? 0 : 1)
})

await main(process.argv.slice(2))
