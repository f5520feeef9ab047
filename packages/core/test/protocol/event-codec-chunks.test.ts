import { describe, expect, test } from 'vitest'
import { decodeChunk, EventDecoder, EventEncoder } from '../../src/protocol/event-codec.ts'
import {
  deltaOf,
  deltasOf,
  eventOf,
  ID_PREFIX,
  ITEM,
  linesOf,
  type Payload,
  parsed,
  RUN,
  stored,
  TIME,
  textsOf,
} from './event-texts.ts'

/** The texts of the parts that the templates of these tests are made of. */
const ENVELOPE = `,"trace_context":{"traceparent":""},"run_id":"${RUN}","type":"`
const DELTA = `item_delta","payload":{"type":"item_delta","item_id":"${ITEM}","delta_content":"`

describe('a line', () => {
  const first = `+0,1,${TIME},0,${ID_PREFIX.length},${ENVELOPE.length + DELTA.length},3;${ID_PREFIX}${ENVELOPE}${DELTA}"}}abcd`

  test('that defines a template has all numbers, the template and the rest', () => {
    expect(linesOf([deltaOf('abcd')])).toEqual([first])
    expect(decodeChunk(first)).toEqual([parsed(deltaOf('abcd'))])
  })

  const rows: [what: string, second: string, line: string][] = [
    ['at the same time', deltaOf('efgh', { counter: 2 }), '00efgh'],
    ['a millisecond later', deltaOf('efgh', { counter: 2, timestamp: TIME + 1 }), '01efgh'],
    ['47 ms later', deltaOf('efgh', { counter: 2, timestamp: TIME + 47 }), '0_efgh'],
    ['48 ms later', deltaOf('efgh', { counter: 2, timestamp: TIME + 48 }), '0`0efgh'],
    ['126 ms later', deltaOf('efgh', { counter: 2, timestamp: TIME + 126 }), '0`~efgh'],
    ['127 ms later', deltaOf('efgh', { counter: 2, timestamp: TIME + 127 }), '0a0efgh'],
    ['2496 ms later', deltaOf('efgh', { counter: 2, timestamp: TIME + 2496 }), '0~~efgh'],
    ['2497 ms later', deltaOf('efgh', { counter: 2, timestamp: TIME + 2497 }), '!0,1,2497;efgh'],
    ['earlier', deltaOf('efgh', { counter: 2, timestamp: TIME - 5 }), '!0,1,-5;efgh'],
    ['with the same counter', deltaOf('efgh'), '!0,0,0;efgh'],
    ['with a counter further on', deltaOf('efgh', { counter: 11 }), '!0,10,0;efgh'],
    ['with a counter from before', deltaOf('efgh', { counter: 0 }), '!0,-1,0;efgh'],
    ['without text', deltaOf('', { counter: 2 }), '00'],
    ['with an escape', deltaOf('"\n', { counter: 2 }), '00\\"\\n'],
    [
      'of another item',
      deltaOf('efgh', { counter: 2, itemId: `${ITEM}b` }),
      `+1,2,${TIME},${28 + ENVELOPE.length + DELTA.length - 19},28,${ENVELOPE.length + DELTA.length + 1},3;b","delta_content":""}}efgh`,
    ],
    [
      'of another type',
      eventOf({ type: 'heartbeat' }, { counter: 2 }),
      `+1,2,${TIME},${28 + ENVELOPE.length},28,${ENVELOPE.length},0;heartbeat","payload":{"type":"heartbeat"}}`,
    ],
    ['as it came', deltaOf('a', { timestamp: 0.5 }), deltaOf('a', { timestamp: 0.5 })],
  ]

  test.each(rows)('for an event %s is short', (_, second, line) => {
    expect(linesOf([deltaOf('abcd'), second])).toEqual([first, line])
    expect(textsOf(decodeChunk(`${first}\n${line}`))).toEqual([deltaOf('abcd'), second])
  })

  test('of the 65th template has its full number', () => {
    const items = Array.from({ length: 70 }, (_, at) => `item_${at}`)
    const records = [...items, ...items].map((itemId, at) =>
      deltaOf('x', { itemId, counter: at + 1 }),
    )
    const lines = linesOf(records)
    expect(lines[70 + 63]).toBe('o0x')
    expect(lines[70 + 64]).toBe('!64,1,0;x')
    expect(textsOf(decodeChunk(stored(lines)))).toEqual(records)
  })

  test('does not split a character between templates', () => {
    const ids = ['a😀', 'a😁', 'a😀b', 'a\ue000', 'a']
    const records = ids.map((itemId, at) => deltaOf('x', { itemId, counter: at + 1 }))
    const lines = linesOf(records)
    expect(lines.every((line) => line.startsWith('+'))).toBe(true)
    expect(textsOf(decodeChunk(stored(lines)))).toEqual(records)
  })
})

describe('a chunk', () => {
  const records = [
    eventOf({ type: 'heartbeat' }),
    ...deltasOf(['a', 'b', 'c', '😀']),
    deltaOf('odd', { timestamp: 1.5 }),
    '{"event_id":"odd","timestamp":2}',
    deltaOf('other', { itemId: 'fc_1', counter: 9 }),
    ...deltasOf(['d', 'e']),
    eventOf({ type: 'heartbeat' }, { counter: 20 }),
  ]

  test('without lines has no records', () => {
    expect(decodeChunk('')).toEqual([])
  })

  test('can be read up to any of its lines', () => {
    const lines = linesOf(records)
    for (let count = 0; count <= lines.length; count++) {
      expect(textsOf(decodeChunk(stored(lines.slice(0, count))))).toEqual(records.slice(0, count))
    }
  })

  test('may start at every record', () => {
    for (let start = 0; start <= records.length; start++) {
      const encoder = new EventEncoder()
      linesOf(records.slice(0, start), encoder)
      encoder.startChunk()
      const lines = linesOf(records.slice(start), encoder)
      expect(textsOf(decodeChunk(stored(lines)))).toEqual(records.slice(start))
    }
  })

  test('whose writer restarts in the middle and redefines templates is read to its end', () => {
    for (let start = 0; start <= records.length; start++) {
      const encoder = new EventEncoder()
      const before = linesOf(records.slice(0, start), encoder)
      encoder.startChunk()
      const lines = [...before, ...linesOf(records.slice(start), encoder)]
      expect(textsOf(decodeChunk(stored(lines)))).toEqual(records)
    }
  })

  test('continued by a second writer is read to its end', () => {
    const lines = [...linesOf(records), ...linesOf(records.toReversed())]
    expect(textsOf(decodeChunk(stored(lines)))).toEqual([...records, ...records.toReversed()])
  })

  test('may lose its last lines when its writer restarts', () => {
    const encoder = new EventEncoder()
    const kept = linesOf(records.slice(0, 4), encoder)
    linesOf(records.slice(4), encoder) // Written, but never stored.
    encoder.startChunk()
    const again = linesOf(records.slice(4), encoder)
    expect(textsOf(decodeChunk(stored([...kept, ...again])))).toEqual(records)
  })

  test('uses the redefinition of a template number', () => {
    const [one = ''] = linesOf([deltaOf('x', { itemId: 'one' })])
    const [two = ''] = linesOf([deltaOf('x', { itemId: 'two' })])
    const decoder = new EventDecoder()
    const ids = [one, '00y', two, '00y', one, '00y'].map((line) => {
      const { payload } = decoder.decode(line)
      return 'item_id' in payload ? payload.item_id : undefined
    })
    expect(ids).toEqual(['one', 'one', 'two', 'two', 'one', 'one'])
  })

  test('with more templates than records restarts by itself', () => {
    const items = Array.from({ length: 600 }, (_, at) => deltaOf('x', { itemId: `item_${at}` }))
    const lines = linesOf(items)
    expect(lines.map((line) => Number(/^\+(\d+),/.exec(line)?.[1]))).toEqual(
      items.map((_, at) => at % 256),
    )
    expect(textsOf(decodeChunk(stored(lines)))).toEqual(items)
  })

  test('ignores counter and time of events stored verbatim', () => {
    const lines = linesOf([
      deltaOf('a'),
      deltaOf('b', { timestamp: 0.5 }),
      deltaOf('c', { counter: 2 }),
    ])
    expect(lines[2]).toBe('00c')
  })
})

describe('the size', () => {
  const CHUNK = 256

  function bytesOf(records: readonly string[]): number {
    const encoder = new EventEncoder()
    let bytes = 0
    for (let start = 0; start < records.length; start += CHUNK) {
      encoder.startChunk()
      const lines = linesOf(records.slice(start, start + CHUNK), encoder)
      bytes += Buffer.byteLength(`${lines.join('\n')}\n`)
    }
    return bytes
  }

  /** Times between two tokens, 0 to `most` milliseconds, the same in every run. */
  function timesOf(count: number, most: number): number[] {
    let timestamp = TIME
    return Array.from({ length: count }, (_, at) => {
      timestamp += (at * 2_654_435_761) % (most + 1)
      return timestamp
    })
  }

  const rows: [tokens: string, most: number, perRecord: number][] = [
    ['that arrive within 40 ms', 40, 9],
    ['of a slow model', 250, 10],
    ['that stall for seconds', 2400, 10],
  ]
  test.each(rows)(
    'of 10,000 tokens of 4 characters %s is at most 2.5 times the text',
    (_, most, perRecord) => {
      const records = timesOf(10_000, most).map((timestamp, at) =>
        deltaOf(String(1000 + (at % 9000)), { counter: at + 1, timestamp }),
      )
      const bytes = bytesOf(records)
      expect(bytes).toBeLessThanOrEqual(2.5 * 40_000)
      expect(bytes / records.length).toBeLessThanOrEqual(perRecord)
    },
  )

  test('of a turn of several items adds little to their final items', () => {
    const text = 'word'.repeat(500)
    const times = timesOf(2000 + 8, 40)
    let counter = 0
    const next = (payload: Payload) => {
      counter += 1
      return eventOf(payload, { counter, timestamp: times[counter - 1] ?? 0 })
    }
    const records = ['rs_1', 'msg_2', 'fc_3', 'fc_4'].flatMap((id) => [
      next({ type: 'item_start', item_id: id, item_type: 'message' }),
      ...Array.from({ length: 500 }, () =>
        next({ type: 'item_delta', item_id: id, delta_content: 'word' }),
      ),
      next({ type: 'item_done', item_id: id, final_item: { type: 'message', id, content: text } }),
    ])
    // The text once in tokens and once more, whole, in the items.
    expect(bytesOf(records)).toBeLessThanOrEqual(2.5 * 8000 + 8000)
  })

  test('of an event without a matching template is its own', () => {
    const data = deltaOf('abcd', { timestamp: 0.5 })
    expect(bytesOf([data])).toBe(data.length + 1)
  })
})
