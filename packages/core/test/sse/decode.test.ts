import { describe, expect, test } from 'vitest'
import { SseDecoder } from '../../src/index.ts'
import { bytesOf, everyCut, readChunks } from './cuts.ts'
import { FIXTURES } from './fixtures.ts'
import { interpret } from './reference.ts'

const BREAKS = { LF: '\n', CR: '\r', CRLF: '\r\n' }

describe.each(FIXTURES)('$name', ({ stream, events, lastEventId = '', retryMs }) => {
  const expected = { events, lastEventId, retryMs }

  test('follows the standard', () => {
    expect(interpret(stream)).toEqual(expected)
  })

  test('is the same at every split of its bytes', () => {
    for (const chunks of everyCut(bytesOf(stream))) expect(readChunks(chunks)).toEqual(expected)
  })

  test('is the same at every split of its text', () => {
    for (const chunks of everyCut(stream)) expect(readChunks(chunks)).toEqual(expected)
  })

  test.each(Object.entries(BREAKS))('is the same with %s for every LF', (_name, lineBreak) => {
    // A CR before or after an LF would make another text of it.
    const rewritten = stream.includes('\r') ? stream : stream.replaceAll('\n', lineBreak)
    for (const chunks of everyCut(bytesOf(rewritten))) expect(readChunks(chunks)).toEqual(expected)
  })
})

describe('line breaks', () => {
  const names = Object.keys(BREAKS) as (keyof typeof BREAKS)[]
  const matrix = names.flatMap((a) => names.flatMap((b) => names.map((c) => [a, b, c] as const)))

  test.each(matrix)('%s between lines, %s and %s at the end of a block', (a, b, c) => {
    const text = `data: 1${BREAKS[a]}data: 2${BREAKS[b]}${BREAKS[c]}data: 3${BREAKS[b]}${BREAKS[c]}`
    // CR LF is one line break, however the two came to stand together.
    const blocksEnd = !(b === 'CR' && c === 'LF')
    const whole = [{ event: '', data: '1\n2', id: '' }]
    const expected = blocksEnd ? [...whole, { event: '', data: '3', id: '' }] : []
    for (const chunks of everyCut(bytesOf(text)))
      expect(readChunks(chunks).events).toEqual(expected)
  })

  test('an event is returned with the line break that ends it, not with the next chunk', () => {
    for (const end of ['\n\n', '\r\r', '\r\n\r']) {
      expect(new SseDecoder().feed(`data: a${end}`)).toHaveLength(1)
    }
  })

  test('the line feed of a CRLF may arrive in its own chunk, after an empty one', () => {
    const chunks = ['data: a\r', '', '\n', 'data: b\r', '\n', '\r', '\n']
    expect(readChunks(chunks).events.map(({ data }) => data)).toEqual(['a\nb'])
  })
})

describe('bytes that are not UTF-8', () => {
  test.each([
    { name: 'a continuation byte by itself', bytes: [0x80], text: '\uFFFD' },
    { name: 'two of them', bytes: [0x80, 0xbf], text: '\uFFFD\uFFFD' },
    { name: 'a lead byte by itself', bytes: [0xe2], text: '\uFFFD' },
    { name: 'a character without its last byte', bytes: [0xe2, 0x82], text: '\uFFFD' },
    { name: 'four bytes without the last', bytes: [0xf0, 0x9f, 0x98], text: '\uFFFD' },
    { name: 'bytes that never occur', bytes: [0xff, 0xfe, 0xc0], text: '\uFFFD\uFFFD\uFFFD' },
    { name: 'a surrogate', bytes: [0xed, 0xa0, 0x80], text: '\uFFFD\uFFFD\uFFFD' },
    { name: 'too long a form of /', bytes: [0xc0, 0xaf], text: '\uFFFD\uFFFD' },
    { name: 'a lead byte before a character', bytes: [0xe2, 0xc3, 0xa9], text: '\uFFFDé' },
  ])('$name: replaced, the same at every split', ({ bytes, text }) => {
    const stream = new Uint8Array([
      ...bytesOf('data: a'),
      ...bytes,
      ...bytesOf('b\n\ndata: '),
      ...bytes,
      ...bytesOf('\n\n'),
    ])
    for (const chunks of everyCut(stream)) {
      const { events } = readChunks(chunks)
      expect(events.map(({ data }) => data)).toEqual([`a${text}b`, text])
    }
  })

  test('text after half a character: the half is replaced', () => {
    const chunks = [bytesOf('data: €').slice(0, -1), 'x\n\n', bytesOf('data: €\n\n')]
    expect(readChunks(chunks).events.map(({ data }) => data)).toEqual(['\uFFFDx', '€'])
  })

  test('a long chunk after one that was not ASCII', () => {
    const long = 'é€😀'.repeat(500)
    const chunks = [long, 'a', long, long].map((data) => bytesOf(`data: ${data}\n\n`))
    const sent = [long, 'a', long, long]
    expect(readChunks(chunks).events.map(({ data }) => data)).toEqual(sent)
  })

  test('a chunk is not retained: its memory may be reused', () => {
    const decoder = new SseDecoder()
    const memory = bytesOf('data: €€')
    decoder.feed(memory.subarray(0, -1))
    const last = memory.slice(-1)
    memory.fill(0)
    decoder.feed(last)
    expect(decoder.feed('\n\n')).toEqual([{ event: '', data: '€€', id: '' }])
  })
})

describe('a reconnection time', () => {
  test('that is too large for a number is clamped', () => {
    expect(readChunks([`retry: ${'9'.repeat(400)}\n`]).retryMs).toBe(Number.MAX_SAFE_INTEGER)
  })

  test('applies as soon as its line is complete', () => {
    const decoder = new SseDecoder()
    decoder.feed('retry: 5')
    expect(decoder.retryMs).toBeUndefined()
    decoder.feed('0\n')
    expect(decoder.retryMs).toBe(50)
  })
})

describe('the end', () => {
  test('drops a block without its blank line', () => {
    expect(readChunks(['data: a\n\ndata: b\n']).events).toHaveLength(1)
  })

  test('is idempotent, and nothing may follow it', () => {
    const decoder = new SseDecoder({ flushOnEnd: true })
    decoder.feed('data: a')
    expect(decoder.end()).toHaveLength(1)
    expect(decoder.end()).toEqual([])
    expect(() => decoder.feed('data: b\n\n')).toThrow('has ended')
  })
})

describe('flushOnEnd', () => {
  test.each([
    { name: 'a block without its blank line', end: 'id: 2\nevent: e\ndata: b\n', data: 'b' },
    { name: 'with CR', end: 'id: 2\rdata: b\r', data: 'b' },
    { name: 'with CRLF', end: 'id: 2\r\ndata: b\r\n', data: 'b' },
    { name: 'a data line without its line break', end: 'id: 2\ndata: [DONE]', data: '[DONE]' },
    { name: 'several data lines', end: 'id: 2\ndata: b\ndata: c', data: 'b\nc' },
    { name: 'an empty data line', end: 'id: 2\ndata:', data: '' },
    { name: 'a comment after the data', end: 'id: 2\ndata: b\n: comment\n', data: 'b' },
  ])('gives back $name', ({ end, data }) => {
    for (const chunks of everyCut(bytesOf(`id: 1\ndata: a\n\n${end}`))) {
      const { events, lastEventId } = readChunks(chunks, { flushOnEnd: true })
      expect(events.map((event) => [event.id, event.data])).toEqual([
        ['1', 'a'],
        ['2', data],
      ])
      expect(lastEventId).toBe('2')
    }
  })

  test.each([
    { name: 'a block without data', end: 'id: 2\n' },
    { name: 'a block that ends in the middle of an id', end: 'data: b\nid: 2' },
    { name: 'a block that ends in the middle of a name', end: 'data: b\nevent: erro' },
    { name: 'a block that ends in the middle of a field', end: 'data: b\ndata' },
    { name: 'a comment', end: ': keep-alive' },
    { name: 'nothing', end: '' },
  ])('drops $name', ({ end }) => {
    for (const chunks of everyCut(bytesOf(`id: 1\ndata: a\n\n${end}`))) {
      const { events, lastEventId } = readChunks(chunks, { flushOnEnd: true })
      expect(events).toEqual([{ event: '', data: 'a', id: '1' }])
      expect(lastEventId).toBe('1')
    }
  })

  test('replaces an incomplete character', () => {
    const cut = bytesOf('data: a€').slice(0, -1)
    const { events } = readChunks([cut], { flushOnEnd: true })
    expect(events.map(({ data }) => data)).toEqual(['a\uFFFD'])
  })
})

test('comments are reported, wherever the stream is split', () => {
  for (const chunks of everyCut(': one\n\ndata: a\r\n:two\r:\n\ndata: b\n\n: cut')) {
    const comments: string[] = []
    const { events } = readChunks(chunks, { onComment: (text) => comments.push(text) })
    expect(comments).toEqual([' one', 'two', ''])
    expect(events.map(({ data }) => data)).toEqual(['a', 'b'])
  }
})
