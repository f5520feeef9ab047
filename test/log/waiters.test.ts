import { getEventListeners } from 'node:events'
import { describe, expect, test, vi } from 'vitest'
import { onAbort } from '../../src/log/on-abort.ts'
import { Waiters } from '../../src/log/waiters.ts'

function listenersOf(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

describe('those who wait', () => {
  test('go on when they are woken, each once', async () => {
    const waiters = new Waiters()
    const { signal } = new AbortController()
    const waits = [waiters.wait(signal), waiters.wait(signal)]
    expect(waiters.size).toBe(2)
    waiters.wake()
    expect(waiters.size).toBe(0)
    await Promise.all(waits)
    waiters.wake()
  })

  test('go on when their own signal aborts, and the others wait', async () => {
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

  test('that wait again while they are woken are not woken by the same wake', async () => {
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

describe('what happens on an abort', () => {
  test('happens once, in the order in which it was asked for', () => {
    const controller = new AbortController()
    const ran: number[] = []
    for (const number of [1, 2, 3]) onAbort(controller.signal, () => ran.push(number))
    controller.abort()
    controller.signal.dispatchEvent(new Event('abort'))
    expect(ran).toEqual([1, 2, 3])
  })

  test('does not happen once it is no longer wanted, not even in the middle', () => {
    const controller = new AbortController()
    const task = vi.fn<() => void>()
    const cancels: (() => void)[] = []
    onAbort(controller.signal, () => {
      for (const cancel of cancels) cancel()
    })
    cancels.push(onAbort(controller.signal, task))
    const before = onAbort(controller.signal, task)
    before()
    before()
    controller.abort()
    expect(task).not.toHaveBeenCalled()
  })

  test('needs one listener however many want it, and none when nobody does', () => {
    const { signal } = new AbortController()
    const cancels = Array.from({ length: 100 }, () => onAbort(signal, () => {}))
    expect(listenersOf(signal)).toBe(1)
    for (const cancel of cancels) cancel()
    expect(listenersOf(signal)).toBe(0)
    onAbort(signal, () => {})()
    expect(listenersOf(signal)).toBe(0)
  })
})
