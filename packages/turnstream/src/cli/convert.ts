import { createReader, type EventReader } from '@turnstream/core/internal/formats/format'
import {
  SOURCE_NAMES,
  SOURCES,
  type SourceName,
  TARGET_NAMES,
} from '@turnstream/core/internal/formats/registry'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { defineCommand, parseChoice, readInput, UsageError } from './command.ts'
import { NAMES_COLUMNS, TARGET_FLAGS, TARGET_OPTION, writeEvents } from './formats.ts'
import { withProgress } from './terminal.ts'
import { megabytes, wrap } from './text.ts'

export const convert = defineCommand({
  name: 'convert',
  summary: "translate a provider's stream to another format",
  usage: ['turnstream convert --from <format> --to <format> [file]'],
  about: `Reads a file or standard input as it arrives. Detects SSE and JSON lines. Writes SSE, or JSON lines
with --json.`,
  options: {
    from: {
      value: 'format',
      about: wrap(SOURCE_NAMES.join(' | '), NAMES_COLUMNS),
      choices: SOURCE_NAMES,
    },
    to: {
      ...TARGET_OPTION,
      about: `${TARGET_OPTION.about}\n(response is one complete Response per provider response)`,
    },
    ...TARGET_FLAGS,
    verbose: { about: 'report unknown event types on standard error' },
  },
  words: { takes: 'one file', min: 0, max: 1 },
  examples: [
    'turnstream convert --from openai-chat --to response --json answer.sse',
    'turnstream convert --from openai-chat --to v2 --json < answer.sse > turn.jsonl',
  ],
  exitCodes: '0 the turn completed · 1 the turn failed · 2 usage error or unreadable input',
  async run({ values, words: [file] }, terminal) {
    const from = parseChoice('--from', values.from, SOURCE_NAMES)
    const to = parseChoice('--to', values.to, TARGET_NAMES)
    let hasUnknown = false
    const source = createReader(from, SOURCES[from], {
      runId: crypto.randomUUID(),
      threadId: crypto.randomUUID(),
      now: () => terminal.clock.now(),
      onUnknown: (type) => {
        hasUnknown = true
        if (values.verbose) terminal.writeError(`turnstream: unknown event type ${type}\n`)
      },
    })
    let bytes = 0
    const input = withProgress(readInput(file, terminal), terminal, (chunk) => {
      bytes += chunk.length
      return () => `${megabytes(bytes)} read`
    })
    let isEmpty = true
    async function* events() {
      for await (const event of recognisedEvents(input, {
        from,
        source,
        hasUnknown: () => hasUnknown,
      })) {
        isEmpty = false
        yield event
      }
    }
    const exit = await writeEvents(events(), to, values, terminal)
    if (source.fault !== undefined) {
      const { at, reason } = source.fault
      throw new UsageError(`line or event ${at} of the input is unreadable: ${reason}`)
    }
    if (isEmpty) throw new UsageError('the input is empty')
    return exit
  },
})

/** How much input is buffered to detect its format. */
const HEAD_BYTES = 256 * 1024

/** Emitted for any input, so not evidence of a format. */
const MEANINGLESS = new Set(['response_start', 'response_error'])

/** These formats read each other, so an unreadable input is malformed in both. */
const RESPONSES: ReadonlySet<SourceName> = new Set(['openai-responses', 'response-notifications'])

/** The start of an event stream: a JSON object, or an SSE field or comment. */
const STREAM_START = /^[\s\uFEFF]*($|\{|:|(data|event|id|retry)(:|\n|\r|$))/

interface RecognisedSource {
  readonly from: SourceName
  readonly source: EventReader
  readonly hasUnknown: () => boolean
}

/** Yields the events, once one proves that the input has the expected format. UsageError when it does not. */
async function* recognisedEvents(input: AsyncIterable<Uint8Array>, recognised: RecognisedSource) {
  const { source } = recognised
  const head: Uint8Array[] = []
  let headBytes = 0
  let held: StreamEvent[] | undefined = []

  function* take(events: readonly StreamEvent[], isHeadComplete: boolean) {
    if (held === undefined) return yield* events
    held.push(...events)
    if (events.every(({ type }) => MEANINGLESS.has(type))) {
      if (!isHeadComplete) return
      if (headBytes > 0) checkHead(Buffer.concat(head), held, recognised)
      // An error alone is not a turn.
      if (source.fault !== undefined) return
    }
    yield* held
    held = undefined
  }

  for await (const chunk of input) {
    if (held !== undefined) {
      head.push(chunk.subarray(0, HEAD_BYTES - headBytes))
      headBytes += chunk.length
    }
    yield* take(source.feed(chunk), headBytes >= HEAD_BYTES)
    if (source.fault !== undefined) break
  }
  yield* take(source.end(), true)
}

/** Throws if the input has another format. Malformed input of no known format is refused elsewhere. */
function checkHead(
  head: Buffer,
  held: readonly StreamEvent[],
  { from, source, hasUnknown }: RecognisedSource,
): void {
  const name = guessSource(head, from)
  if (name !== undefined && !(RESPONSES.has(name) && RESPONSES.has(from))) {
    throw new UsageError(`this looks like ${SOURCES[name].title}; use --from ${name}`)
  }
  if (name !== undefined || source.fault !== undefined) return
  const codes = held.flatMap(({ payload }) =>
    payload.type === 'response_error' ? [payload.error.code] : [],
  )
  const isMalformed = codes.includes('UPSTREAM_MALFORMED')
  if (!isMalformed) {
    if (codes.some((code) => code !== 'UPSTREAM_TRUNCATED')) return
    if (!hasUnknown() && STREAM_START.test(head.toString('latin1'))) return
  }
  throw new UsageError(`the input contains no events of ${SOURCES[from].title}`)
}

/** The format that reads most of the start of an input; undefined if none does. */
function guessSource(head: Uint8Array, except: SourceName): SourceName | undefined {
  const scored = SOURCE_NAMES.filter((name) => name !== except)
    .map((name) => ({ name, score: scoreOf(name, head) }))
    .filter(({ score }) => score > 0)
  const best = Math.max(...scored.map(({ score }) => score))
  const names = scored.filter(({ score }) => score === best).map(({ name }) => name)
  // codex also reads response.* notifications: prefer the narrower format.
  return names.find((name) => name !== 'codex') ?? names[0]
}

function scoreOf(name: SourceName, head: Uint8Array): number {
  let unknown = 0
  const onUnknown = () => void (unknown += 1)
  const ids = { runId: 'r', threadId: 'h' }
  const source = createReader(name, SOURCES[name], { ...ids, now: () => 0, onUnknown })
  const events = [...source.feed(head), ...source.end()]
  const known = events.filter(({ type }) => !MEANINGLESS.has(type)).length
  const hasFailed = events.some(({ type }) => type === 'response_error')
  return known === 0 ? 0 : known - unknown - (hasFailed ? 1 : 0) + 1e-3
}
