import type { Clock } from '@turnstream/core/internal/async/clock'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRetryable } from '../rules.ts'
import { Waiters } from '../tail.ts'
import type { Listener, RedisConnection } from './connection.ts'

/** How often to poll urgent channels in case a notification is lost: a cancel must arrive within a second. */
const TICK_MS = 700

const TICKS_PER_LOOK = 4

interface Channel {
  readonly listeners: Set<Listener>
  readonly everyTicks: number
  readonly dispatch: Listener
  isSubscribed: boolean
  working: Promise<void> | undefined
}

/** Notifies listeners of possible changes. Notifications may be lost, so it also polls, and after a reconnect. */
export class ChangeNotifier {
  readonly #connection: RedisConnection
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #channels = new Map<string, Channel>()
  #cancelTick: (() => void) | undefined
  #ticks = 0
  #closed = false

  constructor(connection: RedisConnection, clock: Clock, onError: (error: unknown) => void) {
    this.#connection = connection
    this.#clock = clock
    this.#onError = onError
  }

  /** Calls `listener` for every notification until the returned function is called. */
  async follow(name: string, listener: Listener, isUrgent = false): Promise<() => void> {
    const channel = this.#channels.get(name) ?? this.#add(name, isUrgent)
    channel.listeners.add(listener)
    this.#schedule()
    await this.#settle(name, channel)
    return () => {
      channel.listeners.delete(listener)
      void this.#settle(name, channel)
    }
  }

  /** Waits until `find` finds something. A temporarily unavailable store does not end the wait. */
  async waitFor<Found>(name: string, signal: AbortSignal, find: () => Promise<Found | undefined>) {
    const waiters = new Waiters()
    const wake = () => waiters.wake()
    const unfollow = await this.follow(name, wake, true)
    try {
      while (!signal.aborted) {
        const changed = waiters.wait(signal)
        const found = await find().catch((error: unknown) => {
          if (!isRetryable(error)) throw error
          this.#onError(error)
          return undefined
        })
        if (found !== undefined) return found
        await changed
      }
    } finally {
      // Removes the listener from the signal.
      wake()
      unfollow()
    }
    throw new TurnstreamError('ABORTED', 'the wait was aborted')
  }

  /** Notifications may have been missed: notifies all listeners. */
  lookAgain(): void {
    for (const { dispatch } of this.#channels.values()) dispatch()
  }

  close(): void {
    this.#closed = true
    this.#cancelTick?.()
    this.lookAgain()
    this.#channels.clear()
  }

  #add(name: string, isUrgent: boolean): Channel {
    const listeners = new Set<Listener>()
    const dispatch = () => {
      for (const listener of listeners) listener()
    }
    const everyTicks = isUrgent ? 1 : TICKS_PER_LOOK
    const channel = { listeners, dispatch, everyTicks, isSubscribed: false, working: undefined }
    this.#channels.set(name, channel)
    return channel
  }

  /** Subscribes or unsubscribes to match the current listeners, which may change meanwhile. */
  #settle(name: string, channel: Channel): Promise<void> {
    channel.working ??= this.#work(name, channel)
      .catch((error: unknown) => {
        // Closing the connection fails commands in flight.
        if (!this.#closed) this.#onError(error)
      })
      .finally(() => {
        channel.working = undefined
      })
    return channel.working
  }

  async #work(name: string, channel: Channel): Promise<void> {
    while (!this.#closed && channel.isSubscribed !== channel.listeners.size > 0) {
      const isWanted = channel.listeners.size > 0
      if (isWanted) await this.#connection.subscribe(name, channel.dispatch)
      else await this.#connection.unsubscribe(name, channel.dispatch)
      channel.isSubscribed = isWanted
    }
    if (channel.listeners.size === 0 && this.#channels.get(name) === channel) {
      this.#channels.delete(name)
    }
  }

  #schedule(): void {
    if (this.#closed || this.#cancelTick !== undefined) return
    this.#cancelTick = this.#clock.after(TICK_MS, () => {
      this.#cancelTick = undefined
      this.#tick()
    })
  }

  #tick(): void {
    this.#ticks += 1
    for (const [name, channel] of this.#channels) {
      if (this.#ticks % channel.everyTicks === 0) channel.dispatch()
      // Retries a failed subscription.
      if (channel.isSubscribed !== channel.listeners.size > 0) void this.#settle(name, channel)
    }
    if (this.#channels.size > 0) this.#schedule()
  }
}
