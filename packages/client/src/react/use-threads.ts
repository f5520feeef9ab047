import { useSyncExternalStore } from 'react'
import type { Client } from '../client/client.ts'
import { LOADING, type ThreadListState, threadListOf } from './thread-list.ts'

export interface ThreadsState extends ThreadListState {
  /** Loads the list again. */
  readonly refresh: () => Promise<void>
  /** Loads the next page. */
  readonly loadMore: () => Promise<void>
}

/**
 * Lists the threads of the caller, the most recently changed first. Components share one list. It is loaded when the
 * first of them mounts, after each submit of `useSubmit`, and by `refresh`.
 *
 * @example
 * const { threads, hasMore, loadMore } = useThreads(client)
 */
export function useThreads(client: Client): ThreadsState {
  const list = threadListOf(client)
  const state = useSyncExternalStore(list.subscribe, list.getSnapshot, () => LOADING)
  return { ...state, refresh: list.refresh, loadMore: list.loadMore }
}
