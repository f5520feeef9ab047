import { expect, test } from 'vitest'
import { oncePerType } from '../../src/adapters/translation.ts'

test('each type is told once, in the order in which they come', () => {
  const told: string[] = []
  const report = oncePerType((type) => told.push(type))
  for (const type of ['b', 'a', 'b', 'a', 'c']) report(type)
  expect(told).toEqual(['b', 'a', 'c'])
})

test('a source that makes up types is told of 1,000 times at most', () => {
  const told: string[] = []
  const report = oncePerType((type) => told.push(type))
  for (let count = 0; count < 5000; count++) report(`type-${count}`)
  expect(told).toHaveLength(1000)
})

test('nobody need listen', () => {
  expect(() => oncePerType()('a')).not.toThrow()
})
