import { expect, test } from 'vitest'
import {
  compareThreads,
  formatThreadPlace,
  pageLimit,
  pageOf,
  parseOrdinal,
  parseThreadPlace,
} from '../../src/log/paging.ts'

test.each([
  [undefined, 50],
  [1, 1],
  [200, 200],
  [201, 200],
])('a limit of %s is %d', (limit, expected) => {
  expect(pageLimit(limit === undefined ? {} : { limit })).toBe(expected)
})

test.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])('%d is an invalid limit', (limit) => {
  expect(() => pageLimit({ limit })).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
})

test.each([
  [[], { items: [] }],
  [['a'], { items: ['a'] }],
  [['a', 'b'], { items: ['a', 'b'] }],
  [['a', 'b', 'c'], { items: ['a', 'b'], nextCursor: 'after b' }],
])('a page of two of %j is %j', (found, page) => {
  expect(pageOf(found, 2, (item) => `after ${item}`)).toEqual(page)
})

test.each([
  ['1', 1],
  ['999999999999999', 999_999_999_999_999],
])('the cursor %s is a position in a thread', (cursor, ordinal) => {
  expect(parseOrdinal(cursor)).toBe(ordinal)
})

test.each(['', '0', '01', '-1', '1.5', '1e3', ' 1', '1\n', '9'.repeat(16)])(
  '%j is not a position in a thread',
  (cursor) => {
    expect(() => parseOrdinal(cursor)).toThrow(expect.objectContaining({ code: 'CURSOR_INVALID' }))
  },
)

test.each([
  { updatedAt: 0, threadId: 'a' },
  { updatedAt: 1_700_000_000_000, threadId: 'a:b:1' },
  { updatedAt: 5, threadId: '漢字' },
])('the position of thread %j is encoded and decoded', (place) => {
  expect(parseThreadPlace(formatThreadPlace(place))).toEqual(place)
})

test.each(['', ':', '5', '5:', ':a', 'x:a', '-5:a', `${'9'.repeat(16)}:a`])(
  '%j is not a position of a thread',
  (cursor) => {
    const invalid = expect.objectContaining({ code: 'CURSOR_INVALID' })
    expect(() => parseThreadPlace(cursor)).toThrow(invalid)
  },
)

test('threads are ordered by time, newest first, then by id', () => {
  const places = [
    { updatedAt: 5, threadId: 'b' },
    { updatedAt: 9, threadId: 'a' },
    { updatedAt: 5, threadId: 'c' },
    { updatedAt: 5, threadId: 'a' },
  ]
  const sorted = places
    .toSorted(compareThreads)
    .map(({ updatedAt, threadId }) => updatedAt + threadId)
  expect(sorted).toEqual(['9a', '5c', '5b', '5a'])
  expect(compareThreads({ updatedAt: 5, threadId: 'a' }, { updatedAt: 5, threadId: 'a' })).toBe(0)
})
