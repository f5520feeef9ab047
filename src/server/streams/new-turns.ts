import type { Clock } from '../../async/clock.ts'
import { onAbort } from '../../log/on-abort.ts'
import type { TurnLog } from '../../log/turn-log.ts'

/** How long a turn that another process made may stay unnoticed, apart from the time that looking takes. */
const LOOK_EVERY_MS = 1000

/** How many threads are looked at together. */
const THREADS_PER_LOOK = 100

interface Follower {
  /** The newest turn that it knows of, 0 if there is none. */
  readonly newest: number
  readonly wake: () => void
}

/**
 * Wakes those who follow a thread when it has a new turn: at once when it was made here, and otherwise by
 * looking once a second, for all who follow the thread together and only while somebody does.
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

  /** A turn of this thread was made in this process. */
  announce(threadId: string): void {
    for (const { wake } of this.#followers.get(threadId) ?? []) wake()
  }

  /** Resolves when the turns of the thread may be others than up to `newest`, and when `signal` aborts. */
  wait(threadId: string, newest: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const follower = {
        newest,
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
    const newest = await this.#newestOf(threadId)
    for (const follower of this.#followers.get(threadId) ?? []) {
      if (follower.newest !== newest) follower.wake()
    }
  }

  /** Undefined when the store fails: those who follow then look for themselves, and meet the failure. */
  async #newestOf(threadId: string): Promise<number | undefined> {
    try {
      const { items } = await this.#log.listTurns(threadId, { first: 'newest', limit: 1 })
      return items[0]?.ordinal ?? 0
    } catch {
      return undefined
    }
  }
}
