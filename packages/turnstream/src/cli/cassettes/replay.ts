import { type Clock, sleep } from '@turnstream/core/internal/async/clock'
import type { EventReader } from '@turnstream/core/internal/formats/format'
import { TARGET_NAMES } from '@turnstream/core/internal/formats/registry'
import { V2Reader } from '@turnstream/core/internal/formats/v2/read'
import { parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { defineCommand, parseChoice, readInput, UsageError } from '../command.ts'
import { TARGET_FLAGS, TARGET_OPTION, writeEvents } from '../formats.ts'
import { NotificationSource } from '../notification-source.ts'
import { type Terminal, withProgress } from '../terminal.ts'
import { eventLines } from './input.ts'

export const replay = defineCommand({
  name: 'cassette replay',
  summary: 'play a recorded turn',
  usage: ['turnstream cassette replay <file.jsonl> [--to <format>] [--speed <n>] [--json]'],
  about: `The file is a cassette, or contains JSON lines: StreamEvents, as written by \`turnstream convert
--to v2 --json\`, or notifications of a codex app-server, in any of its grammars. Their times set the
pace: "timestamp" of StreamEvents; "emittedAtMs" of notifications, or "t" in
{"t":<ms>,"dir":"s2c","msg":…}.`,
  options: {
    to: { ...TARGET_OPTION, default: 'v2' },
    speed: { value: 'n', about: '2 is twice as fast, 0 does not wait', default: '1' },
    ...TARGET_FLAGS,
  },
  words: { takes: 'one file', min: 1, max: 1 },
  examples: ['turnstream cassette replay turn.jsonl --to xapi --speed 4'],
  exitCodes: '0 the turn completed · 1 the turn failed · 2 usage error or unreadable file',
  async run({ values, words: [file = ''] }, terminal) {
    const to = parseChoice('--to', values.to, TARGET_NAMES)
    const speed = parseSpeed(values.speed)
    const recording = await readRecording(file, terminal)
    let count = 0
    const played = withProgress(paced(recording, speed, terminal.clock), terminal, () => {
      count += 1
      return () => `${count} of ${recording.length} events`
    })
    return writeEvents(played, to, values, terminal)
  },
})

/** The events of the file. A truncated turn ends as an error. */
async function readRecording(file: string, terminal: Terminal): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  let source: EventReader | undefined
  const lines = eventLines(readInput(file, terminal), file)
  for await (const chunk of withFirstLine(lines)) {
    source ??= chooseSource(chunk, terminal.clock)
    for (const event of source.feed(chunk)) events.push(event)
  }
  for (const event of source?.end() ?? []) events.push(event)
  if (source?.fault !== undefined) {
    throw new UsageError(`${file}: line ${source.fault.at}: ${source.fault.reason}`)
  }
  if (events.length === 0) throw new UsageError(`${file} contains no events`)
  return events
}

const LINE_FEED = 0x0a

/** Joins the first chunks until they hold a complete line. */
async function* withFirstLine(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let head: Uint8Array[] | undefined = []
  for await (const chunk of chunks) {
    if (head === undefined) yield chunk
    else {
      head.push(chunk)
      if (!chunk.includes(LINE_FEED)) continue
      yield Buffer.concat(head)
      head = undefined
    }
  }
  if (head !== undefined && head.length > 0) yield Buffer.concat(head)
}

/** StreamEvents have ids; everything else that is an object is a notification. */
function chooseSource(head: Uint8Array, clock: Clock): EventReader {
  const [line = ''] = new TextDecoder().decode(head).trimStart().split('\n', 1)
  const first = parseJsonObject(line)
  const isNotification = first !== undefined && !('event_id' in first) && !('payload' in first)
  return isNotification ? new NotificationSource(clock.now()) : new V2Reader()
}

/** `--speed`: 0 does not wait. */
function parseSpeed(text: string): number {
  const speed = Number(text)
  if (text.trim() === '' || !(speed >= 0)) {
    throw new UsageError(`--speed must be a number ≥ 0, got '${text}'`)
  }
  return speed === 0 ? Infinity : speed
}

/** Yields each event of a recording at the pace of the timestamps. */
async function* paced(
  recording: readonly StreamEvent[],
  speed: number,
  clock: Clock,
): AsyncGenerator<StreamEvent> {
  let before = recording[0]?.timestamp ?? 0
  for (const event of recording) {
    const ms = (event.timestamp - before) / speed
    before = event.timestamp
    if (ms > 0) await sleep(ms, clock)
    yield event
  }
}
