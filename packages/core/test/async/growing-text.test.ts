import fc from 'fast-check'
import { expect, test } from 'vitest'
import { GrowingText } from '../../src/async/growing-text.ts'

test('equals the concatenation of its pieces whenever it is read', () => {
  fc.assert(
    fc.property(
      fc.string(),
      fc.array(fc.tuple(fc.string(), fc.boolean()), { maxLength: 300 }),
      (start, pieces) => {
        const text = new GrowingText(start)
        let expected = start
        for (const [piece, isRead] of pieces) {
          text.append(piece)
          expected += piece
          expect(text.length).toBe(expected.length)
          if (isRead) expect(text.toString()).toBe(expected)
        }
        expect(text.toString()).toBe(expected)
      },
    ),
  )
})

test('is empty at first', () => {
  expect([new GrowingText().length, new GrowingText().toString()]).toEqual([0, ''])
})
