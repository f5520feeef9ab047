import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import type { StreamEvent } from '../protocol/stream-event.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  isFailure,
  parseChoice,
  parseSpeed,
  UsageError,
} from './command.ts'
import { fileFault } from './file-fault.ts'
import { paced } from './paced.ts'
import { atTimes } from './progress.ts'
import { createTarget, TARGET_NAMES } from './targets.ts'
import type { Terminal } from './terminal.ts'
import { V2Source } from './v2-source.ts'

const HELP = `turnstream replay: play a recorded turn

Usage
  turnstream replay <file.jsonl> [--to <format>] [--speed <n>] [--json]

The file holds StreamEvents, one to a line, as \`turnstream convert --to v2 --json\` writes them.
Their timestamps are the pace.

Options
  --to <format>      ${TARGET_NAMES.join(' | ')} (v2)
  --speed <n>        2 plays twice as fast, 0 without waiting (1)
  --json             one JSON object to a line instead of SSE
  --include-usage    with --to chat-completions: a last chunk with the tokens used

Example
  turnstream replay turn.jsonl --to xapi --speed 4

Exit codes
  0 the turn ended · 1 it ended as an error · 2 the command or the file cannot be read
`

const OPTIONS = {
  to: { type: 'string', default: 'v2' },
  speed: { type: 'string', default: '1' },
  json: { type: 'boolean', default: false },
  'include-usage': { type: 'boolean', default: false },
} as const

function parse(args: string[]) {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  const [file, ...rest] = positionals
  if (file === undefined || rest.length > 0) throw new UsageError('replay takes one file')
  return {
    file,
    json: values.json,
    includeUsage: values['include-usage'],
    to: parseChoice('--to', values.to, TARGET_NAMES),
    speed: parseSpeed(values.speed),
  }
}

async function run(args: string[], { write, clock, progress }: Terminal): Promise<ExitCode> {
  const { file, to, speed, json, includeUsage } = parse(args)
  const recording = await read(file)
  const target = createTarget(to, { json, includeUsage, write, clock })
  const tell = atTimes(clock, progress)
  let hasFailed = false
  let count = 0
  try {
    for await (const event of paced(recording, speed, clock)) {
      hasFailed ||= isFailure(event)
      await target.event(event)
      count += 1
      tell(() => `${count} of ${recording.length} events`)
    }
    await target.end()
  } finally {
    progress('')
  }
  return hasFailed ? EXIT.failed : EXIT.done
}

/** The events of the file; what they lack at their end is added as it is: an error. */
async function read(file: string): Promise<StreamEvent[]> {
  const source = new V2Source()
  const events: StreamEvent[] = []
  try {
    events.push(...source.feed(await readFile(file)), ...source.end())
  } catch (error) {
    throw new UsageError(fileFault(error, file))
  }
  if (source.fault !== undefined) {
    throw new UsageError(`${file}: line ${source.fault.at}: ${source.fault.reason}`)
  }
  if (events.length === 0) throw new UsageError(`${file}: there are no events in it`)
  return events
}

export const replay: Command = {
  summary: 'play a recorded turn',
  help: HELP,
  options: OPTIONS,
  choices: { to: TARGET_NAMES },
  run,
}
