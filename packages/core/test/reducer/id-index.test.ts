import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { IdIndex } from '../../src/reducer/ordered-map.ts'

function withIds(index: IdIndex, ids: readonly string[]): IdIndex {
  return ids.reduce((grown, id) => (grown.has(id) ? grown : grown.add(id)), index)
}

const indexOf = (ids: readonly string[]) => withIds(IdIndex.empty, ids)

const LETTERS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']

/** Few enough that ids come twice and versions disagree; sorted ones stay on the fast path. */
const ids = fc.array(fc.constantFrom(...LETTERS, 'a1', 'a2', '__proto__'))
const idLists = fc.oneof(
  ids,
  ids.map((list) => list.toSorted()),
)

describe('IdIndex', () => {
  test('gives ids their position, sorted or not', () => {
    fc.assert(
      fc.property(idLists, (list) => {
        const unique = [...new Set(list)]
        const index = indexOf(list)
        expect(index.size).toBe(unique.length)
        expect(unique.map((id) => index.position(id))).toEqual([...unique.keys()])
        expect(index.has('other')).toBe(false)
      }),
    )
  })

  test('every version keeps its ids, whichever of them grew', () => {
    const growth = fc.array(fc.record({ from: fc.nat(), id: fc.constantFrom(...LETTERS) }))
    fc.assert(
      fc.property(growth, (steps) => {
        const versions = [{ index: IdIndex.empty, model: new Set<string>() }]
        for (const { from, id } of steps) {
          const version = versions[from % versions.length]
          if (!version || version.index.has(id)) continue
          const model = new Set([...version.model, id])
          versions.push({ index: version.index.add(id), model })
        }
        for (const { index, model } of versions) {
          const found = LETTERS.filter((id) => index.has(id))
          expect(new Set(found)).toEqual(model)
          expect([...model].map((id) => index.position(id))).toEqual([...[...model].keys()])
        }
      }),
    )
  })

  test('an old id is found among sorted ones, which may continue in any order', () => {
    const sorted = indexOf(['a', 'c', 'e'])
    expect(['a', 'b', 'e', 'f'].map((id) => sorted.position(id))).toEqual([
      0,
      undefined,
      2,
      undefined,
    ])
    const later = indexOf(['a', 'c', 'e', 'b', 'f'])
    expect(['a', 'b', 'e', 'f'].map((id) => later.position(id))).toEqual([0, 3, 2, 4])
  })

  test('a version does not see what a later one added', () => {
    const older = indexOf(['a', 'b'])
    const newer = older.add('c')
    expect([older.has('c'), newer.has('c')]).toEqual([false, true])
  })

  test('two branches do not see each other', () => {
    const trunk = indexOf(['b', 'd'])
    const left = withIds(trunk, ['a', 'x'])
    const right = withIds(trunk, ['c', 'y'])
    expect(['b', 'd', 'a', 'x', 'c', 'y'].map((id) => left.position(id) ?? -1)).toEqual([
      0, 1, 2, 3, -1, -1,
    ])
    expect(['b', 'd', 'c', 'y', 'a', 'x'].map((id) => right.position(id) ?? -1)).toEqual([
      0, 1, 2, 3, -1, -1,
    ])
  })

  test('two equal versions can branch later', () => {
    const trunk = indexOf(['a'])
    const first = trunk.add('b')
    const second = trunk.add('b')
    const parted = [withIds(first, ['c']), withIds(second, ['d'])]
    expect(parted.map((index) => [index.has('c'), index.has('d')])).toEqual([
      [true, false],
      [false, true],
    ])
  })
})
