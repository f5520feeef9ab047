import { createParser } from 'eventsource-parser'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { SseDecoder, type SseDecoderOptions } from '../../src/index.ts'
import { bytesOf, cutAt, places, readChunks } from './cuts.ts'
import { interpret } from './reference.ts'

/** Where streams go wrong: line breaks, almost-fields, spaces, characters of every length. */
const pieces = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('\n', '\r', '\r\n', '\n\n', '\r\r', '\r\n\r\n') },
  { weight: 4, arbitrary: fc.constantFrom('data', 'data:', 'data: ', 'data: {"a":1}\n\n') },
  { weight: 3, arbitrary: fc.constantFrom('event', 'event:', 'event: a', 'id', 'id:', 'id: 1') },
  { weight: 2, arbitrary: fc.constantFrom('retry', 'retry:', 'retry: 7', ':', ' ', ': c') },
  { weight: 1, arbitrary: fc.constantFrom('dat', 'eventx', 'ids: ', 'x', '\0', 'é', '€', '😀') },
  { weight: 1, arbitrary: fc.constant('\uFEFF') },
  { weight: 1, arbitrary: fc.string({ unit: 'grapheme', maxLength: 20 }) },
)
const streams = fc.array(pieces, { maxLength: 40 }).map((all) => all.join(''))

const RUNS = { numRuns: caseCount(2000) }

describe('any stream', () => {
  test('is decoded by the standard, however its bytes are split', () => {
    fc.assert(
      fc.property(streams, places, (stream, cuts) => {
        expect(readChunks(cutAt(bytesOf(stream), cuts))).toEqual(interpret(stream))
      }),
      RUNS,
    )
  })

  test('is decoded by the standard, however its text is split', () => {
    fc.assert(
      fc.property(streams, places, (stream, cuts) => {
        expect(readChunks(cutAt(stream, cuts))).toEqual(interpret(stream))
      }),
      RUNS,
    )
  })

  test('of arbitrary bytes is decoded like its text', () => {
    const bytes = fc.array(fc.oneof(fc.uint8Array(), streams.map(bytesOf))).map(concatenated)
    fc.assert(
      fc.property(bytes, places, (stream, cuts) => {
        const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(stream)
        expect(readChunks(cutAt(stream, cuts))).toEqual(interpret(text))
      }),
      RUNS,
    )
  })

  test('gives the events that eventsource-parser gives', () => {
    fc.assert(
      fc.property(streams, places, (stream, cuts) => {
        // It does not know the byte order mark of a text, and waits for what follows a CR.
        const text = `${stream.replaceAll('\uFEFF', '')}\n`
        const { events, retryMs } = readChunks(cutAt(bytesOf(text), cuts))
        const theirs = readByRival(cutAt(text, cuts))
        expect(events.map(({ event, data }) => ({ event, data }))).toEqual(
          theirs.events.map(({ event = '', data }) => ({ event, data })),
        )
        expect(retryMs).toBe(theirs.retryMs)
        // It tells an id only with the event that carries it.
        for (const [index, { id }] of theirs.events.entries()) {
          if (id !== undefined) expect(events[index]?.id).toBe(id)
        }
      }),
      RUNS,
    )
  })

  test('stops at a bound at the same place, however it is split', () => {
    const options = fc.record({
      maxLineChars: fc.integer({ min: 1, max: 20 }),
      maxEventChars: fc.integer({ min: 1, max: 20 }),
      flushOnEnd: fc.boolean(),
    })
    fc.assert(
      fc.property(streams, options, places, (stream, limits, cuts) => {
        const whole = readUntilError([stream], limits)
        expect(readUntilError(cutAt(stream, cuts), limits)).toEqual(whole)
        expect(readUntilError(cutAt(bytesOf(stream), cuts), limits)).toEqual(whole)
      }),
      RUNS,
    )
  })

  test('gives no more with flushOnEnd than one event at the end', () => {
    fc.assert(
      fc.property(streams, (stream) => {
        const { events } = readChunks([stream])
        const flushed = readChunks([stream], { flushOnEnd: true }).events
        expect(flushed.slice(0, events.length)).toEqual(events)
        expect(flushed.length - events.length).toBeLessThanOrEqual(1)
        if (flushed.length > events.length) {
          expect(interpret(`${stream}\n\n`).events).toEqual(flushed)
        }
      }),
      RUNS,
    )
  })
})

function readByRival(chunks: readonly string[]) {
  const events: { id?: string | undefined; event?: string | undefined; data: string }[] = []
  let retryMs: number | undefined
  const parser = createParser({
    onEvent: (event) => events.push(event),
    onRetry: (ms) => {
      retryMs = ms
    },
  })
  for (const chunk of chunks) parser.feed(chunk)
  return { events, retryMs }
}

function readUntilError(chunks: readonly (Uint8Array | string)[], options: SseDecoderOptions) {
  const decoder = new SseDecoder(options)
  const events = []
  try {
    for (const chunk of chunks) events.push(...decoder.feed(chunk))
    events.push(...decoder.end())
    return { events, error: undefined }
  } catch (error) {
    return { events, error: String(error) }
  }
}

function concatenated(parts: readonly Uint8Array[]): Uint8Array {
  return new Uint8Array(parts.flatMap((part) => [...part]))
}
