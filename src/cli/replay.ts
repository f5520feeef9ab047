import { type Clock, sleep } from '../async/clock.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import { defineCommand, parseChoice, readInput, UsageError } from './command.ts'
import { V2Source } from './sources.ts'
import { TARGET_FLAGS, TARGET_NAMES, TARGET_OPTION, writeEvents } from './targets.ts'
import { type Terminal, throttled } from './terminal.ts'

export const SPEED_OPTION = {
  value: 'n',
  about: '2 plays twice as fast, 0 without waiting',
  default: '1',
} as const

export const replay = defineCommand({
  name: 'replay',
  summary: 'play a recorded turn',
  usage: ['turnstream replay <file.jsonl> [--to <format>] [--speed <n>] [--json]'],
  about: `The file holds StreamEvents, one to a line, as \`turnstream convert --to v2 --json\` writes them.
Their timestamps are the pace.`,
  options: { to: { ...TARGET_OPTION, default: 'v2' }, speed: SPEED_OPTION, ...TARGET_FLAGS },
  words: { takes: 'one file', min: 1, max: 1 },
  examples: ['turnstream replay turn.jsonl --to xapi --speed 4'],
  exitCodes: '0 the turn ended · 1 it ended as an error · 2 the command or the file cannot be read',
  async run({ values, words: [file = ''] }, terminal) {
    const to = parseChoice('--to', values.to, TARGET_NAMES)
    const speed = parseSpeed(values.speed)
    const { clock, progress } = terminal
    const recording = await readRecording(file, terminal)
    const show = throttled(clock, progress)
    let count = 0
    async function* played() {
      for await (const event of paced(recording, speed, clock)) {
        yield event
        count += 1
        show(() => `${count} of ${recording.length} events`)
      }
    }
    return writeEvents(played(), to, values, terminal)
  },
})

/** The events of the file. A turn without an end gets one: an error. */
async function readRecording(file: string, terminal: Terminal): Promise<StreamEvent[]> {
  const source = new V2Source()
  const events: StreamEvent[] = []
  for await (const chunk of readInput(file, terminal)) events.push(...source.feed(chunk))
  events.push(...source.end())
  if (source.fault !== undefined) {
    throw new UsageError(`${file}: line ${source.fault.at}: ${source.fault.reason}`)
  }
  if (events.length === 0) throw new UsageError(`${file}: there are no events in it`)
  return events
}

/** `--speed`: 0 does not wait. */
export function parseSpeed(text: string): number {
  const speed = Number(text)
  if (text.trim() === '' || !(speed >= 0)) {
    throw new UsageError(`--speed takes a number, zero or more, got '${text}'`)
  }
  return speed === 0 ? Infinity : speed
}

/** Yields each event of a recording when its time has come: the timestamps are the pace. */
export async function* paced(
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
