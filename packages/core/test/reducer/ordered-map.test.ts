import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { OrderedMap } from '../../src/reducer/ordered-map.ts'

const LETTERS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

test('every version of an OrderedMap equals a Map after the same steps', () => {
  const step = fc.record({ from: fc.nat(), id: fc.constantFrom(...LETTERS), value: fc.nat() })
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const versions: { map: OrderedMap<number>; model: Map<string, number> }[] = [
        { map: OrderedMap.empty, model: new Map() },
      ]
      for (const { from, id, value } of steps) {
        const { map, model } = versions[from % versions.length]!
        versions.push({ map: map.set(id, value), model: new Map(model).set(id, value) })
      }
      for (const { map, model } of versions) {
        expect(map.values()).toEqual([...model.values()])
        for (const id of LETTERS) expect(map.get(id)).toBe(model.get(id))
      }
    }),
  )
})
