import { useEffect } from 'preact/hooks'
import { type ThreadsState, useThreads } from '../../packages/client/src/react.ts'
import { client } from './gateway.ts'

/** Tells the other tabs that the list changed. */
const channel = new BroadcastChannel(`turnstream.threads ${document.baseURI.split('?')[0]}`)
const listeners = new Set<() => void>()

export function threadsChanged(): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a channel has one origin
  channel.postMessage(null)
  for (const listener of listeners) listener()
}

/** The list of threads. It is loaded again when something changes here or in another tab, and when the page is shown. */
export function useThreadList(): ThreadsState {
  const list = useThreads(client)
  const { refresh } = list

  useEffect(() => {
    const reload = () => void refresh()
    const whenShown = () => document.visibilityState === 'visible' && reload()
    listeners.add(reload)
    channel.addEventListener('message', reload)
    document.addEventListener('visibilitychange', whenShown)
    return () => {
      listeners.delete(reload)
      channel.removeEventListener('message', reload)
      document.removeEventListener('visibilitychange', whenShown)
    }
  }, [refresh])
  return list
}
