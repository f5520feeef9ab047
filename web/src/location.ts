import { useSyncExternalStore } from 'preact/compat'

const listeners = new Set<() => void>()

/** The thread that the address names. */
export function useThreadId(): string | undefined {
  return useSyncExternalStore(subscribe, threadId)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  addEventListener('popstate', listener)
  return () => {
    listeners.delete(listener)
    removeEventListener('popstate', listener)
  }
}

function threadId(): string | undefined {
  return new URLSearchParams(location.search).get('thread') ?? undefined
}

export function threadAddress(id: string | undefined): string {
  return id === undefined ? './' : `?thread=${encodeURIComponent(id)}`
}

/** Shows a thread, or the start of a new one. */
export function showThread(id: string | undefined): void {
  history.pushState(null, '', threadAddress(id))
  for (const listener of listeners) listener()
}

/** For links: a click does something here, a click with a modifier key opens a tab as usual. */
export function onPlainClick(event: MouseEvent, act: () => void): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
  event.preventDefault()
  act()
}

export function followLink(event: MouseEvent, id: string | undefined): void {
  onPlainClick(event, () => showThread(id))
}
