import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Fifo } from '../../src/async/fifo.ts'
import { collectGarbage } from './support.ts'

function drain<T>(queue: Fifo<T>): T[] {
  const values: T[] = []
  while (queue.size > 0) values.push(queue.shift())
  return values
}

describe('Fifo', () => {
  // Around the length of a segment, where a queue of segments goes wrong if it does.
  test.each([0, 1, 2, 31, 32, 33, 63, 64, 65, 1000])('%i values come out in order', (count) => {
    const queue = new Fifo<number>()
    const values = Array.from({ length: count }, (_, i) => i)
    for (const value of values) queue.push(value)
    expect(queue.size).toBe(count)
    expect(drain(queue)).toEqual(values)
    expect(queue.size).toBe(0)
  })

  test.each([1, 31, 32, 33, 64])('can be filled to %i and emptied again and again', (count) => {
    const queue = new Fifo<number>()
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < count; i++) queue.push(round * count + i)
      expect(drain(queue)).toEqual(Array.from({ length: count }, (_, i) => round * count + i))
    }
  })

  test('stays in order when it never becomes empty', () => {
    const queue = new Fifo<number>()
    queue.push(0)
    for (let i = 1; i < 500; i++) {
      queue.push(i)
      expect(queue.shift()).toBe(i - 1)
      expect(queue.size).toBe(1)
    }
  })

  test('undefined and null are values like any other', () => {
    const queue = new Fifo<undefined | null | number>()
    for (const value of [undefined, null, 0, undefined]) queue.push(value)
    expect(queue.size).toBe(4)
    expect(drain(queue)).toEqual([undefined, null, 0, undefined])
  })

  test('shift on an empty queue throws', () => {
    const queue = new Fifo<number>()
    expect(() => queue.shift()).toThrow(RangeError)
    queue.push(1)
    queue.shift()
    expect(() => queue.shift()).toThrow(RangeError)
    expect(queue.size).toBe(0)
  })

  test('does not retain delivered values', async () => {
    const queue = new Fifo<object>()
    const handedOut = pushAndShift(queue)
    queue.push({})
    await collectGarbage()
    expect(handedOut.deref()).toBeUndefined()
    expect(queue.size).toBe(2)
  })

  test('behaves like an array under any sequence of push and shift', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -40, max: 40 }), { maxLength: 60 }), (steps) => {
        const queue = new Fifo<number>()
        const model: number[] = []
        let next = 0
        for (const step of steps) {
          for (let i = 0; i < step; i++) {
            queue.push(next)
            model.push(next)
            next += 1
          }
          for (let i = 0; i > step && model.length > 0; i--) {
            expect(queue.shift()).toBe(model.shift())
          }
          expect(queue.size).toBe(model.length)
        }
        expect(drain(queue)).toEqual(model)
      }),
    )
  })
})

/** In a function of its own, so that no variable of the test holds the value. */
function pushAndShift(queue: Fifo<object>): WeakRef<object> {
  queue.push({ first: true })
  queue.push({})
  return new WeakRef(queue.shift())
}
