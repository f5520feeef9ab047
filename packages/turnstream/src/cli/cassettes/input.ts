import type { Cassette, TimedEvent } from '@turnstream/core/internal/cassettes/cassette'
import { readCassette } from '@turnstream/core/internal/cassettes/decode'
import { cassetteEvents } from '@turnstream/core/internal/cassettes/layers'
import type { EventReader } from '@turnstream/core/internal/formats/format'
import { V2Reader } from '@turnstream/core/internal/formats/v2/read'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { CASSETTE_FORMAT } from '@turnstream/core/internal/protocol/names'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { readInput, UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'

/** Every encoder writes `format` first. */
const CASSETTE_START = `{"format":"${CASSETTE_FORMAT}"`

const LINE_FEED = 0x0a

/** Reads the first line of an input, and returns it with all of the input. Works for pipes. */
async function peek(file: string, terminal: Terminal) {
  const iterator = readInput(file, terminal)
  const head: Uint8Array[] = []
  while (head.at(-1)?.includes(LINE_FEED) !== true) {
    const { done, value } = await iterator.next()
    if (done) break
    head.push(value)
  }
  const start = Buffer.concat(head)
  const [firstLine = ''] = start.toString().trimStart().split('\n', 1)
  async function* all(): AsyncGenerator<Uint8Array> {
    yield start
    yield* iterator
  }
  return { firstLine, isCassette: firstLine.startsWith(CASSETTE_START), input: all() }
}

/** Reads the events of a cassette, or of a file with one per line, by the source that its first line asks for. */
export async function readEventsFile(
  file: string,
  terminal: Terminal,
  chooseSource: (firstLine: string) => EventReader,
): Promise<StreamEvent[]> {
  const { firstLine, isCassette, input } = await peek(file, terminal)
  if (!isCassette) return readEvents(file, chooseSource(firstLine), input)
  const events = await decode(file, async () => cassetteEvents(await readCassette(input)))
  const lines = events.map(({ event }) => Buffer.from(jsonLine(event)))
  return readEvents(file, new V2Reader(), lines)
}

/** Reads a cassette, or StreamEvents as a cassette. UsageError if the file is neither. */
export async function readCassetteFile(file: string, terminal: Terminal): Promise<Cassette> {
  const { isCassette, input } = await peek(file, terminal)
  if (isCassette) return decode(file, () => readCassette(input))
  const events = await readEvents(file, new V2Reader(), input)
  const createdAt = events[0]?.timestamp ?? 0
  const header = { format: CASSETTE_FORMAT, version: 1, createdAt } as const
  return { header, calls: [], events: timed(events), outputs: [] }
}

async function readEvents(
  file: string,
  source: EventReader,
  input: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<StreamEvent[]> {
  const events: StreamEvent[] = []
  for await (const chunk of input) for (const event of source.feed(chunk)) events.push(event)
  for (const event of source.end()) events.push(event)
  if (source.fault !== undefined) {
    throw new UsageError(`${file}: line ${source.fault.at}: ${source.fault.reason}`)
  }
  if (events.length === 0) throw new UsageError(`${file} contains no events`)
  return events
}

/** An unreadable file is an error of its user. */
async function decode<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof TurnstreamError)) throw error
    throw new UsageError(`${file}: ${error.message} (${error.code})`)
  }
}

/** Times of events since the first one. Never decreasing: the clock may have been set. */
export function timed(events: readonly StreamEvent[]): TimedEvent[] {
  const start = events[0]?.timestamp ?? 0
  let at = 0
  return events.map((event) => {
    at = Math.max(at, event.timestamp - start)
    return { at, event }
  })
}
