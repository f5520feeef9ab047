import { expect, test } from 'vitest'
import { oncePerType } from '../../src/formats/translation.ts'

test('each type is reported once, in order of arrival', () => {
  const told: string[] = []
  const report = oncePerType((type) => told.push(type))
  for (const type of ['b', 'a', 'b', 'a', 'c']) report(type)
  expect(told).toEqual(['b', 'a', 'c'])
})

test('at most 1,000 types are reported', () => {
  const told: string[] = []
  const report = oncePerType((type) => told.push(type))
  for (let count = 0; count < 5000; count++) report(`type-${count}`)
  expect(told).toHaveLength(1000)
})

test('needs no listener', () => {
  expect(() => oncePerType()('a')).not.toThrow()
})
