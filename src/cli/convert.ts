import { type Command, parseChoice, parseOptions, readInput, UsageError } from './command.ts'
import { recognisedEvents } from './recognise.ts'
import { createSource, SOURCE_NAMES } from './sources.ts'
import { TARGET_FLAGS, TARGET_NAMES, writeEvents } from './targets.ts'
import { type Terminal, throttled } from './terminal.ts'
import { megabytes } from './text.ts'

const HELP = `turnstream convert: turn a provider's stream into another form

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
  ...TARGET_FLAGS,
  verbose: { type: 'boolean', default: false },
} as const

const run: Command['run'] = async (args, terminal) => {
  const { values, positionals } = parseOptions({ args, allowPositionals: true, options: OPTIONS })
  const [file, ...rest] = positionals
  if (rest.length > 0) throw new UsageError(`convert takes one file, got ${positionals.length}`)
  const from = parseChoice('--from', values.from, SOURCE_NAMES)
  const to = parseChoice('--to', values.to, TARGET_NAMES)
  let hasUnknown = false
  const source = createSource(from, {
    runId: crypto.randomUUID(),
    threadId: crypto.randomUUID(),
    now: () => terminal.clock.now(),
    onUnknown: (type) => {
      hasUnknown = true
      if (values.verbose) terminal.writeError(`turnstream: unknown event type ${type}\n`)
    },
  })
  const input = watched(readInput(file, terminal), terminal)
  let count = 0
  async function* counted() {
    const recognised = { from, source, hasUnknown: () => hasUnknown }
    for await (const event of recognisedEvents(input, recognised)) {
      count += 1
      yield event
    }
  }
  const exit = await writeEvents(counted(), to, values, terminal)
  if (source.fault !== undefined) {
    const { at, reason } = source.fault
    throw new UsageError(`line or event ${at} of the input cannot be read: ${reason}`)
  }
  if (count === 0) throw new UsageError('the input is empty')
  return exit
}

/** Passes the input on and shows how much has been read. */
async function* watched(input: AsyncIterable<Uint8Array>, { clock, progress }: Terminal) {
  const show = throttled(clock, progress)
  let bytes = 0
  for await (const chunk of input) {
    yield chunk
    bytes += chunk.length
    show(() => `${megabytes(bytes)} read`)
  }
}

export const convert: Command = {
  help: HELP,
  options: OPTIONS,
  choices: { from: SOURCE_NAMES, to: TARGET_NAMES },
  run,
}
