import type { Clock } from '../../async/clock.ts'
import { onAbort } from '../../log/on-abort.ts'
import type { TurnLog } from '../../log/turn-log.ts'

/** How long a turn that another process made may stay unnoticed, apart from the time that looking takes. */
const LOOK_EVERY_MS = 1000

/** How many threads are looked at together. */
const THREADS_PER_LOOK = 100

/** A thread as a subscriber knows it. */
export interface KnownThread {
  /** Tells it from a later thread with the same id. */
  readonly creation: string
  /** The ordinal of its newest turn, 0 if it has none. */
  readonly newest: number
}

interface Follower extends KnownThread {
  readonly wake: () => void
}

/**
 * Notifies thread subscribers of new turns and of the thread's deletion. What this process does is announced
 * immediately; what others do is found by polling once a second, with one shared poll per thread while it has
 * subscribers.
 */
export class NewTurns {
  readonly #log: TurnLog
  readonly #clock: Clock
  readonly #followers = new Map<string, Set<Follower>>()
  #isLooking = false
  #cancelTimer: (() => void) | undefined

  constructor(log: TurnLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** A turn of this thread was created in this process, or the thread was deleted. */
  announce(threadId: string): void {
    for (const { wake } of this.#followers.get(threadId) ?? []) wake()
  }

  /** Resolves when the thread may be another than the known one, and when `signal` aborts. */
  wait(threadId: string, known: KnownThread, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const follower = {
        ...known,
        wake: () => {
          stopListening()
          this.#remove(threadId, follower)
          resolve()
        },
      }
      const stopListening = onAbort(signal, follower.wake)
      this.#add(threadId, follower)
    })
  }

  /** How many wait. */
  get size(): number {
    let sum = 0
    for (const followers of this.#followers.values()) sum += followers.size
    return sum
  }

  #add(threadId: string, follower: Follower): void {
    const followers = this.#followers.get(threadId)
    if (followers === undefined) this.#followers.set(threadId, new Set([follower]))
    else followers.add(follower)
    this.#arm()
  }

  #remove(threadId: string, follower: Follower): void {
    const followers = this.#followers.get(threadId)
    followers?.delete(follower)
    if (followers?.size === 0) this.#followers.delete(threadId)
    if (this.#followers.size > 0) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #arm(): void {
    if (this.#isLooking || this.#cancelTimer !== undefined) return
    this.#cancelTimer = this.#clock.after(LOOK_EVERY_MS, () => {
      this.#cancelTimer = undefined
      void this.#lookAtAll()
    })
  }

  async #lookAtAll(): Promise<void> {
    this.#isLooking = true
    const threadIds = [...this.#followers.keys()]
    for (let at = 0; at < threadIds.length; at += THREADS_PER_LOOK) {
      const some = threadIds.slice(at, at + THREADS_PER_LOOK)
      await Promise.all(some.map((threadId) => this.#look(threadId)))
    }
    this.#isLooking = false
    if (this.#followers.size > 0) this.#arm()
  }

  async #look(threadId: string): Promise<void> {
    const found = await this.#find(threadId)
    for (const follower of this.#followers.get(threadId) ?? []) {
      const isSame = follower.creation === found?.creation && follower.newest === found.newest
      if (!isSame) follower.wake()
    }
  }

  /** Undefined when there is none, and when the store fails: subscribers then look, and meet the failure. */
  async #find(threadId: string): Promise<KnownThread | undefined> {
    try {
      const { items } = await this.#log.listTurns(threadId, { first: 'newest', limit: 1 })
      const thread = await this.#log.getThread(threadId)
      return thread && { creation: thread.creation, newest: items[0]?.ordinal ?? 0 }
    } catch {
      return undefined
    }
  }
}
