import { describe, expect, test } from 'vitest'
import { formatOffset, offsetOf, parseOffset, resume, START } from '../../src/log/offsets.ts'

// Epoch 1 wrote 1 to 3, epoch 2 nothing, epoch 3 from 4 on.
const EPOCHS = [
  { epoch: 1, from: 1 },
  { epoch: 2, from: 4 },
  { epoch: 3, from: 4 },
]

describe('L2 an offset', () => {
  test.each([
    [0, 0],
    [1, 1],
    [12, 345_678],
    [999_999_999_999_999, 999_999_999_999_999],
  ])('of epoch %d and seq %d is parsed as it was written', (epoch, seq) => {
    expect(parseOffset(formatOffset(epoch, seq))).toEqual({ epoch, seq })
  })

  test.each([
    [[], 0, START],
    [EPOCHS, 0, '0-0'],
    [EPOCHS, 1, '1-1'],
    [EPOCHS, 3, '1-3'],
    [EPOCHS, 4, '3-4'],
    [EPOCHS, 9, '3-9'],
  ])('names the epoch that wrote the record (%j, %d)', (epochs, seq, offset) => {
    expect(offsetOf(epochs, seq)).toBe(offset)
  })

  test('that is invalid is truncated in the error', () => {
    const cut = `"${'x'.repeat(64)}"`
    expect(() => parseOffset('x'.repeat(1000))).toThrow(new RegExp(`${cut}$`))
  })
})

describe('a cursor', () => {
  const rows: [cursor: string, expected: unknown][] = [
    ['0-0', 0],
    ['1-1', 1],
    ['1-3', 3],
    ['3-4', 4],
    ['3-6', 6],
    ['3-7', { resync: 'foreign' }],
    ['2-4', { resync: 'foreign' }],
    ['2-3', { resync: 'foreign' }],
    ['3-3', { resync: 'foreign' }],
    ['0-1', { resync: 'foreign' }],
    ['1-0', { resync: 'foreign' }],
  ]

  test.each(rows)('%s is resumed, or foreign', (cursor, expected) => {
    expect(resume(parseOffset(cursor), { head: 6, epochs: EPOCHS })).toEqual(expected)
  })
})
