import { describe, expect, test } from 'vitest'
import type { StreamEvent, StreamEventType } from '../../src/index.ts'
import { decodeChunk, EventEncoder } from '../../src/protocol/event-codec.ts'
import { STREAM_EVENT_TYPES } from '../../src/schemas/stream-event.ts'
import {
  deltaOf,
  deltasOf,
  eventOf,
  ID_PREFIX,
  ITEM,
  linesOf,
  parsed,
  RUN,
  stored,
  TIME,
  textsOf,
} from './event-texts.ts'

/** Through lines and UTF-8 and back: the same events, with their fields in the same order. */
function checkSame(records: readonly string[]): string[] {
  const lines = linesOf(records)
  for (const line of lines) expect(line).not.toContain('\n')
  const events = decodeChunk(stored(lines))
  expect(events).toEqual(records.map(parsed))
  expect(textsOf(events)).toEqual(records)
  return lines
}

const isTemplated = (line: string | undefined) => line !== undefined && !/^[{"]/.test(line)

const SAMPLES: Record<StreamEventType, Record<string, unknown>> = {
  response_start: {
    response_id: RUN,
    turn_id: 'turn_1',
    thread_id: 'thread_1',
    model_id: 'm',
    provider_id: 'p',
    created_at: TIME,
  },
  item_start: { item_id: ITEM, item_type: 'message', initial_content: '', origin: 'agent' },
  item_delta: { item_id: ITEM, delta_content: 'abcd' },
  item_done: {
    item_id: ITEM,
    final_item: { type: 'message', id: ITEM, content: 'abcd', origin: 'agent' },
  },
  item_error: { item_id: ITEM, error: { code: 'TIMEOUT', message: 'too slow' } },
  item_cancelled: { item_id: ITEM, reason: 'not needed' },
  usage_update: {
    response_id: RUN,
    usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
  },
  heartbeat: {},
  response_done: { response_id: RUN, status: 'complete', finish_reason: 'stop' },
  response_error: { response_id: RUN, error: { code: 'STREAM_ERROR', message: 'gone' } },
  turn_aborted_by_user: { turn_id: 'turn_1', reason: 'the user "left"' },
}

describe('the events of a turn', () => {
  test.each(STREAM_EVENT_TYPES)('%s is restored from a template', (type) => {
    const records = [1, 2, 3].map((counter) =>
      eventOf({ type, ...SAMPLES[type] }, { counter, timestamp: TIME + counter }),
    )
    const lines = checkSame(records)
    expect(lines.every(isTemplated)).toBe(true)
    expect(lines[1]?.length).toBeLessThan((records[1]?.length ?? 0) - 150)
  })

  test('of every type in sequence share the template of their envelope', () => {
    const records = STREAM_EVENT_TYPES.map((type, at) =>
      eventOf({ type, ...SAMPLES[type] }, { counter: at + 1, timestamp: TIME + at }),
    )
    const definitions = checkSame(records).filter((line) => line.startsWith('+'))
    // One for the envelope, one for the text of the item.
    expect(definitions).toHaveLength(2)
  })

  test('with alternating items have one template per item', () => {
    const items = ['rs_reasoning', 'msg_answer', 'fc_first_call', 'fc_second_call']
    const records = Array.from({ length: 40 }, (_, at) =>
      deltaOf(`{"q":${at}}`, { itemId: items[at % 4] ?? '', counter: at + 1 }),
    )
    const lines = checkSame(records)
    expect(lines.slice(0, 4).every((line) => line.startsWith('+'))).toBe(true)
    expect(lines.slice(4).every((line) => /^[0-3]0\{\\"q\\":\d+\}$/.test(line))).toBe(true)
  })

  test('of several runs and traces may be in one log', () => {
    const runs = [RUN, 'run of another kind', '0192f0c1-2345-7abc-9def-ba9876543210']
    const traces = [{ traceparent: '' }, { traceparent: '00-ab-cd-01', tracestate: 'v=1,w=2' }]
    const records = Array.from({ length: 30 }, (_, at) =>
      deltaOf(`t${at}`, {
        runId: runs[at % 3] ?? '',
        trace: traces[at % 2] ?? {},
        counter: 1 + Math.floor(at / 3),
        timestamp: TIME + at,
      }),
    )
    const lines = checkSame(records)
    expect(lines.filter((line) => line.startsWith('+'))).toHaveLength(6)
    expect(lines.every(isTemplated)).toBe(true)
  })

  test('may have ids not derived from their run', () => {
    const other = ID_PREFIX.replace(/^./, 'f')
    const records = deltasOf(['a', 'b', 'c', 'd']).map((data, at) =>
      at % 2 === 0 ? data : data.replace(ID_PREFIX, other),
    )
    const lines = checkSame(records)
    expect(lines.map((line) => line[0])).toEqual(['+', '+', '0', '1'])
  })

  test('keep the other fields of a delta', () => {
    const more = { type: 'item_delta', item_id: ITEM, delta_content: 'a', logprobs: [0.5] }
    const strings = { type: 'item_delta', item_id: ITEM, delta_content: 'a', note: 'x' }
    const turned = { type: 'item_delta', delta_content: 'a', item_id: ITEM }
    const none = { type: 'item_delta', item_id: ITEM, note: 'no text' }
    const payloads = [more, strings, turned, none, more, strings]
    expect(checkSame(payloads.map((payload) => eventOf(payload))).every(isTemplated)).toBe(true)
  })

  test('of unknown types are also restored', () => {
    checkSame([eventOf({ type: 'item_delta_v2' }), eventOf({ type: '' }), eventOf({ type: '"' })])
  })
})

describe('the text of a delta', () => {
  const texts: [what: string, text: string][] = [
    ['nothing', ''],
    ['one character', 'a'],
    ['JSON', '{"a":[1,"b"]}'],
    ['escapes', '\\ \\n \\" \\u0041 / \b\f\t\r'],
    ['line breaks', 'a\nb\r\nc\n'],
    ['separators of lines that JSON does not escape', 'a\u2028b\u2029c\u0085d\u007f'],
    ['controls', '\u0000\u0001\u001f'],
    ['accents and scripts', 'é ü ß 漢字 한글 עברית'],
    ['emoji', '😀👨‍👩‍👧‍👦🏳️‍🌈'],
    ['a byte order mark', '\ufeffa\ufeff'],
    ['lone surrogates, which JSON.stringify escapes', '\ud800 a \udc00'],
    ['a pair of surrogates the wrong way round', '\udc00\ud800'],
    ['noncharacters', '\uffff\ufffe'],
    ['a definition', '+0,1,1731700000123,0,28,95,3;abc'],
    ['a long line', '!0,1,0;abc'],
    ['a short line', '00abc'],
    ['the end of an event', '"}}'],
    ['the beginning of a text', '"delta_content":"'],
    ['an event', deltaOf('inner')],
    ['a type', ',"type":"item_delta","payload":{"delta_content":"x"}}'],
  ]

  test.each(texts)('may be %s', (_, text) => {
    const lines = checkSame(deltasOf([text, 'between', text, text]))
    expect(lines.every(isTemplated)).toBe(true)
  })

  test('may be a megabyte', () => {
    const texts = ['a'.repeat(1 << 20), '😀'.repeat(1 << 19), 'b', '\n'.repeat(1 << 19)]
    const lines = checkSame(deltasOf(texts))
    expect(lines.map((line) => line.length - JSON.stringify(texts[0]).length)[1]).toBeLessThan(50)
  })
})

describe('an event that no template reproduces', () => {
  const delta = deltaOf('abcd')
  const at = (timestamp: number) => deltaOf('abcd', { timestamp })
  const withId = (id: string) => JSON.stringify({ ...parsed(delta), event_id: id })
  const { type: _type, ...typeless } = parsed(delta)

  const rows: [what: string, data: string][] = [
    ['a timestamp with a fraction', at(1731700000123.5)],
    ['a negative timestamp', at(-5)],
    ['a timestamp past the safe integers', at(2 ** 53)],
    ['a timestamp of thirty digits', at(1e30)],
    ['a counter in capitals', withId(`${ID_PREFIX}000000AB`)],
    ['a counter that is none', withId(`${ID_PREFIX}0000000g`)],
    ['an id of seven characters', withId('0000001')],
    ['an empty id', withId('')],
    ['an id with a control character', withId(`\n${ID_PREFIX}00000001`)],
    ['an id with a quote', withId('a"00000001')],
    ['an id that ends with a quote', withId('00000001"')],
    ['a lone surrogate in its id', withId(`\udc00${ID_PREFIX}00000001`)],
    ['another order of keys', `{"run_id":"r",${delta.slice(1).replace(`"run_id":"${RUN}",`, '')}`],
    ['another field', `${delta.slice(0, -1)},"more":1}`],
    ['another field in front', `{"more":1,${delta.slice(1)}`],
    ['the id last', `{"timestamp":5,"event_id":"${ID_PREFIX}00000001"}`],
    ['nothing but an envelope', `{"event_id":"${ID_PREFIX}00000001","timestamp":5}`],
    ['no type', JSON.stringify(typeless)],
    ['a very long trace', deltaOf('a', { trace: { traceparent: 'x'.repeat(4100) } })],
  ]

  test.each(rows)('because of %s is stored as JSON', (_, data) => {
    const next = deltasOf(['a', 'b', 'c'])
    const lines = checkSame([data, ...next.slice(0, 2), data, ...next.slice(2), data])
    expect(lines.map(isTemplated)).toEqual([false, true, true, false, true, false])
    expect(lines[0]).toBe(data)
    expect(lines[2]).toBe('07b')
    expect(lines[4]).toBe('07c')
  })
})

describe('an event built differently', () => {
  test('keeps the order of its fields', () => {
    const { event_id, timestamp, trace_context, run_id, type, payload } = parsed(deltaOf('a'))
    const turned = { payload, type, run_id, trace_context, timestamp, event_id } as StreamEvent
    const line = new EventEncoder().encode(turned)
    expect(line).toBe(JSON.stringify(turned))
  })

  test('loses only undefined fields', () => {
    const events = [
      { ...parsed(deltaOf('a')), more: undefined },
      parsed(deltaOf('b', { counter: 2 })),
      {
        ...parsed(deltaOf('c', { counter: 3 })),
        payload: { ...parsed(deltaOf('c')).payload, more: undefined },
      },
      parsed(deltaOf('d', { counter: 4 })),
    ] as StreamEvent[]
    const encoder = new EventEncoder()
    const lines = events.map((event) => encoder.encode(event))
    expect(textsOf(decodeChunk(stored(lines)))).toEqual(textsOf(events))
  })

  test('with its own trace object shares the template of an equal one', () => {
    const lines = linesOf(deltasOf(['a', 'b', 'c']))
    expect(lines.slice(1)).toEqual(['07b', '07c'])
    const trace = { traceparent: '' }
    const events = deltasOf(['a', 'b', 'c']).map((data) => ({
      ...parsed(data),
      trace_context: trace,
    }))
    const encoder = new EventEncoder()
    expect(events.map((event) => encoder.encode(event))).toEqual(lines)
  })

  test('with another run, trace or id prefix is not confused with the latest one', () => {
    const trace = { traceparent: 'x' }
    const base = parsed(deltaOf('a'))
    const events = [
      { ...base, trace_context: trace },
      { ...base, trace_context: trace, run_id: 'other' },
      { ...base, trace_context: trace, event_id: `x${base.event_id}` },
      { ...base, trace_context: trace, event_id: base.event_id.replace(/^./, 'x') },
      { ...base, trace_context: { traceparent: 'y' } },
      { ...base, trace_context: trace },
    ] as StreamEvent[]
    const encoder = new EventEncoder()
    const lines = events.map((event) => encoder.encode(event))
    expect(decodeChunk(stored(lines))).toEqual(events)
  })
})

describe('counters and timestamps', () => {
  const counters: [what: string, counters: number[]][] = [
    ['in order', [1, 2, 3, 4]],
    ['from zero', [0, 1, 2]],
    ['that jump', [1, 5, 6, 4000000000, 4000000001]],
    ['that go back', [100, 99, 1, 2, 0]],
    ['that stay', [7, 7, 7]],
    ['to the last of eight digits', [0xfffffffe, 0xffffffff, 0, 0xffffffff]],
    ['past eight digits', [0xffffffff, 0x100000000, 0x100000001, 0xffffffff]],
  ]
  test.each(counters)('counters %s are restored', (_, values) => {
    const lines = checkSame(values.map((counter) => deltaOf('abcd', { counter })))
    expect(lines.every(isTemplated)).toBe(true)
  })

  const max = Number.MAX_SAFE_INTEGER
  const times: [what: string, times: number[]][] = [
    ['that are equal', [TIME, TIME, TIME]],
    ['that go back', [TIME, TIME - 1, TIME - 100_000, 0]],
    ['from zero to the last safe integer and back', [0, max, 0, max]],
    ['at every border of a step', [0, 47, 47 + 48, 47 + 48 + 2496, 47 + 48 + 2496 + 2497]],
  ]
  test.each(times)('timestamps %s are restored', (_, values) => {
    const lines = checkSame(
      values.map((timestamp, at) => deltaOf('abcd', { counter: at + 1, timestamp })),
    )
    expect(lines.every(isTemplated)).toBe(true)
  })

  test('steps of all lengths up to five seconds are restored', () => {
    let timestamp = TIME
    const records = Array.from({ length: 5000 }, (_, step) => {
      timestamp += step
      return deltaOf('x', { counter: step + 1, timestamp })
    })
    const lengths = new Set(
      checkSame(records)
        .slice(1)
        .map((line) => line.length),
    )
    // One character of text after the template and one or two for the step, or all numbers in full.
    expect([...lengths]).toEqual([3, 4, '!0,1,2497;x'.length])
  })

  test('timestamps of both kinds may alternate', () => {
    const values = [TIME, TIME + 0.5, TIME + 1, TIME + 1.25, 1e21, 1e300, TIME + 2]
    checkSame(values.map((timestamp, at) => deltaOf('a', { counter: at + 1, timestamp })))
  })
})
