import { expect, test } from 'vitest'
import { ExpiryQueue } from '../../src/async/expiry-queue.ts'
import { seededRandom } from '../formats/random.ts'

test('items come in the order of their expiry, and none before it', () => {
  const random = seededRandom(7)
  const queue = new ExpiryQueue<number>()
  const waiting: number[] = []
  for (let now = 0; now < 300; now++) {
    for (let count = Math.floor(random() * 4); count > 0; count--) {
      const until = now + 1 + Math.floor(random() * 100)
      queue.add(until, until)
      waiting.push(until)
    }
    const due = waiting.filter((until) => until <= now).toSorted((a, b) => a - b)
    for (const until of due) waiting.splice(waiting.indexOf(until), 1)
    const taken = []
    for (let item; (item = queue.takeExpired(now)) !== undefined; ) taken.push(item)
    expect(taken).toEqual(due)
    expect(queue.size).toBe(waiting.length)
  }
})
