import type { Cassette, TimedEvent } from '@turnstream/core/internal/cassettes/cassette'
import { readCassette } from '@turnstream/core/internal/cassettes/decode'
import { cassetteEvents } from '@turnstream/core/internal/cassettes/layers'
import { V2Reader } from '@turnstream/core/internal/formats/v2/read'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { jsonLine } from '@turnstream/core/internal/protocol/json'
import { CASSETTE_FORMAT } from '@turnstream/core/internal/protocol/names'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { readInput, UsageError } from '../command.ts'
import type { Terminal } from '../terminal.ts'

/** Every encoder writes `format` first. */
const CASSETTE_START = Buffer.from(`{"format":"${CASSETTE_FORMAT}"`)

interface Peeked {
  readonly isCassette: boolean
  readonly input: AsyncIterable<Uint8Array>
}

/** Reads enough of an input to recognise a cassette, and returns all of it. Works for pipes. */
async function peek(input: AsyncIterable<Uint8Array>): Promise<Peeked> {
  const iterator = input[Symbol.asyncIterator]()
  const head: Uint8Array[] = []
  let bytes = 0
  while (bytes < CASSETTE_START.length) {
    const { done, value } = await iterator.next()
    if (done) break
    head.push(value)
    bytes += value.length
  }
  const start = Buffer.concat(head)
  async function* all(): AsyncGenerator<Uint8Array> {
    yield start
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  const isCassette = start.subarray(0, CASSETTE_START.length).equals(CASSETTE_START)
  return { isCassette, input: all() }
}

/** Converts a cassette to its events as JSON lines. Passes other inputs on. */
export async function* eventLines(
  input: AsyncIterable<Uint8Array>,
  file: string,
): AsyncGenerator<Uint8Array> {
  const peeked = await peek(input)
  if (!peeked.isCassette) return yield* peeked.input
  const cassette = await decode(file, () => readCassette(peeked.input))
  const events = await decode(file, async () => cassetteEvents(cassette))
  for (const { event } of events) yield Buffer.from(jsonLine(event))
}

/** Reads a cassette, or StreamEvents as a cassette. UsageError if the file is neither. */
export async function readCassetteFile(file: string, terminal: Terminal): Promise<Cassette> {
  const { isCassette, input } = await peek(readInput(file, terminal))
  return isCassette ? decode(file, () => readCassette(input)) : fromEvents(file, input)
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

async function fromEvents(file: string, input: AsyncIterable<Uint8Array>): Promise<Cassette> {
  const source = new V2Reader()
  const events: StreamEvent[] = []
  for await (const chunk of input) for (const event of source.feed(chunk)) events.push(event)
  for (const event of source.end()) events.push(event)
  if (source.fault !== undefined) {
    throw new UsageError(`${file}: line ${source.fault.at}: ${source.fault.reason}`)
  }
  const [first] = events
  if (first === undefined) throw new UsageError(`${file} contains no events`)
  return {
    header: { format: CASSETTE_FORMAT, version: 1, createdAt: first.timestamp },
    calls: [],
    events: timed(events),
    outputs: [],
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
