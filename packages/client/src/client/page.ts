import type { Clock } from '@turnstream/core/internal/async/clock'

/** The page that a client runs in. */
export interface PageLifecycle {
  readonly isHidden: () => boolean
  /** Calls `listener` when the page is shown or the network is back, and `onHide` when it is hidden, until stopped. */
  readonly onWake: (listener: () => void, onHide?: () => void) => () => void
  /** Runs a task before the next frame is drawn, or soon where none is. Tasks of one frame run in one go. */
  readonly nextFrame: (task: () => void) => void
}

/** Frozen pages may get only one of these, and `pagehide` none. */
const WAKE_EVENTS = ['visibilitychange', 'pageshow', 'online']

const isHidden = () => globalThis.document?.hidden ?? false

/** Returns the page of a browser. On servers nothing is hidden, and nothing is drawn. */
export const pageLifecycle = (): PageLifecycle => {
  let frame: Promise<unknown> | undefined

  return {
    isHidden,

    onWake(listener, onHide) {
      const stop = new AbortController()
      const wake = () => (isHidden() ? onHide?.() : listener())
      // Node has no global events.
      for (const type of WAKE_EVENTS) globalThis.addEventListener?.(type, wake, stop)
      return () => stop.abort()
    },

    nextFrame(task) {
      // All tasks run with one frame: React then renders a component once, even if several of them change it.
      frame ??= new Promise<unknown>((resolve) => {
        if (globalThis.document) requestAnimationFrame(resolve)
        else resolve(undefined)
      }).finally(() => {
        frame = undefined
      })
      void frame.then(task)
    },
  }
}

/** As much of a clock as a client needs: it measures no time in which the machine does not sleep. */
export const currentClock: Clock = {
  now: () => Date.now(),
  after(ms, task) {
    const timer = setTimeout(task, ms)
    return () => clearTimeout(timer)
  },
}
