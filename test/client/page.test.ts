import { afterEach, describe, expect, test, vi } from 'vitest'
import { currentPage } from '../../src/client/page.ts'

afterEach(() => {
  vi.unstubAllGlobals()
})

/** As much of a browser as the page needs. */
function browser() {
  const events = new EventTarget()
  const frames = new Map<number, () => void>()
  const document = { hidden: false }
  const listening = vi.fn<(change: number) => void>()
  vi.stubGlobal('document', document)
  const listen: typeof globalThis.addEventListener = (
    type: string,
    listener: EventListenerOrEventListenerObject,
    options?: AddEventListenerOptions | boolean,
  ) => {
    listening(1)
    events.addEventListener(type, listener, options)
    const signal = typeof options === 'object' ? options.signal : undefined
    signal?.addEventListener('abort', () => listening(-1))
  }
  vi.stubGlobal('addEventListener', listen)
  let next = 0
  vi.stubGlobal('requestAnimationFrame', (task: () => void) => {
    next += 1
    frames.set(next, task)
    return next
  })
  vi.stubGlobal('cancelAnimationFrame', (id: number) => frames.delete(id))
  return {
    frames,
    /** How many listeners are left. */
    left: () => listening.mock.calls.reduce((sum, [count]) => sum + count, 0),
    fire: (type: string) => events.dispatchEvent(new Event(type)),
    show: (isVisible: boolean) => {
      document.hidden = !isVisible
      events.dispatchEvent(new Event('visibilitychange'))
    },
  }
}

describe('in a browser', () => {
  test.each(['pageshow', 'online', 'visibilitychange'])('%s wakes a visible page', (type) => {
    const { fire, show, left } = browser()
    const wake = vi.fn<() => void>()
    const stop = currentPage.onWake(wake)
    fire(type)
    expect(wake).toHaveBeenCalledTimes(1)
    show(false)
    fire(type)
    expect(wake).toHaveBeenCalledTimes(1)
    show(true)
    expect(wake).toHaveBeenCalledTimes(2)
    stop()
    fire(type)
    expect(wake).toHaveBeenCalledTimes(2)
    expect(left()).toBe(0)
  })

  test('a task runs with the next frame, unless it is cancelled', () => {
    const { frames } = browser()
    const task = vi.fn<() => void>()
    currentPage.nextFrame(task)
    frames.get(1)?.()
    expect(task).toHaveBeenCalledTimes(1)
    currentPage.nextFrame(task)()
    expect([...frames.keys()]).toEqual([1])
  })
})

test('elsewhere nothing is hidden, nothing wakes, and tasks run soon', async () => {
  expect(currentPage.isHidden()).toBe(false)
  currentPage.onWake(() => {})()
  const task = vi.fn<() => void>()
  currentPage.nextFrame(task)()
  await Promise.resolve()
  expect(task).toHaveBeenCalledTimes(1)
})
