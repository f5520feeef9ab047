import { expect, test, vi } from 'vitest'
import { MAX_TYPED_CHARS, nearest } from '../../src/protocol/nearest.ts'

test.each([
  ['promt', 'prompt'],
  ['Thread_Id', 'threadId'],
  ['something', undefined],
])('the nearest name of %s is %s', (typed, name) => {
  expect(nearest(typed, ['prompt', 'threadId', 'model'])).toBe(name)
})

test('a name of ten times the length that is compared is not compared', () => {
  const typed = 'x'.repeat(10 * MAX_TYPED_CHARS)
  const steps = vi.spyOn(Array.prototype, 'push')
  const name = nearest(typed, [typed])
  const { length } = steps.mock.calls
  steps.mockRestore()
  expect(name).toBeUndefined()
  // The comparison takes a step for each pair of characters.
  expect(length).toBeLessThan(MAX_TYPED_CHARS)
})
