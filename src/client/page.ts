import type { Clock } from '../async/clock.ts'

/** What a client needs to know of the page that it runs in. */
export interface Page {
  readonly isHidden: () => boolean
  /** Calls when the page is shown again or the network is back. Returns how to stop. */
  readonly onWake: (listener: () => void) => () => void
  /** Runs a task before the next frame is drawn, or soon where none is. Returns how to cancel. */
  readonly nextFrame: (task: () => void) => () => void
}

/** Frozen pages may get only one of these, and `pagehide` none. */
const WAKE_EVENTS = ['visibilitychange', 'pageshow', 'online']

const isHidden = () => globalThis.document?.hidden ?? false

/** The page of a browser. On servers nothing is hidden, and nothing is drawn. */
export const currentPage: Page = {
  isHidden,

  onWake(listener) {
    const stop = new AbortController()
    const wake = () => {
      if (!isHidden()) listener()
    }
    // Node has no global events.
    for (const type of WAKE_EVENTS) globalThis.addEventListener?.(type, wake, stop)
    return () => stop.abort()
  },

  nextFrame(task) {
    if (globalThis.document) {
      const frame = requestAnimationFrame(task)
      return () => cancelAnimationFrame(frame)
    }
    queueMicrotask(task)
    return () => {}
  },
}

/** As much of a clock as a client needs: it measures no time in which the machine does not sleep. */
export const currentClock: Clock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms)
    return () => clearTimeout(timer)
  },
}
