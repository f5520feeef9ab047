import type { Client } from '../client/client.ts'
import type { ThreadList } from '../client/submit.ts'

export interface ThreadListState {
  readonly threads: ThreadList['threads']
  /** Whether `loadMore` has more. */
  readonly hasMore: boolean
  readonly isLoading: boolean
  /** Why the last load failed. */
  readonly error: Error | undefined
}

/** Before the first load. */
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

  readonly refresh = async (): Promise<void> => {
    const shown = Math.max(this.#state.threads.length, PAGE_LENGTH)
    await this.#request({ limit: Math.min(shown, MAX_PAGE_LENGTH) }, [])
  }

  readonly loadMore = async (): Promise<void> => {
    const cursor = this.#nextCursor
    if (cursor === undefined || this.#load !== undefined) return
    await this.#request({ cursor }, this.#state.threads)
  }

  async #request(
    page: { limit?: number; cursor?: string },
    before: ThreadList['threads'],
  ): Promise<void> {
    const load = (this.#load = {})
    if (!this.#state.isLoading) this.#publish({ ...this.#state, isLoading: true, error: undefined })
    const state = await this.#client.threads(page).then(
      ({ threads, nextCursor }): ThreadListState => {
        if (load === this.#load) this.#nextCursor = nextCursor
        const known = new Set(before.map(({ threadId }) => threadId))
        const added = threads.filter(({ threadId }) => !known.has(threadId))
        const hasMore = nextCursor !== undefined
        return { threads: [...before, ...added], hasMore, isLoading: false, error: undefined }
      },
      (error: Error): ThreadListState => ({ ...this.#state, isLoading: false, error }),
    )
    if (load !== this.#load) return
    this.#load = undefined
    this.#publish(state)
  }

  #publish(state: ThreadListState): void {
    this.#state = state
    for (const listener of Array.from(this.#listeners)) listener()
  }
}
