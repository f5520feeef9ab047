import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ChatCompletionsEncoder, type StreamEvent } from '../../../src/index.ts'
import {
  call,
  delta,
  done,
  open,
  responseDone,
  start,
  thought,
  tokens,
} from '../../processor/events.ts'
import { HEAD, openCall } from './write-support.ts'

/** The stream by the fast path for text, and by the chunks. */
function both(events: readonly StreamEvent[], includeUsage: boolean) {
  const options = { ...HEAD, includeUsage }
  const fast = new ChatCompletionsEncoder(options)
  const encoder = new ChatCompletionsEncoder(options)
  const short = events.map((event) => fast.encodeSse(event)).join('')
  const chunks = events.flatMap((event) => encoder.encode(event))
  const data = [
    ...chunks.map((chunk) => JSON.stringify(chunk)),
    ...(encoder.isOver ? ['[DONE]'] : []),
  ]
  return {
    short,
    long: data.map((each) => `data: ${each}\n\n`).join(''),
    done: [fast.isOver, encoder.isOver],
  }
}

const piece = fc.oneof(fc.string({ unit: 'binary' }), fc.constantFrom('"', '\\', '","x":"', '"}}'))
const event = fc.oneof(
  fc.tuple(fc.constantFrom('a', 'r', 'f', 'b', 'no'), piece).map(([id, text]) => delta(id, text)),
  fc.constantFrom(
    open('a'),
    open('b'),
    open('r', { item_type: 'reasoning' }),
    openCall('f', 'call_1'),
    done('a', 'the end'),
    done('b', ''),
    thought('r', 'so'),
    call('f', 'call_1', '{}'),
    responseDone({ usage: tokens(1, 2) }),
  ),
)

describe('the fast path for text', () => {
  test('makes the same stream as the chunks', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 30 }), fc.boolean(), (events, includeUsage) => {
        const { short, long, done: ends } = both([start(), ...events], includeUsage)
        expect(short).toBe(long)
        expect(ends[0]).toBe(ends[1])
      }),
    )
  })

  test.each([
    ['a field after the text', { ...delta('a', 'x').payload, more: 'y' }],
    ['an id with a quotation mark', { ...delta('a"b', 'x').payload }],
  ])('with %s are read in full', (_name, payload) => {
    const id = 'item_id' in payload ? payload.item_id : ''
    const strange = { ...delta('a', 'x'), payload } as StreamEvent
    const { short, long } = both([start(), open(id), strange], false)
    expect(short).toBe(long)
    expect(short).toContain('{"content":"x"}')
  })

  test('of input items, including earlier calls, are not part of the answer', () => {
    const run_id = 'run'
    const events = [
      start(),
      { ...done('run-input-1', 'Earlier.'), run_id },
      { ...call('run-input-2', 'call_1', '{}'), run_id },
      open('a'),
      delta('a', 'Now.'),
      responseDone(),
    ]
    const { short, long } = both(events, false)
    expect(short).toBe(long)
    expect(short).not.toMatch(/Earlier|call_1/)
    expect(short).toContain('Now.')
  })
})
