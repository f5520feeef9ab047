import { createReadStream } from 'node:fs'
import { parseArgs } from 'node:util'
import { type Command, EXIT, type ExitCode, isFailure, parseChoice, UsageError } from './command.ts'
import { fileFault } from './file-fault.ts'
import { atTimes, megabytes } from './progress.ts'
import { Recognition } from './recognise.ts'
import { createSource, SOURCE_NAMES } from './sources.ts'
import { createTarget, TARGET_NAMES } from './targets.ts'
import type { Terminal } from './terminal.ts'

const HELP = `turnstream convert: a provider's stream in another form

Usage
  turnstream convert --from <format> --to <format> [file]

Reads the file, or standard input, while it arrives: SSE or one JSON to a line, it sees which.
Writes SSE, or with --json one JSON object to a line.

Options
  --from <format>    ${SOURCE_NAMES.slice(0, 4).join(' | ')} |
                     ${SOURCE_NAMES.slice(4).join(' | ')}
  --to <format>      ${TARGET_NAMES.join(' | ')}
                     (response is the complete Response, one for each response of the provider)
  --json             one JSON object to a line
  --include-usage    with --to chat-completions: a last chunk with the tokens used
  --verbose          name on standard error what the provider sent that means nothing to us

Examples
  turnstream convert --from openai-chat --to response --json answer.sse
  turnstream convert --from openai-chat --to v2 --json < answer.sse > turn.jsonl

Exit codes
  0 the turn ended · 1 it ended as an error · 2 the command or the input cannot be read
`

const OPTIONS = {
  from: { type: 'string' },
  to: { type: 'string' },
  json: { type: 'boolean', default: false },
  'include-usage': { type: 'boolean', default: false },
  verbose: { type: 'boolean', default: false },
} as const

function parse(args: string[]) {
  const { values, positionals } = parseArgs({ args, allowPositionals: true, options: OPTIONS })
  if (positionals.length > 1)
    throw new UsageError(`convert takes one file, got ${positionals.length}`)
  return {
    ...values,
    from: parseChoice('--from', values.from, SOURCE_NAMES),
    to: parseChoice('--to', values.to, TARGET_NAMES),
    file: positionals[0],
  }
}

async function run(args: string[], terminal: Terminal): Promise<ExitCode> {
  const options = parse(args)
  const { clock, write } = terminal
  const recognition = new Recognition(options.from)
  const source = createSource(options.from, {
    runId: crypto.randomUUID(),
    threadId: crypto.randomUUID(),
    now: () => clock.now(),
    onUnknown: (type) => {
      recognition.hasUnknown = true
      if (options.verbose) terminal.writeError(`turnstream: unknown event type ${type}\n`)
    },
  })
  const { json } = options
  const target = createTarget(options.to, {
    json,
    includeUsage: options['include-usage'],
    write,
    clock,
  })
  let hasFailed = false
  let count = 0

  async function pass(events: ReturnType<typeof source.end>): Promise<void> {
    for (const event of recognition.take(events)) {
      count += 1
      hasFailed ||= isFailure(event)
      await target.event(event)
    }
  }

  async function passHeld(): Promise<void> {
    recognition.check(source.fault !== undefined)
    // A fault alone is no turn.
    if (source.fault === undefined) await pass(recognition.release())
  }

  try {
    for await (const chunk of inputOf(options.file, terminal)) {
      recognition.note(chunk)
      await pass(source.feed(chunk))
      if (source.fault !== undefined) break
      if (recognition.isUndecided) await passHeld()
    }
    await pass(source.end())
    await passHeld()
    await target.end()
  } finally {
    terminal.progress('')
  }
  if (source.fault !== undefined) {
    const { at, reason } = source.fault
    throw new UsageError(`line or event ${at} of the input cannot be read: ${reason}`)
  }
  if (count === 0) throw new UsageError('the input is empty')
  return hasFailed ? EXIT.failed : EXIT.done
}

function inputOf(file: string | undefined, terminal: Terminal): AsyncIterable<Uint8Array> {
  return watched(file === undefined ? terminal.input : readFileStream(file), terminal)
}

/** The same, telling whoever waits how much has been read. */
async function* watched(input: AsyncIterable<Uint8Array>, { clock, progress }: Terminal) {
  const tell = atTimes(clock, progress)
  let bytes = 0
  for await (const chunk of input) {
    yield chunk
    bytes += chunk.length
    tell(() => `${megabytes(bytes)} read`)
  }
}

async function* readFileStream(file: string): AsyncIterable<Uint8Array> {
  try {
    for await (const chunk of createReadStream(file)) yield chunk as Uint8Array
  } catch (error) {
    throw new UsageError(fileFault(error, file))
  }
}

export const convert: Command = {
  summary: 'turn a provider’s stream into another form',
  help: HELP,
  options: OPTIONS,
  choices: { from: SOURCE_NAMES, to: TARGET_NAMES },
  run,
}
