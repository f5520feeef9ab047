import { expect, test } from 'vitest'
import { eachAtMost } from '../../src/async/each-at-most.ts'

test.each([
  [1, 1],
  [3, 3],
  [100, 5],
])('at most %i run at a time', async (max, expected) => {
  let running = 0
  let most = 0
  const done: number[] = []
  await eachAtMost([1, 2, 3, 4, 5], max, async (item) => {
    running += 1
    most = Math.max(most, running)
    await new Promise(setImmediate)
    running -= 1
    done.push(item)
  })
  expect(most).toBe(expected)
  expect(done.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5])
})

test('the first failure is the result', async () => {
  await expect(
    eachAtMost([1, 2], 1, (item) => Promise.reject(new Error(`no ${item}`))),
  ).rejects.toThrow('no 1')
})
