import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { LineDecoder } from '../../src/sse/lines.ts'

const utf8 = new TextEncoder()

function linesOf(chunks: Iterable<Uint8Array>): string[] {
  const decoder = new LineDecoder()
  const lines = []
  for (const chunk of chunks) lines.push(...decoder.feed(chunk))
  return [...lines, ...decoder.end()]
}

describe('lines', () => {
  test.each([
    ['', []],
    ['a', ['a']],
    ['a\n', ['a']],
    ['a\nb', ['a', 'b']],
    ['a\r\nb\r\n', ['a', 'b']],
    ['\n\na', ['', '', 'a']],
    ['\ufeffa\n\ufeffb', ['a', '\ufeffb']],
    ['é🙂\n漢', ['é🙂', '漢']],
  ])('%j', (text, lines) => {
    expect(linesOf([utf8.encode(text)])).toEqual(lines)
  })

  test('are the same wherever the bytes are split', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.array(fc.nat()), (text, cuts) => {
        const bytes = utf8.encode(text)
        const places = cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b)
        const ends = [...places, bytes.length]
        const chunks = ends.map((end, index) => bytes.subarray(places[index - 1] ?? 0, end))
        expect(linesOf(chunks)).toEqual(linesOf([bytes]))
      }),
    )
  })

  test('that are too long are rejected', () => {
    const decoder = new LineDecoder({ maxLineChars: 4 })
    expect(decoder.feed(utf8.encode('abcd\nab'))).toEqual(['abcd'])
    expect(() => decoder.feed(utf8.encode('cde'))).toThrow(
      expect.objectContaining({ code: 'SSE_LIMIT_EXCEEDED' }),
    )
  })
})
