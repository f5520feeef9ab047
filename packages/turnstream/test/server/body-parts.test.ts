import fc from 'fast-check'
import { expect, test } from 'vitest'
import { BodyParts, MAX_PART_BYTES } from '../../src/server/body-parts.ts'

const sizes = fc.array(
  fc.oneof(
    fc.integer({ min: 0, max: 100 }),
    fc.integer({ min: MAX_PART_BYTES / 2 - 1, max: MAX_PART_BYTES + 1 }),
  ),
  { maxLength: 40 },
)

test('the bytes come back in order, whatever their chunks', () => {
  fc.assert(
    fc.property(sizes, (lengths) => {
      const parts = new BodyParts()
      const chunks = lengths.map((length, at) => new Uint8Array(length).fill(at + 1))
      for (const chunk of chunks) parts.add(chunk)
      expect(parts.drain().equals(Buffer.concat(chunks))).toBe(true)
      expect(parts.count).toBe(0)
    }),
  )
})

test('small chunks are copied', () => {
  const parts = new BodyParts()
  const chunk = Uint8Array.of(1, 2)
  parts.add(chunk)
  chunk.fill(0)
  expect([...parts.drain()]).toEqual([1, 2])
})

test('nothing is left after clear', () => {
  const parts = new BodyParts()
  parts.add(new Uint8Array(10))
  parts.add(new Uint8Array(MAX_PART_BYTES))
  parts.clear()
  expect([parts.count, parts.drain().length]).toEqual([0, 0])
})
