import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { type StreamEvent, TurnstreamError } from '../../src/index.ts'
import {
  checkEnvelope,
  decodeChunk,
  EventDecoder,
  EventEncoder,
} from '../../src/protocol/event-codec.ts'
import { deltaOf, eventOf, linesOf, parsed, stored, TIME, textsOf } from './event-texts.ts'

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
      .tuple(texts, timestamps)
      .map(([event_id, timestamp]) =>
        JSON.stringify({ event_id, timestamp, run_id: 'r', type: 'x' }),
      ),
  },
)
const logs = fc.array(events, { maxLength: 30 })

const RUNS = { numRuns: caseCount(1500) }

/** Of events their JSON is compared: it tells -0 from 0 no more than a store does. */
function check(lines: readonly string[], records: readonly string[]): void {
  expect(textsOf(decodeChunk(stored(lines)))).toEqual(records)
}

describe('any log', () => {
  test('is restored through lines, UTF-8 and chunks, wherever these start', () => {
    fc.assert(
      fc.property(logs, fc.array(fc.nat({ max: 30 }), { maxLength: 4 }), (records, starts) => {
        const encoder = new EventEncoder()
        const chunks: string[][] = []
        for (const [at, data] of records.entries()) {
          if (at === 0 || starts.includes(at)) {
            encoder.startChunk()
            chunks.push([])
          }
          chunks.at(-1)?.push(encoder.encode(parsed(data)))
        }
        const back = chunks.flatMap((lines) => decodeChunk(stored(lines)))
        expect(textsOf(back)).toEqual(records)
      }),
      RUNS,
    )
  })

  test('is restored when its writer restarts anywhere in a chunk', () => {
    fc.assert(
      fc.property(logs, fc.array(fc.nat({ max: 30 }), { maxLength: 4 }), (records, starts) => {
        const encoder = new EventEncoder()
        const lines = records.map((data, at) => {
          if (starts.includes(at)) encoder.startChunk()
          return encoder.encode(parsed(data))
        })
        check(lines, records)
      }),
      RUNS,
    )
  })

  test('can be read up to any of its lines', () => {
    fc.assert(
      fc.property(logs, fc.nat({ max: 30 }), (records, count) => {
        const lines = linesOf(records).slice(0, count)
        check(lines, records.slice(0, count))
      }),
      RUNS,
    )
  })

  test('has non-empty lines without line breaks that are valid UTF-8', () => {
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
  test('is an event that is restored, or is refused', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const encoder = new EventEncoder()
        const refused = refusal(() => encoder.encode(value as unknown as StreamEvent))
        if (refused === undefined) check(linesOf([JSON.stringify(value)]), [JSON.stringify(value)])
        else expect(refused).toBe('RECORD_INVALID')
      }),
      RUNS,
    )
  })

  test('is a line that gives an event with its envelope, or is corrupt', () => {
    fc.assert(
      fc.property(logs, texts, (records, line) => {
        const decoder = new EventDecoder()
        for (const known of linesOf(records)) decoder.decode(known)
        checkLine(decoder, line)
      }),
      RUNS,
    )
  })

  test('that was a damaged chunk gives events with their envelopes, or is corrupt', () => {
    fc.assert(
      fc.property(logs, mutations, (records, changes) => {
        const decoder = new EventDecoder()
        const lines = mutate(linesOf(records).join('\n'), changes).split('\n')
        lines.every((line) => checkLine(decoder, line))
      }),
      { numRuns: caseCount(4000) },
    )
  })
})

/** Whether the line could be read; then it is an event with an envelope, which can be written again. */
function checkLine(decoder: EventDecoder, line: string): boolean {
  const refused = refusal(() => {
    const event = decoder.decode(line)
    checkEnvelope(event)
    check([new EventEncoder().encode(event)], [JSON.stringify(event)])
  })
  expect(refused ?? 'STORE_CORRUPT').toBe('STORE_CORRUPT')
  return refused === undefined
}
