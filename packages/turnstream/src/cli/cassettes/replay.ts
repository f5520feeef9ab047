import { type Clock, sleep } from '@turnstream/core/internal/async/clock'
import { translateCodex } from '@turnstream/core/internal/formats/codex/read'
import { EventStamp } from '@turnstream/core/internal/formats/event-stamp'
import type { EventReader } from '@turnstream/core/internal/formats/format'
import { TARGET_NAMES } from '@turnstream/core/internal/formats/registry'
import { V2Reader } from '@turnstream/core/internal/formats/v2/read'
import { VendorInput } from '@turnstream/core/internal/formats/vendor-input'
import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type {
  StreamEvent,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'
import { defineCommand, parseChoice, UsageError } from '../command.ts'
import { TARGET_FLAGS, TARGET_OPTION, writeEvents } from '../formats.ts'
import { withProgress } from '../terminal.ts'
import { readEventsFile } from './input.ts'

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
    const recording = await readEventsFile(file, terminal, (firstLine) =>
      isNotification(firstLine) ? notificationSource(terminal.clock.now()) : new V2Reader(),
    )
    let count = 0
    const played = withProgress(paced(recording, speed, terminal.clock), terminal, () => {
      count += 1
      return () => `${count} of ${recording.length} events`
    })
    return writeEvents(played, to, values, terminal)
  },
})

/** StreamEvents have ids; everything else that is an object is a notification. */
function isNotification(line: string): boolean {
  const first = parseJsonObject(line)
  return first !== undefined && !('event_id' in first) && !('payload' in first)
}

/** Recorded notifications of a codex app-server as StreamEvents. Times that count from a start are added to `startedAt`. */
function notificationSource(startedAt: number): EventReader {
  const runId = crypto.randomUUID()
  const events: StreamEvent[] = []
  let time: number | undefined
  let hasBegun = false
  const now = (): number => time ?? startedAt
  const stamp = new EventStamp({ runId, now })
  const ids = { runId, turnId: runId, threadId: crypto.randomUUID() }
  const translation = translateCodex({ ...ids, providerId: 'codex', modelId: 'unknown', now })
  const add = (payloads: readonly StreamEventPayload[]): void => {
    hasBegun ||= payloads.length > 0
    for (const payload of payloads) events.push(stamp.stamp(payload))
  }
  const input = new VendorInput((message) => {
    const at = timeOf(message, startedAt)
    // The clock of the recording may have been set back.
    if (at !== undefined) time = Math.max(time ?? at, at)
    add(translation.translate(message))
  })
  return {
    get fault() {
      return input.fault
    },
    feed(chunk) {
      input.feed(chunk)
      return events.splice(0)
    },
    end() {
      input.end()
      if (hasBegun) add(translation.end())
      return events.splice(0)
    },
  }
}

/** A recorder writes `t`, in milliseconds from its start; a current app-server `emittedAtMs`. */
function timeOf(message: unknown, startedAt: number): number | undefined {
  if (!isRecord(message)) return undefined
  const { t, emittedAtMs } = message
  if (typeof t === 'number') return startedAt + t
  return typeof emittedAtMs === 'number' ? emittedAtMs : undefined
}

function parseSpeed(text: string): number {
  const speed = Number(text)
  if (text.trim() === '' || !(speed >= 0)) {
    throw new UsageError(`--speed must be a number ≥ 0, got '${text}'`)
  }
  return speed === 0 ? Infinity : speed
}

async function* paced(recording: readonly StreamEvent[], speed: number, clock: Clock) {
  let before = recording[0]?.timestamp ?? 0
  for (const event of recording) {
    const ms = (event.timestamp - before) / speed
    before = event.timestamp
    if (ms > 0) await sleep(ms, clock)
    yield event
  }
}
