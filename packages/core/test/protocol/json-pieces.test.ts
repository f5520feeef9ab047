import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jsonLength, jsonPieces } from '../../src/protocol/json-pieces.ts'

const CASES = {
  'a short text': { a: 'b' },
  'long texts between others': { a: 'x'.repeat(5000), b: [1, 'y'.repeat(200_000), null], c: 'z' },
  'characters that are escaped': { a: '"\\\n\u0000'.repeat(50_000) },
  'pairs at every place': { a: `x${'😀'.repeat(70_000)}`, b: '😀'.repeat(70_000) },
  'lone surrogates': { a: '\ud83d'.repeat(70_000) },
  'many short texts': Array.from({ length: 20_000 }, (_, at) => `${at}😀`),
}

test.each(Object.entries(CASES))('%s: the pieces are the JSON of the value', (_name, value) => {
  expect([...jsonPieces(value)].join('') === JSON.stringify(value)).toBe(true)
})

test('the pieces of any value are its JSON', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.json({ depthSize: 'small' })), (value) => {
      expect([...jsonPieces(value)].join('')).toBe(JSON.stringify(value))
    }),
  )
})

test('no piece is much longer than 65,536 characters', () => {
  const value = {
    a: 'x'.repeat(1_000_000),
    b: Array.from({ length: 10_000 }, () => 'y'.repeat(99)),
  }
  const lengths = [...jsonPieces(value)].map((piece) => piece.length)
  expect(Math.max(...lengths)).toBeLessThanOrEqual(65_536)
})

test('the length of a value is that of its JSON, without the escapes of long texts', () => {
  const value = { a: 'x'.repeat(5000), b: ['short "text"\n', 1, null], c: { d: 'y'.repeat(4096) } }
  expect(jsonLength(value)).toBe(JSON.stringify(value).length)
  expect(jsonLength({ a: '\n'.repeat(5000) })).toBe(JSON.stringify({ a: 'x'.repeat(5000) }).length)
})
