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

const hasDocument = () => typeof document === 'object'

const isHidden = () => hasDocument() && document.visibilityState === 'hidden'

/** The page of a browser. In workers and on servers nothing is hidden, and nothing is drawn. */
export const currentPage: Page = {
  isHidden,

  onWake(listener) {
    const wake = () => {
      if (!isHidden()) listener()
    }
    // Node has no global events.
    for (const type of WAKE_EVENTS) globalThis.addEventListener?.(type, wake)
    return () => {
      for (const type of WAKE_EVENTS) globalThis.removeEventListener?.(type, wake)
    }
  },

  nextFrame(task) {
    if (hasDocument()) {
      const frame = requestAnimationFrame(task)
      return () => cancelAnimationFrame(frame)
    }
    queueMicrotask(task)
    return () => {}
  },
}
