import { describe, expect, test, vi } from 'vitest'
import {
  SseDecoder,
  type SseDecoderOptions,
  type SseEvent,
  SseLimitError,
} from '../../src/index.ts'
import { bytesOf, everyCut } from './cuts.ts'

/** The data that came out, and what stopped it. */
function readUntilError(chunks: Iterable<Uint8Array | string>, options: SseDecoderOptions) {
  const decoder = new SseDecoder(options)
  const events: SseEvent[] = []
  let error: unknown
  try {
    for (const chunk of chunks) events.push(...decoder.feed(chunk))
    events.push(...decoder.end())
  } catch (caught) {
    error = caught
  }
  const limit = error instanceof SseLimitError ? error.limit : error
  return { data: events.map(({ data }) => data), limit }
}

describe('a bound', () => {
  test.each<{
    name: string
    stream: string
    options: SseDecoderOptions
    data: string[]
    limit?: string
  }>([
    {
      name: 'a line of just the length',
      stream: 'data: 7890\n\nevent: 890\n',
      options: { maxLineChars: 10 },
      data: ['7890'],
    },
    {
      name: 'a line of one more',
      stream: 'data: a\n\ndata: 78901\n\ndata: b\n\n',
      options: { maxLineChars: 10 },
      data: ['a'],
      limit: 'maxLineChars',
    },
    {
      name: 'a line that never ends',
      stream: 'data: a\n\ndata: 78901',
      options: { maxLineChars: 10 },
      data: ['a'],
      limit: 'maxLineChars',
    },
    {
      name: 'a comment',
      stream: ': 34567890\n: 345678901\n',
      options: { maxLineChars: 10 },
      data: [],
      limit: 'maxLineChars',
    },
    {
      name: 'a line after a byte order mark and a CRLF, which do not count',
      stream: '\uFEFFdata: 7890\r\ndata: 7890\r\n\r\n',
      options: { maxLineChars: 10 },
      data: ['7890\n7890'],
    },
    {
      name: 'characters, not bytes, and two for one beyond the basic plane',
      stream: 'data: €€€€\n\ndata: 😀😀\n\ndata: 😀😀€\n\n',
      options: { maxLineChars: 10 },
      data: ['€€€€', '😀😀'],
      limit: 'maxLineChars',
    },
    {
      name: 'an event of just the length, with the line feeds between its lines',
      stream: 'data: 12\ndata: 45\n\ndata: 12345\n\n',
      options: { maxEventChars: 5 },
      data: ['12\n45', '12345'],
    },
    {
      name: 'an event of one line more',
      stream: 'data: a\n\ndata: 12\ndata: 45\ndata\ndata: b\n\n',
      options: { maxEventChars: 5 },
      data: ['a'],
      limit: 'maxEventChars',
    },
    {
      name: 'an event of one line that is too long',
      stream: 'data: 12345\n\ndata: 123456\n\n',
      options: { maxEventChars: 5 },
      data: ['12345'],
      limit: 'maxEventChars',
    },
    {
      name: 'only the data of an event',
      stream: 'id: 1234567\nevent: 1234567\n: 1234567\ndata: 12345\n\n',
      options: { maxEventChars: 5 },
      data: ['12345'],
    },
  ])('on $name: the same at every split', ({ stream, options, data, limit }) => {
    for (const chunks of everyCut(bytesOf(stream))) {
      expect(readUntilError(chunks, options)).toEqual({ data, limit })
    }
    for (const chunks of everyCut(stream)) {
      expect(readUntilError(chunks, options)).toEqual({ data, limit })
    }
  })

  test('applies to what the end flushes', () => {
    const options = { maxEventChars: 5, flushOnEnd: true }
    expect(readUntilError(['data: 123456'], options)).toEqual({ data: [], limit: 'maxEventChars' })
  })

  test('once exceeded, makes every later call throw the same error', () => {
    const decoder = new SseDecoder({ maxLineChars: 4 })
    const errors = [() => decoder.feed('12345'), () => decoder.feed('\n'), () => decoder.end()].map(
      (call) => {
        try {
          return call()
        } catch (error) {
          return error
        }
      },
    )
    expect(errors[0]).toBeInstanceOf(SseLimitError)
    expect(errors[0]).toMatchObject({ code: 'SSE_LIMIT_EXCEEDED', limit: 'maxLineChars' })
    expect(new Set(errors).size).toBe(1)
  })

  test('exceeded after a complete event: that event first, then the error', () => {
    const decoder = new SseDecoder({ maxLineChars: 7 })
    expect(decoder.feed('data: a\n\ndata: ab\n\n')).toHaveLength(1)
    expect(() => decoder.feed('')).toThrow(SseLimitError)
  })

  test('is 10 Mi characters for a line and 16 Mi for an event by default', () => {
    const line = `data:${'x'.repeat(10 * 1024 * 1024 - 5)}`
    expect(new SseDecoder().feed(`${line}\n\n`)).toHaveLength(1)
    expect(readUntilError([`${line}x`], {}).limit).toBe('maxLineChars')
    expect(readUntilError([`${line}\n${line}\n\n`], {}).limit).toBe('maxEventChars')
  })

  test.each(['maxLineChars', 'maxEventChars'])('%s must be an integer or Infinity', (name) => {
    for (const value of [0, -1, 1.5, Number.NaN]) {
      expect(() => new SseDecoder({ [name]: value })).toThrow(RangeError)
    }
    expect(new SseDecoder({ [name]: Infinity }).feed('data: a\n\n')).toHaveLength(1)
  })
})

/** How many characters are searched or copied while these chunks are read. */
function workFor(chunks: readonly string[]): number {
  let work = 0
  // oxlint-disable-next-line typescript/unbound-method -- bound again where they are called
  const { indexOf, slice } = String.prototype
  const { join } = Array.prototype
  const spies = [
    vi.spyOn(String.prototype, 'indexOf').mockImplementation(function (
      this: string,
      search,
      from = 0,
    ) {
      const found = indexOf.call(this, search, from)
      work += (found === -1 ? this.length : found) - from + 1
      return found
    }),
    vi.spyOn(String.prototype, 'slice').mockImplementation(function (this: string, start, end) {
      const text = slice.call(this, start, end)
      work += text.length
      return text
    }),
    vi.spyOn(Array.prototype, 'join').mockImplementation(function (this: unknown[], separator) {
      const text = join.call(this, separator)
      work += text.length
      return text
    }),
  ]
  const decoder = new SseDecoder()
  for (const chunk of chunks) decoder.feed(chunk)
  for (const spy of spies) spy.mockRestore()
  return work
}

describe('work', () => {
  test.each([
    ['one line in chunks of four', (size: number) => Array<string>(size / 4).fill('abcd')],
    ['one line in one chunk', (size: number) => ['x'.repeat(size)]],
    ['lines without a CR', (size: number) => ['x\n'.repeat(size / 2)]],
    ['lines without an LF', (size: number) => ['x\r'.repeat(size / 2)]],
    ['lines with one CR at the end', (size: number) => [`${'x\n'.repeat(size / 2)}\r`]],
    ['empty data lines of one event', (size: number) => ['data\n'.repeat(size / 5)]],
    ['empty data lines, byte by byte', (size: number) => 'data\n'.repeat(size / 5).split('')],
    ['names without a colon', (size: number) => ['event\nid\ndat\n'.repeat(size / 13)]],
  ])('is linear in the length of %s', (_name, chunksOf) => {
    const small = 16_000
    expect(workFor(chunksOf(small))).toBeGreaterThan(small / 8)
    expect(workFor(chunksOf(small)) / small).toBeLessThan(10)
    expect(workFor(chunksOf(8 * small)) / workFor(chunksOf(small))).toBeLessThan(9)
  })
})
