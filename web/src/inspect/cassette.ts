import { type Cassette, encodeCassette } from '../../../packages/core/src/cassettes/cassette.ts'
import { readCassette } from '../../../packages/core/src/cassettes/decode.ts'
import { cassetteEvents } from '../../../packages/core/src/cassettes/layers.ts'
import { CASSETTE_FORMAT, CASSETTE_VERSION } from '../../../packages/core/src/protocol/names.ts'
import { Recording } from './recording.ts'

/** Reads a cassette from disk. Nothing of it leaves the page. Throws TurnstreamError. */
export async function openCassette(file: Blob): Promise<Recording> {
  const cassette = await readCassette(chunksOf(file))
  const recording = new Recording(vendorChunks(cassette))
  for (const [index, { at, event }] of cassetteEvents(cassette).entries()) {
    recording.add(`1-${index + 1}`, event, at)
  }
  return recording
}

/** Not all browsers can iterate over a stream. */
async function* chunksOf(file: Blob): AsyncGenerator<Uint8Array> {
  const reader = file.stream().getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    yield value
  }
}

function vendorChunks({ calls }: Cassette) {
  return calls.flatMap(({ number, chunks }) => {
    const utf8 = new TextDecoder()
    return chunks.map(({ at, bytes }) => ({
      call: number,
      at,
      text: utf8.decode(bytes, { stream: true }),
    }))
  })
}

/** Saves the events of a recording, and the snapshots computed from them, as a cassette. */
export function exportCassette(recording: Recording, name: string): void {
  const { events, times, emissions } = recording
  const header = {
    format: CASSETTE_FORMAT,
    version: CASSETTE_VERSION,
    createdAt: events[0]?.timestamp ?? 0,
    turnId: name,
  } as const
  const lines = encodeCassette({
    header,
    calls: [],
    events: events.map((event, index) => ({ event, at: times[index] ?? 0 })),
    outputs: emissions.map(({ output, at }) => ({ output, at })),
  })
  const url = URL.createObjectURL(new Blob([...lines], { type: 'application/jsonl' }))
  const link = Object.assign(document.createElement('a'), {
    href: url,
    download: `${name}.cassette.jsonl`,
  })
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 0)
}
