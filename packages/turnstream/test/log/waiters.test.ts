import { getEventListeners } from 'node:events'
import { describe, expect, test } from 'vitest'
import { Waiters } from '../../src/log/tail.ts'

function listenersOf(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

describe('waiters', () => {
  test('are woken once each', async () => {
    const waiters = new Waiters()
    const { signal } = new AbortController()
    const waits = [waiters.wait(signal), waiters.wait(signal)]
    expect(waiters.size).toBe(2)
    waiters.wake()
    expect(waiters.size).toBe(0)
    await Promise.all(waits)
    waiters.wake()
  })

  test('stop waiting when their own signal aborts', async () => {
    const waiters = new Waiters()
    const [leaves, stays] = [new AbortController(), new AbortController()]
    const left = waiters.wait(leaves.signal)
    const stayed = waiters.wait(stays.signal)
    leaves.abort()
    await left
    expect(waiters.size).toBe(1)
    waiters.wake()
    await stayed
  })

  test('do not wait when their signal has aborted', async () => {
    const waiters = new Waiters()
    await waiters.wait(AbortSignal.abort())
    expect(waiters.size).toBe(0)
  })

  test('that wait again during a wake are not woken by it', async () => {
    const waiters = new Waiters()
    const { signal } = new AbortController()
    let woken = 0
    const loop = async () => {
      for (;;) {
        await waiters.wait(signal)
        woken += 1
      }
    }
    void loop()
    void loop()
    waiters.wake()
    await Promise.resolve()
    await Promise.resolve()
    expect([woken, waiters.size]).toEqual([2, 2])
  })

  test('leave nothing behind', async () => {
    const waiters = new Waiters()
    const { signal } = new AbortController()
    for (let count = 0; count < 10_000; count++) {
      const wait = waiters.wait(signal)
      waiters.wake()
      await wait
    }
    expect([waiters.size, listenersOf(signal)]).toEqual([0, 0])
  })
})
