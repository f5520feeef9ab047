import { setImmediate as settled } from 'node:timers/promises'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { pageLifecycle } from '../../src/client/page.ts'

afterEach(() => {
  vi.unstubAllGlobals()
})

/** As much of a browser as the page needs. */
function browser() {
  const events = new EventTarget()
  const frames: (() => void)[] = []
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
  vi.stubGlobal('requestAnimationFrame', (task: () => void) => frames.push(task))
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
    const stop = pageLifecycle().onWake(wake)
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

  test('a page that is hidden is told so, once', () => {
    const { show } = browser()
    const [wake, hide] = [vi.fn<() => void>(), vi.fn<() => void>()]
    const stop = pageLifecycle().onWake(wake, hide)
    show(false)
    expect([wake.mock.calls.length, hide.mock.calls.length]).toEqual([0, 1])
    stop()
    show(false)
    expect(hide).toHaveBeenCalledTimes(1)
  })

  test('tasks run with the next frame, before anything that they start', async () => {
    const { frames } = browser()
    const page = pageLifecycle()
    const order: string[] = []
    page.nextFrame(() => {
      order.push('first')
      queueMicrotask(() => order.push('render'))
    })
    page.nextFrame(() => order.push('second'))
    await settled()
    expect(order).toEqual([])
    expect(frames).toHaveLength(1)
    frames.pop()?.()
    await settled()
    expect(order).toEqual(['first', 'second', 'render'])
    page.nextFrame(() => order.push('third'))
    expect(frames).toHaveLength(1)
  })
})

test('elsewhere nothing is hidden, nothing wakes, and tasks run soon', async () => {
  const page = pageLifecycle()
  expect(page.isHidden()).toBe(false)
  page.onWake(() => {})()
  const task = vi.fn<() => void>()
  page.nextFrame(task)
  await settled()
  expect(task).toHaveBeenCalledTimes(1)
})
