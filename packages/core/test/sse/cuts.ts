import * as fc from 'fast-check'
import { SseDecoder, type SseDecoderOptions, type SseEvent } from '../../src/index.ts'

type Chunk = Uint8Array | string

/** Everything that can be told about a stream once it is over. */
export interface Reading {
  events: SseEvent[]
  lastEventId: string
  retryMs: number | undefined
}

/** Reads a stream that arrives in these chunks. */
export function readChunks(chunks: Iterable<Chunk>, options?: SseDecoderOptions): Reading {
  const decoder = new SseDecoder(options)
  const events: SseEvent[] = []
  for (const chunk of chunks) events.push(...decoder.feed(chunk))
  events.push(...decoder.end())
  return { events, lastEventId: decoder.lastEventId, retryMs: decoder.retryMs }
}

export function bytesOf(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

/** Every way to cut it in two, and one unit at a time, also with empty chunks between. */
export function* everyCut<T extends Chunk>(whole: T): Generator<T[]> {
  yield [whole]
  for (let cut = 0; cut <= whole.length; cut++) yield [part(whole, 0, cut), part(whole, cut)]
  const units = Array.from({ length: whole.length }, (_, at) => part(whole, at, at + 1))
  yield units
  yield units.flatMap((unit) => [part(whole, 0, 0), unit])
}

/** Cuts at these places, whatever their order; a place past the end counts from the start again. */
export function cutAt<T extends Chunk>(whole: T, places: readonly number[]): T[] {
  const cuts = places.map((place) => place % (whole.length + 1)).toSorted((a, b) => a - b)
  return [...cuts, whole.length].map((cut, index) => part(whole, cuts[index - 1] ?? 0, cut))
}

export const places = fc.array(fc.nat(), { maxLength: 12 })

function part<T extends Chunk>(whole: T, start: number, end?: number): T {
  return whole.slice(start, end) as T
}
