import { getEventListeners } from 'node:events'
import { describe, expect, test, vi } from 'vitest'
import { anyOf, onAbort, Stop, untilAborted } from '../../src/async/on-abort.ts'

function listenersOf(signal: AbortSignal): number {
  return getEventListeners(signal, 'abort').length
}

describe('tasks on abort', () => {
  test('runs once, in registration order', () => {
    const controller = new AbortController()
    const ran: number[] = []
    for (const number of [1, 2, 3]) onAbort(controller.signal, () => ran.push(number))
    controller.abort()
    controller.signal.dispatchEvent(new Event('abort'))
    expect(ran).toEqual([1, 2, 3])
  })

  test('does not run after it was cancelled, even during the abort', () => {
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

  test('needs one listener for any number of tasks, and none without tasks', () => {
    const { signal } = new AbortController()
    const cancels = Array.from({ length: 100 }, () => onAbort(signal, () => {}))
    expect(listenersOf(signal)).toBe(1)
    for (const cancel of cancels) cancel()
    expect(listenersOf(signal)).toBe(0)
    onAbort(signal, () => {})()
    expect(listenersOf(signal)).toBe(0)
  })
})

describe('a Stop', () => {
  test('is a signal that runs each remaining task once', () => {
    const stop = new Stop()
    const ran: number[] = []
    const cancel = onAbort(stop, () => ran.push(1))
    for (const number of [2, 3]) onAbort(stop, () => ran.push(number))
    cancel()
    expect(stop.aborted).toBe(false)
    stop.abort()
    stop.abort()
    expect(stop.aborted).toBe(true)
    expect(ran).toEqual([2, 3])
  })
})

describe('any of several signals', () => {
  test('aborts with the first, and leaves nothing in the others once it is released', () => {
    const [one, other] = [new AbortController(), new AbortController()]
    const { signal, release } = anyOf([one.signal, other.signal])
    expect(signal.aborted).toBe(false)
    one.abort()
    expect(signal.aborted).toBe(true)
    release()
    expect(listenersOf(other.signal)).toBe(0)
  })

  test('is aborted if one of them already is', () => {
    expect(anyOf([AbortSignal.abort(), new Stop()]).signal.aborted).toBe(true)
  })
})

describe('a promise until a signal aborts', () => {
  test('settles as the promise does, and leaves no task behind', async () => {
    const { signal } = new AbortController()
    const added = vi.spyOn(signal, 'addEventListener')
    const removed = vi.spyOn(signal, 'removeEventListener')
    expect(await untilAborted(Promise.resolve('done'), signal)).toBe('done')
    await expect(untilAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
    expect(removed).toHaveBeenCalledTimes(added.mock.calls.length)
  })

  test('rejects with the reason of the signal, also of one that has aborted', async () => {
    const controller = new AbortController()
    const never = untilAborted(new Promise(() => {}), controller.signal)
    controller.abort(new Error('stopped'))
    await expect(never).rejects.toThrow('stopped')
    await expect(untilAborted(Promise.resolve(), controller.signal)).rejects.toThrow('stopped')
  })
})
