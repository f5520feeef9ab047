import { expect, test } from 'vitest'
import { ProcessedView } from '../../src/log/records.ts'

function viewOf(updates: string): ProcessedView {
  const view = new ProcessedView()
  for (const [index, key] of updates.split('').entries())
    view.set(key, index + 1, record(key, index + 1))
  return view
}

function record(key: string, seq: number) {
  const output = { type: 'turn_started', turnId: 't', threadId: 'h' } as const
  const envelope = { key, eventId: '', timestamp: 0, firstSeq: 0 }
  return { offset: `1-${seq}`, data: `${key}${seq}`, ...envelope, output }
}

test.each([
  ['', 0, []],
  ['a', 0, ['a1']],
  ['a', 1, []],
  ['abab', 0, ['a3', 'b4']],
  ['abab', 2, ['a3', 'b4']],
  ['abab', 3, ['b4']],
  ['abab', 4, []],
  ['abab', 9, []],
  ['abcab', 3, ['a4', 'b5']],
  ['abca', 2, ['a4', 'c3']],
  ['cabba', 0, ['c1', 'a5', 'b4']],
])('L6 of "%s" after %d remains %j', (updates, after, expected) => {
  expect(
    viewOf(updates)
      .after(after)
      .map(({ data }) => data),
  ).toEqual(expected)
})

test('it returns the superseded record', () => {
  const view = viewOf('ab')
  expect(view.set('a', 3, record('a', 3))?.data).toBe('a1')
  expect(view.set('c', 4, record('c', 4))).toBeUndefined()
})

test('a snapshot taken by a reader is not affected by later records', () => {
  const view = viewOf('ab')
  const taken = view.after(0)
  view.set('a', 3, record('a', 3))
  expect(taken.map(({ data }) => data)).toEqual(['a1', 'b2'])
})

test('a record knows where its key first appeared', () => {
  const view = viewOf('abcab')
  expect(view.after(0).map(({ key, firstSeq }) => `${key}${firstSeq}`)).toEqual(['a1', 'b2', 'c3'])
  view.set('d', 9, record('d', 9), 7)
  expect([view.firstSeq('d'), view.firstSeq('e')]).toEqual([7, undefined])
})
