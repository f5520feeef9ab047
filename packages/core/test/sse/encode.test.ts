import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeComment, encodeSse, type SseFrame } from '../../src/sse/encode.ts'
import { readChunks } from './cuts.ts'
import { interpret } from './reference.ts'

function linesOf(values: readonly string[]): string {
  return `${values.map((value) => `data: ${value}\n`).join('')}\n`
}

describe('a frame', () => {
  test.each<[string, SseFrame, string]>([
    ['only data', { data: '{"a":1}' }, 'data: {"a":1}\n\n'],
    ['an id and data', { id: '17', data: 'a' }, 'id: 17\ndata: a\n\n'],
    ['a name', { event: 'append', data: 'a' }, 'event: append\ndata: a\n\n'],
    ['only an id', { id: '17' }, 'id: 17\n\n'],
    ['empty data, which is dispatched', { data: '' }, 'data: \n\n'],
    ['an empty id, which resets', { id: '', data: 'a' }, 'id: \ndata: a\n\n'],
    ['an empty name', { event: '', data: 'a' }, 'data: a\n\n'],
    ['a reconnection time', { retry: 1000 }, 'retry: 1000\n\n'],
    ['a comment', { retry: 5, comment: 'a\r\nb' }, 'retry: 5\n: a\n: b\n\n'],
    ['no reconnection time at all', { retry: 0 }, 'retry: 0\n\n'],
    [
      'every line break of the data',
      { data: 'a\nb\rc\r\nd\n\re\n' },
      linesOf(['a', 'b', 'c', 'd', '', 'e', '']),
    ],
    ['nothing', {}, '\n'],
  ])('with %s', (_name, frame, text) => {
    expect(encodeSse(frame)).toBe(text)
  })

  test.each(['\n', '\r', '\r\n', '\0'])('rejects %j in an id and in a name', (character) => {
    for (const value of [character, `a${character}`, `${character}b`, `a${character}data: b`]) {
      expect(() => encodeSse({ id: value, data: 'a' })).toThrow(RangeError)
      expect(() => encodeSse({ event: value, data: 'a' })).toThrow(RangeError)
    }
  })

  test.each([-1, 1.5, 1e21, Infinity, Number.NaN])('rejects a delay of %d ms', (retry) => {
    expect(() => encodeSse({ retry })).toThrow(RangeError)
  })

  test.each([
    'a\n\nevent: evil\ndata: b',
    'a\r\rid: 666\rdata: b',
    'a\r\n\r\nretry: 1\r\ndata: b',
    '\n\ndata: b\n\n',
    'id: 666',
    '\uFEFFdata: b',
  ])('carries %j as data and nothing else', (data) => {
    const { events, lastEventId, retryMs } = readChunks([encodeSse({ id: '1', data })])
    expect(events).toEqual([{ event: '', data: data.replaceAll(/\r\n?/g, '\n'), id: '1' }])
    expect({ lastEventId, retryMs }).toEqual({ lastEventId: '1', retryMs: undefined })
  })
})

describe('a comment', () => {
  test.each([
    ['keep-alive', ': keep-alive\n\n'],
    ['', ': \n\n'],
    ['a\nb\rc\r\nd', ': a\n: b\n: c\n: d\n\n'],
    ['a\n\ndata: evil\n\n', ': a\n: \n: data: evil\n: \n: \n\n'],
  ])('of %j', (text, expected) => {
    expect(encodeComment(text)).toBe(expected)
  })
})

const awkward = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      '\n',
      '\r',
      '\r\n',
      ' ',
      ':',
      '\0',
      '\uFEFF',
      '\u2028',
      'data: ',
      'id',
      '€',
      '😀',
    ),
    fc.string({ unit: 'grapheme', maxLength: 3 }),
  ),
})
const oneLine = awkward.map((text) => text.replaceAll(/[\r\n\0]/g, ''))
const frames: fc.Arbitrary<SseFrame> = fc.record(
  { id: oneLine, event: oneLine, data: awkward, retry: fc.maxSafeNat() },
  { requiredKeys: [] },
)

test('encoded frames decode to the same frames, with comments between them', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(frames, awkward)), (sent) => {
      const stream = sent.map(([frame, comment]) => encodeSse(frame) + encodeComment(comment))
      let lastEventId = ''
      let retryMs: number | undefined
      const events = sent.flatMap(([{ id, event = '', data, retry }]) => {
        lastEventId = id ?? lastEventId
        retryMs = retry ?? retryMs
        return data === undefined
          ? []
          : [{ event, data: data.replaceAll(/\r\n?/g, '\n'), id: lastEventId }]
      })
      const expected = { events, lastEventId, retryMs }
      expect(readChunks(stream)).toEqual(expected)
      expect(interpret(stream.join(''))).toEqual(expected)
    }),
  )
})
