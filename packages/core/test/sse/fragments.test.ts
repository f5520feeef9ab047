import { expect, test } from 'vitest'
import { Fragments } from '../../src/sse/fragments.ts'

test.each([0, 1, 1023, 1024, 1025, 5000])('%i pieces are returned as one text, once', (count) => {
  const pieces = Array.from({ length: count }, (_, index) => `${index},`)
  const fragments = new Fragments()
  for (const piece of pieces) fragments.push(piece)
  const text = pieces.join('')
  expect(fragments.length).toBe(text.length)
  expect(fragments.drain()).toBe(text)
  expect(fragments.length).toBe(0)
  expect(fragments.drain()).toBe('')
})

test('clear removes everything', () => {
  const fragments = new Fragments()
  for (let count = 0; count < 2000; count++) fragments.push('x')
  fragments.clear()
  expect(fragments.length).toBe(0)
  fragments.push('y')
  expect(fragments.drain()).toBe('y')
})
