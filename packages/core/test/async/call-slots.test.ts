import { expect, test } from 'vitest'
import { CallSlots } from '../../src/async/call-slots.ts'

const { signal } = new AbortController()

/** A call that ends when the test says so. */
function pending() {
  let finish = () => {}
  const ended = new Promise<void>((resolve) => {
    finish = resolve
  })
  return { finish, task: () => ended }
}

test('calls beyond the limit wait in order', async () => {
  const slots = new CallSlots(2)
  const [first, second] = [pending(), pending()]
  const begun: string[] = []
  const one = slots.run(signal, first.task)
  const two = slots.run(signal, second.task)
  const others = ['c', 'd'].map((name) => slots.run(signal, async () => void begun.push(name)))
  await new Promise(setImmediate)
  expect(begun).toEqual([])
  second.finish()
  await two
  await Promise.all(others)
  expect(begun).toEqual(['c', 'd'])
  first.finish()
  await one
})

test('a call that is aborted while it waits never runs, and costs no slot', async () => {
  const slots = new CallSlots(1)
  const first = pending()
  const one = slots.run(signal, first.task)
  const leaving = new AbortController()
  const left = slots.run(leaving.signal, async () => expect.unreachable())
  leaving.abort(new Error('left'))
  await expect(left).rejects.toThrow('left')
  const next = slots.run(signal, async () => 'ran')
  first.finish()
  await one
  expect(await next).toBe('ran')
})

test('a failed call leaves its slot', async () => {
  const slots = new CallSlots(1)
  await expect(slots.run(signal, () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await slots.run(signal, async () => 'ran')).toBe('ran')
})
