import type { Clock } from '@turnstream/core/internal/async/clock'
import { onAbort, type StopSignal } from '@turnstream/core/internal/async/on-abort'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'

/** How often to poll for turns that other processes created. */
const POLL_MS = 1000

const THREADS_PER_POLL = 100

/** A thread as last seen by a subscriber. */
export interface KnownThread {
  /** Distinguishes it from a later thread with the same id. */
  readonly creation: string
  /** Ordinal of its newest turn; 0 if it has none. */
  readonly newest: number
}

interface Subscriber extends KnownThread {
  readonly wake: () => void
}

/**
 * Notifies subscribers of new turns and of deleted threads. Changes by this process are announced immediately; others
 * are found by polling once a second, once for all subscribers of a thread.
 */
export class NewTurns {
  readonly #log: TurnLog
  readonly #clock: Clock
  readonly #subscribers = new Map<string, Set<Subscriber>>()
  #isPolling = false
  #cancelTimer: (() => void) | undefined

  constructor(log: TurnLog, clock: Clock) {
    this.#log = log
    this.#clock = clock
  }

  /** Announces a turn created, or the thread deleted, in this process. */
  announce(threadId: string): void {
    for (const { wake } of this.#subscribers.get(threadId) ?? []) wake()
  }

  /** Resolves when the thread may have changed, or when `signal` aborts. */
  wait(threadId: string, known: KnownThread, signal: StopSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const subscribers = this.#subscribers.get(threadId) ?? new Set()
      const wake = () => {
        stopListening()
        this.#remove(threadId, subscriber)
        resolve()
      }
      const subscriber = { ...known, wake }
      const stopListening = onAbort(signal, wake)
      this.#subscribers.set(threadId, subscribers.add(subscriber))
      this.#arm()
    })
  }

  get size(): number {
    let sum = 0
    for (const subscribers of this.#subscribers.values()) sum += subscribers.size
    return sum
  }

  #remove(threadId: string, subscriber: Subscriber): void {
    const subscribers = this.#subscribers.get(threadId)
    subscribers?.delete(subscriber)
    if (subscribers?.size === 0) this.#subscribers.delete(threadId)
    if (this.#subscribers.size > 0) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #arm(): void {
    if (this.#isPolling || this.#cancelTimer !== undefined) return
    this.#cancelTimer = this.#clock.after(POLL_MS, () => {
      this.#cancelTimer = undefined
      void this.#pollAll()
    })
  }

  async #pollAll(): Promise<void> {
    this.#isPolling = true
    const threadIds = [...this.#subscribers.keys()]
    for (let at = 0; at < threadIds.length; at += THREADS_PER_POLL) {
      const some = threadIds.slice(at, at + THREADS_PER_POLL)
      await Promise.all(some.map((threadId) => this.#poll(threadId)))
    }
    this.#isPolling = false
    if (this.#subscribers.size > 0) this.#arm()
  }

  async #poll(threadId: string): Promise<void> {
    const found = await this.#find(threadId)
    for (const subscriber of this.#subscribers.get(threadId) ?? []) {
      const isSame = subscriber.creation === found?.creation && subscriber.newest === found.newest
      if (!isSame) subscriber.wake()
    }
  }

  /** Undefined when there is none or the store fails; subscribers then read and get the error. */
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
