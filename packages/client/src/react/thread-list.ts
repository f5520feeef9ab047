import type { Client } from '../client/client.ts'
import type { ThreadList } from '../client/submit.ts'
import { isEqual } from '../client/view.ts'

export interface ThreadListState {
  readonly threads: ThreadList['threads']
  /** Whether `loadMore` has more. */
  readonly hasMore: boolean
  readonly isLoading: boolean
  /** Why the last load failed. */
  readonly error: Error | undefined
}

export const LOADING: ThreadListState = {
  threads: [],
  hasMore: false,
  isLoading: true,
  error: undefined,
}

const PAGE_LENGTH = 50
/** The most that the gateway returns at once. */
const MAX_PAGE_LENGTH = 200

const lists = new WeakMap<Client, SharedThreadList>()

export function threadListOf(client: Client): SharedThreadList {
  let list = lists.get(client)
  if (list === undefined) lists.set(client, (list = new SharedThreadList(client)))
  return list
}

/** Loads the list again if a component shows it. */
export function refreshThreads(client: Client): void {
  const list = lists.get(client)
  if (list?.isShown) void list.refresh()
}

/** The threads of a client, for all components that show them. */
class SharedThreadList {
  readonly #client: Client
  readonly #listeners = new Set<() => void>()
  #state = LOADING
  #nextCursor: string | undefined
  /** The newest load, which is the one that counts; undefined when it is over. */
  #load: object | undefined

  constructor(client: Client) {
    this.#client = client
  }

  get isShown(): boolean {
    return this.#listeners.size > 0
  }

  readonly getSnapshot = (): ThreadListState => this.#state

  readonly subscribe = (listener: () => void): (() => void) => {
    // A function may be subscribed twice.
    const call = () => listener()
    this.#listeners.add(call)
    if (this.#listeners.size === 1 && this.#load === undefined) void this.refresh()
    return () => this.#listeners.delete(call)
  }

  /** Loads as much as is shown. */
  readonly refresh = (): Promise<void> =>
    this.#request(async (isNewest) => {
      const count = Math.max(this.#state.threads.length, PAGE_LENGTH)
      let list: ThreadList = { threads: [] }
      do {
        const limit = Math.min(count - list.threads.length, MAX_PAGE_LENGTH)
        list = await this.#loadAfter(list, { limit })
      } while (list.nextCursor !== undefined && list.threads.length < count && isNewest())
      return list
    })

  readonly loadMore = async (): Promise<void> => {
    const nextCursor = this.#nextCursor
    if (nextCursor === undefined || this.#load !== undefined) return
    await this.#request(() => this.#loadAfter({ threads: this.#state.threads, nextCursor }))
  }

  /** Adds a page to a list. A thread that has moved meanwhile may be on two pages. */
  async #loadAfter(list: ThreadList, page: { limit?: number } = {}): Promise<ThreadList> {
    const { nextCursor: cursor } = list
    const next = await this.#client.threads({ ...page, ...(cursor !== undefined && { cursor }) })
    const known = new Set(list.threads.map(({ threadId }) => threadId))
    const added = next.threads.filter(({ threadId }) => !known.has(threadId))
    return { ...next, threads: [...list.threads, ...added] }
  }

  async #request(request: (isNewest: () => boolean) => Promise<ThreadList>): Promise<void> {
    const load = (this.#load = {})
    const isNewest = () => load === this.#load
    if (!this.#state.isLoading) this.#publish({ ...this.#state, isLoading: true, error: undefined })
    const state = await request(isNewest).then(
      (list): ThreadListState => {
        if (isNewest()) this.#nextCursor = list.nextCursor
        const threads = reuse(list.threads, this.#state.threads)
        const hasMore = list.nextCursor !== undefined
        return { threads, hasMore, isLoading: false, error: undefined }
      },
      (error: Error): ThreadListState => ({ ...this.#state, isLoading: false, error }),
    )
    if (!isNewest()) return
    this.#load = undefined
    this.#publish(state)
  }

  #publish(state: ThreadListState): void {
    this.#state = state
    for (const listener of Array.from(this.#listeners)) listener()
  }
}

/** Returns `threads` with what is equal in `known` in its place, so that memoised components do not render again. */
function reuse(
  threads: ThreadList['threads'],
  known: ThreadList['threads'],
): ThreadList['threads'] {
  const byId = new Map(known.map((thread) => [thread.threadId, thread]))
  const reused = threads.map((thread) => {
    const before = byId.get(thread.threadId)
    return before !== undefined && isEqual(thread, before) ? before : thread
  })
  const isSame =
    reused.length === known.length && reused.every((thread, at) => thread === known[at])
  return isSame ? known : reused
}
