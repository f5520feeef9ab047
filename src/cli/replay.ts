import { type Clock, sleep } from '../async/clock.ts'
import { StreamProcessor } from '../processor/stream-processor.ts'
import { parseJsonObject } from '../protocol/json.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import type { StreamMessage, StreamOutput } from '../protocol/stream-output.ts'
import { ResponseReducer } from '../reducer/reduce.ts'
import { eventLines } from './cassettes/input.ts'
import { defineCommand, EXIT, parseChoice, readInput, UsageError } from './command.ts'
import {
  type Source,
  TARGET_FLAGS,
  TARGET_NAMES,
  TARGET_OPTION,
  V2Source,
  writeEvents,
} from './formats.ts'
import { NotificationSource } from './notification-source.ts'
import { RECORDED, recordToolsTurn } from './recordings.ts'
import { type Terminal, withProgress } from './terminal.ts'
import { clip, describeOutput, jsonLine } from './text.ts'

const SPEED_OPTION = {
  value: 'n',
  about: '2 is twice as fast, 0 does not wait',
  default: '1',
} as const

export const replay = defineCommand({
  name: 'replay',
  summary: 'play a recorded turn',
  usage: ['turnstream replay <file.jsonl> [--to <format>] [--speed <n>] [--json]'],
  about: `The file is a cassette, or contains JSON lines: StreamEvents, as written by \`turnstream convert
--to v2 --json\`, or notifications of a codex app-server, in any of its grammars. Their times set the
pace: "timestamp" of StreamEvents; "emittedAtMs" of notifications, or "t" in
{"t":<ms>,"dir":"s2c","msg":…}.`,
  options: { to: { ...TARGET_OPTION, default: 'v2' }, speed: SPEED_OPTION, ...TARGET_FLAGS },
  words: { takes: 'one file', min: 1, max: 1 },
  examples: ['turnstream replay turn.jsonl --to xapi --speed 4'],
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
  let source: Source | undefined
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
function chooseSource(head: Uint8Array, clock: Clock): Source {
  const [line = ''] = new TextDecoder().decode(head).trimStart().split('\n', 1)
  const first = parseJsonObject(line)
  const isNotification = first !== undefined && !('event_id' in first) && !('payload' in first)
  return isNotification ? new NotificationSource(clock.now()) : new V2Source()
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

export const demo = defineCommand({
  name: 'demo',
  summary: 'play a recorded turn and watch deltas become snapshots',
  usage: ['turnstream demo [--speed <n>] [--json]'],
  options: {
    speed: SPEED_OPTION,
    json: { about: 'print the stored snapshots as JSON lines' },
  },
  examples: ['turnstream demo --speed 4'],
  exitCodes: '0 done · 2 usage error',
  async run({ values }, terminal) {
    const speed = parseSpeed(values.speed)
    const { clock } = terminal
    const view: View = values.json
      ? { snapshot: (message) => terminal.write(jsonLine(message)) }
      : lineView(terminal)
    const reducer = new ResponseReducer()
    const processor = new StreamProcessor({ ...RECORDED, clock, onEmit: view.snapshot })
    const recording = recordToolsTurn()
    await view.begin?.()
    for await (const event of paced(recording, speed, clock)) {
      if (event.type === 'item_delta') await view.delta?.()
      reducer.apply(event)
      await processor.processEvent(event)
    }
    await processor.destroy()
    await view.end?.(recording.length, reducer.response.output_items.length)
    return EXIT.done
  },
})

interface View {
  begin?(): Promise<void>
  delta?(): Promise<void> | undefined
  readonly snapshot: (message: StreamMessage, output: StreamOutput) => Promise<void>
  end?(events: number, items: number): Promise<void>
}

const DELTA_COLUMN = 34

/** Prints a dot per delta, and each snapshot after its dots. */
function lineView({ write, style, columns }: Terminal): View {
  let dots = 0
  let snapshots = 0

  return {
    begin: () =>
      write(
        `${style('bold', 'A recorded turn, played through the core.')}\n` +
          `Each ${style('dim', '·')} is a delta of the provider, each line a snapshot for the UI.\n\n`,
      ),
    delta() {
      dots += 1
      return dots <= DELTA_COLUMN ? write(style('dim', '·')) : undefined
    },
    snapshot(_message, output) {
      const pad = ' '.repeat(Math.max(0, DELTA_COLUMN - dots))
      const { title, detail } = describeOutput(output)
      const room = Math.max(20, columns - DELTA_COLUMN - 26)
      dots = 0
      snapshots += 1
      return write(`${pad} ${style('cyan', title.padEnd(23))} ${clip(detail, room)}\n`)
    },
    end: (events, items) =>
      write(
        `\n${events} events in, ${snapshots} snapshots out, ${items} items in the Response.\n` +
          'Each snapshot is the complete text so far, so a UI only needs the last one of an item.\n',
      ),
  }
}
