import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  decodeChunk,
  EventLineDecoder,
  EventLineEncoder,
  envelopeOf,
} from '../../src/log/event-lines.ts'
import { TurnstreamError } from '../../src/protocol/errors.ts'
import { deltaOf, eventOf, linesOf, parsedEnvelope, stored, TIME } from './event-texts.ts'

/** Where texts go wrong: what lines, templates and JSON are made of, and halves of characters. */
const pieces = fc.oneof(
  fc.constantFrom('"', '\\', '\n', '\r', '\ud800', '\udc00', '😀', 'é', '\u2028', '\ufeff', '\0'),
  fc.constantFrom('"}}', '"delta_content":"', ',"type":"', 'item_delta"', '","timestamp":'),
  fc.constantFrom('{"event_id":"', '+0,1,2,0,1,1,1;', '!0,1,0;', '00', '0`0', ','),
  fc.string({ unit: 'binary', maxLength: 8 }),
)
const texts = fc.array(pieces, { maxLength: 6 }).map((all) => all.join(''))

const ids = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom('msg_1', 'fc_2', 'rs_3') },
  { weight: 1, arbitrary: texts },
)
const counters = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 40 }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 0x1_0000_0001 }) },
)
const timestamps = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: TIME, max: TIME + 4000 }) },
  { weight: 1, arbitrary: fc.maxSafeInteger() },
  { weight: 1, arbitrary: fc.double({ noNaN: true, noDefaultInfinity: true }) },
)
const traces = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ traceparent: '' }) },
  { weight: 1, arbitrary: fc.record({ traceparent: texts, tracestate: texts }) },
)
const runIds = fc.oneof(
  { weight: 8, arbitrary: fc.constant('0192f0c1-2345-7abc-9def-0123456789ab') },
  { weight: 1, arbitrary: texts },
)
const parts = fc.record({
  runId: runIds,
  counter: counters,
  timestamp: timestamps,
  trace: traces,
})
const payloads = fc.oneof(
  fc.record({ type: fc.constant('item_done'), item_id: ids, final_item: fc.jsonValue() }),
  fc.record({ type: fc.constant('item_delta'), item_id: ids, delta_content: fc.jsonValue() }),
  fc.record({ type: texts, content: texts }),
  fc.constant({ type: 'heartbeat' }),
)

const events = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(texts, ids, parts)
      .map(([text, itemId, rest]) => deltaOf(text, { itemId, ...rest })),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(payloads, parts).map(([payload, rest]) => eventOf(payload, rest)),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(texts, timestamps, fc.constantFrom(0, 2, '\t'))
      .map(([event_id, timestamp, space]) =>
        JSON.stringify({ event_id, timestamp, run_id: 'r', type: 'x' }, undefined, space),
      ),
  },
)
/** The same with lone surrogates in the text itself, which JSON allows and `JSON.stringify` avoids. */
const unescaped = events.map((data) =>
  data.replaceAll('\\ud800', '\ud800').replaceAll('\\udc00', '\udc00'),
)
const logs = fc.array(
  fc.oneof({ weight: 5, arbitrary: events }, { weight: 1, arbitrary: unescaped }),
  {
    maxLength: 30,
  },
)

const RUNS = { numRuns: 1500 }

const expected = (data: string) => ({ data, ...parsedEnvelope(data) })

describe('any log', () => {
  test('comes back byte by byte through lines, UTF-8 and chunks, wherever these begin', () => {
    fc.assert(
      fc.property(logs, fc.array(fc.nat({ max: 30 }), { maxLength: 4 }), (records, starts) => {
        const encoder = new EventLineEncoder()
        const chunks: string[][] = []
        for (const [at, data] of records.entries()) {
          if (at === 0 || starts.includes(at)) {
            encoder.startChunk()
            chunks.push([])
          }
          chunks.at(-1)?.push(encoder.encode(data))
        }
        const back = chunks.flatMap((lines) => decodeChunk(stored(lines)))
        expect(back).toEqual(records.map(expected))
      }),
      RUNS,
    )
  })

  test('comes back when its writer begins again anywhere in a chunk', () => {
    fc.assert(
      fc.property(logs, fc.array(fc.nat({ max: 30 }), { maxLength: 4 }), (records, starts) => {
        const encoder = new EventLineEncoder()
        const lines = records.map((data, at) => {
          if (starts.includes(at)) encoder.startChunk()
          return encoder.encode(data)
        })
        expect(decodeChunk(stored(lines))).toEqual(records.map(expected))
      }),
      RUNS,
    )
  })

  test('can be read up to any of its lines', () => {
    fc.assert(
      fc.property(logs, fc.nat({ max: 30 }), (records, count) => {
        const lines = linesOf(records).slice(0, count)
        expect(decodeChunk(stored(lines))).toEqual(records.slice(0, count).map(expected))
      }),
      RUNS,
    )
  })

  test('has lines without line breaks that are never empty and that UTF-8 can hold', () => {
    fc.assert(
      fc.property(logs, (records) => {
        for (const line of linesOf(records)) {
          expect(line).toMatch(/^[^\n]+$/)
          expect(stored([line])).toBe(line)
        }
      }),
      RUNS,
    )
  })
})

/** The code of what is thrown; an error of any other kind fails the test. */
function refusal(act: () => unknown): string | undefined {
  try {
    act()
  } catch (error) {
    if (error instanceof TurnstreamError) return error.code
    throw error
  }
  return undefined
}

/** A text with a piece of it replaced by another, which may be as it was. */
const mutations = fc.array(fc.tuple(fc.nat(), fc.nat({ max: 6 }), texts), {
  minLength: 1,
  maxLength: 4,
})
function mutate(text: string, changes: readonly (readonly [number, number, string])[]): string {
  let mutated = text
  for (const [place, length, piece] of changes) {
    const start = place % (mutated.length + 1)
    mutated = mutated.slice(0, start) + piece + mutated.slice(start + length)
  }
  return mutated
}

describe('any text', () => {
  test('is a record that comes back, or is refused', () => {
    fc.assert(
      fc.property(fc.oneof(texts, fc.json()), (data) => {
        const encoder = new EventLineEncoder()
        const refused = refusal(() => encoder.encode(data))
        if (refused === undefined) {
          expect(decodeChunk(stored(linesOf([data])))[0]?.data).toBe(data)
        } else {
          expect(refused).toBe('RECORD_INVALID')
        }
      }),
      RUNS,
    )
  })

  test('that was an event before it was damaged comes back, or is refused', () => {
    fc.assert(
      fc.property(events, events, mutations, (first, second, changes) => {
        const damaged = mutate(second, changes)
        const encoder = new EventLineEncoder()
        const lines = [encoder.encode(first)]
        const refused = refusal(() => lines.push(encoder.encode(damaged)))
        lines.push(encoder.encode(second))
        const records = refused === undefined ? [first, damaged, second] : [first, second]
        expect(decodeChunk(stored(lines)).map(({ data }) => data)).toEqual(records)
        expect(refused ?? 'RECORD_INVALID').toBe('RECORD_INVALID')
      }),
      RUNS,
    )
  })

  test('is a line that gives an event with its own envelope, or is corrupt', () => {
    fc.assert(
      fc.property(logs, texts, (records, line) => {
        const decoder = new EventLineDecoder()
        for (const known of linesOf(records)) decoder.decode(known)
        checkLine(decoder, line)
      }),
      RUNS,
    )
  })

  test('that was a chunk before it was damaged gives events with their envelopes, or is corrupt', () => {
    fc.assert(
      fc.property(logs, mutations, (records, changes) => {
        const decoder = new EventLineDecoder()
        const lines = mutate(linesOf(records).join('\n'), changes).split('\n')
        lines.every((line) => checkLine(decoder, line))
      }),
      { numRuns: 4000 },
    )
  })
})

/** Whether the line could be read; then what it says of its event is what the event says. */
function checkLine(decoder: EventLineDecoder, line: string): boolean {
  const refused = refusal(() => {
    const { data, ...envelope } = decoder.decode(line)
    expect(envelopeOf(data)).toEqual(envelope)
  })
  expect(refused ?? 'STORE_CORRUPT').toBe('STORE_CORRUPT')
  return refused === undefined
}
