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
  return { offset: `1-${seq}`, data: `${key}${seq}`, key, eventId: '', timestamp: 0, output }
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
