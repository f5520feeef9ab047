import { parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { ROUTES, SSE_EVENTS } from '@turnstream/core/internal/protocol/names'
import { clip, printable } from '@turnstream/core/internal/protocol/printable'
import type {
  StreamEventPayload,
  TurnStatus,
} from '@turnstream/core/internal/protocol/stream-event'
import { isStreamEvent } from '@turnstream/core/internal/protocol/stream-event-guard'
import type { StreamOutput } from '@turnstream/core/internal/protocol/stream-output'
import { decodeText } from '@turnstream/core/internal/schemas/decode'
import { streamOutputSchema } from '@turnstream/core/internal/schemas/stream-output'
import type { SseEvent } from '@turnstream/core/internal/sse/decode'
import { defineCommand, EXIT } from './command.ts'
import { ABOUT_KEYS, openGateway, path, turnLost, URL_OPTION } from './gateway.ts'
import type { Terminal } from './terminal.ts'
import { describeOutput } from './text.ts'

export const tail = defineCommand({
  name: 'tail',
  summary: 'follow a turn of a running gateway to its end',
  usage: ['turnstream tail <turnId> [--raw] [--from <offset>] [--json]'],
  about: `Prints one line per snapshot: the offset to resume from, the type and the content. Works for running
and ended turns, and reconnects after a lost connection.

${ABOUT_KEYS}`,
  options: {
    url: URL_OPTION,
    raw: { about: 'print raw events; takes the run id (the turn id, unless both were submitted)' },
    from: { value: 'offset', about: 'start after this offset' },
    json: { about: 'print records as sent, as JSON lines' },
  },
  words: { takes: 'one turn id', min: 1, max: 1 },
  examples: ['turnstream tail first-turn', 'turnstream tail first-turn --raw --json'],
  exitCodes: '0 the turn completed · 1 it failed, was cancelled, or cannot be read · 2 usage error',
  async run({ values, words: [id = ''] }, terminal) {
    const { raw, from, json } = values
    const gateway = openGateway(values.url, terminal)
    const { status } = terminal
    const route = raw ? ROUTES.runStream : ROUTES.turnOutputStream
    const frames = gateway.frames(path(route, id), from, (ms) =>
      status(`connection lost, retrying in ${(ms / 1000).toFixed(1)} s`),
    )
    const lines = raw ? eventLines(frames, terminal) : outputLines(frames)
    for await (const line of lines) {
      await writeLine(line, terminal, json)
      const { outcome } = line
      if (outcome !== undefined) return outcome === 'complete' ? EXIT.done : EXIT.failed
    }
    // Nothing follows the offset: the turn ended at or before it.
    if (from !== undefined) return EXIT.done
    throw turnLost(id)
  },
})

interface Line {
  readonly offset: string
  readonly title: string
  readonly detail: string
  readonly json: string
  readonly outcome: TurnStatus | undefined
}

/** Skips outputs that a reconnect repeats, and unknown types. */
async function* outputLines(frames: AsyncIterable<SseEvent>): AsyncGenerator<Line> {
  const seen = new Map<string, string>()
  for await (const { event, data, id: offset } of frames) {
    const decoded = event === '' ? decodeText(streamOutputSchema, data) : undefined
    if (!decoded?.ok) continue
    const output = decoded.value
    const key = 'itemId' in output ? output.itemId : output.type
    const json = JSON.stringify(output)
    if (seen.get(key) === json) continue
    seen.set(key, json)
    yield { offset, ...describeOutput(output), json, outcome: outcomeOf(output) }
  }
}

async function* eventLines(frames: AsyncIterable<SseEvent>, { writeError }: Terminal) {
  for await (const { event: name, data, id: offset } of frames) {
    if (name === SSE_EVENTS.resync) writeError(`turnstream: resync: ${clip(data, MAX_NOTE)}\n`)
    const event = name === '' ? parseJsonSafe(data) : undefined
    if (!isStreamEvent(event)) continue
    const { type: _type, ...rest } = event.payload
    const detail = JSON.stringify(rest)
    yield { offset, title: event.type, detail, json: data, outcome: endingOf(event.payload) }
  }
}

const MAX_NOTE = 200
const OFFSET_WIDTH = 8
const TITLE_WIDTH = 20

async function writeLine(line: Line, { write, status, style, columns }: Terminal, json: boolean) {
  status('')
  const room = Math.max(20, columns - OFFSET_WIDTH - TITLE_WIDTH - 2)
  const offset = style('dim', printable(line.offset).padEnd(OFFSET_WIDTH))
  const title = style('cyan', line.title.padEnd(TITLE_WIDTH))
  await write(json ? `${line.json}\n` : `${offset} ${title} ${clip(line.detail, room)}\n`)
}

function outcomeOf(output: StreamOutput): TurnStatus | undefined {
  if (output.type === 'turn_error') return 'error'
  return output.type === 'turn_complete' ? output.status : undefined
}

function endingOf(payload: StreamEventPayload): TurnStatus | undefined {
  if (payload.type === 'response_done') return payload.status
  if (payload.type === 'turn_aborted_by_user') return 'aborted'
  return payload.type === 'response_error' ? 'error' : undefined
}
