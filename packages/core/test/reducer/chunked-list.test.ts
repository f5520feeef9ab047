import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ChunkedList } from '../../src/reducer/ordered-map.ts'

function listOf(values: readonly number[]): ChunkedList<number> {
  return values.reduce<ChunkedList<number>>((list, value) => list.append(value), ChunkedList.empty)
}

const range = (length: number) => Array.from({ length }, (_, index) => index)

describe('ChunkedList', () => {
  test.each([0, 1, 31, 32, 33, 64, 65, 2000])('holds %i values in order', (length) => {
    const list = listOf(range(length))
    expect(list.size).toBe(length)
    expect(list.toArray()).toEqual(range(length))
    expect(range(length).map((index) => list.at(index))).toEqual(range(length))
    expect(list.at(length)).toBeUndefined()
  })

  test.each([-1, 3, 32])('rejects an index out of range: %i of 3', (index) => {
    expect(() => listOf(range(3)).replace(index, 0)).toThrow(RangeError)
  })

  test('every version equals an array after the same steps', () => {
    const step = fc.record({ from: fc.nat(), at: fc.option(fc.nat()), value: fc.nat() })
    const sizes = fc.constantFrom(0, 1, 31, 32, 63, 100)
    fc.assert(
      fc.property(sizes, fc.array(step), (size, steps) => {
        const versions = [{ list: listOf(range(size)), model: range(size) }]
        for (const { from, at, value } of steps) {
          const { list, model } = versions[from % versions.length]!
          const index = at === null || model.length === 0 ? undefined : at % model.length
          versions.push(
            index === undefined
              ? { list: list.append(value), model: [...model, value] }
              : { list: list.replace(index, value), model: model.with(index, value) },
          )
        }
        for (const { list, model } of versions) expect(list.toArray()).toEqual(model)
      }),
    )
  })
})
