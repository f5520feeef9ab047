import { expect, test } from 'vitest'
import { UnansweredCalls } from '../../src/items/unanswered-calls.ts'

const filled = () => {
  const calls = new UnansweredCalls<string, string>()
  calls.add('1', 'same', 'first')
  calls.add('2', 'other', 'second')
  calls.add('3', 'same', 'third')
  return calls
}

test('outputs of a reused call id come in the order of its calls', () => {
  const calls = filled()
  expect(calls.withId('same')).toEqual(['first', 'third'])
  expect(calls.answer('same', 'a')).toBe('first')
  expect(calls.answer('same', 'b')).toBe('third')
  expect(calls.all).toEqual(['second'])
})

test('a preferred call is answered first', () => {
  const calls = filled()
  const isThird = (call: string) => call === 'third'
  expect(calls.answer('same', 'a', isThird)).toBe('third')
  calls.add('4', 'same', 'fourth')
  expect(calls.answer('same', 'b', isThird)).toBe('first')
})

test('an output may come before its call', () => {
  const calls = filled()
  expect(calls.answer('late', 'output')).toBeUndefined()
  expect(calls.earlyOutputs).toEqual(['output'])
  expect(calls.add('4', 'late', 'fourth')).toBe('output')
  expect(calls.add('5', 'late', 'fifth')).toBeUndefined()
  expect([calls.has('4'), calls.has('5')]).toEqual([false, true])
  expect(calls.earlyOutputs).toEqual([])
})

test('a call that failed gets no output', () => {
  const calls = filled()
  calls.delete('1')
  expect(calls.answer('same', 'a')).toBe('third')
})
