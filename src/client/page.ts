/** What a client needs to know of the page that it runs in. */
export interface Page {
  readonly isHidden: () => boolean
  /** Calls when the page is shown again or the network is back. Returns how to stop. */
  readonly onWake: (listener: () => void) => () => void
  /** Runs a task before the next frame is drawn, or as a microtask where none is. Returns how to cancel. */
  readonly nextFrame: (task: () => void) => () => void
}

/** Frozen pages may get only one of these, and `pagehide` none. */
const WAKE_EVENTS = ['visibilitychange', 'pageshow', 'online']

/** The page of a browser. In workers and on servers nothing is hidden, and nothing is drawn. */
export const currentPage: Page = {
  isHidden: () => typeof document === 'object' && document.visibilityState === 'hidden',

  onWake(listener) {
    return listen(WAKE_EVENTS, () => {
      if (!currentPage.isHidden()) listener()
    })
  },

  nextFrame(task) {
    // A hidden page draws no frames, and its timers are late.
    if (typeof document !== 'object' || currentPage.isHidden()) return microtask(task)
    const run = () => {
      cancel()
      task()
    }
    const frame = requestAnimationFrame(run)
    const stopListening = listen(['visibilitychange'], run)
    const cancel = () => {
      cancelAnimationFrame(frame)
      stopListening()
    }
    return cancel
  },
}

function microtask(task: () => void): () => void {
  let isCancelled = false
  queueMicrotask(() => {
    if (!isCancelled) task()
  })
  return () => {
    isCancelled = true
  }
}

function listen(types: readonly string[], listener: () => void): () => void {
  // Node has no global events.
  if (typeof addEventListener !== 'function') return () => {}
  for (const type of types) addEventListener(type, listener)
  return () => {
    for (const type of types) removeEventListener(type, listener)
  }
}
