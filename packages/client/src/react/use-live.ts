import { useMemo, useSyncExternalStore } from 'react'

interface Store<State> {
  readonly subscribe: (listener: () => void) => () => void
  readonly getSnapshot: () => State
}

/**
 * Renders with each state of the store with an id, and with `idle` without one. `idle` is also what a server renders, and
 * what the page hydrates with, even if the store has changed by then.
 */
export function useLive<State>(
  open: (id: string) => Store<State>,
  id: string | undefined,
  idle: State,
): State {
  const store = useMemo(() => (id === undefined ? undefined : open(id)), [open, id])
  const getIdle = () => idle
  return useSyncExternalStore(
    store?.subscribe ?? subscribeToNothing,
    store?.getSnapshot ?? getIdle,
    getIdle,
  )
}

/** The same function each time: React subscribes again to another one. */
function subscribeToNothing(): () => void {
  return () => {}
}
