import type { Clock } from '../../async/clock.ts'
import type { Listener, RedisConnection } from './connection.ts'

/** How soon a lost hint about the owner of a turn is made up for: a cancel has to arrive within a second. */
const TICK_MS = 700

/** Lost hints about logs may take longer: so many ticks. */
const TICKS_PER_LOOK = 4

interface Channel {
  readonly listeners: Set<Listener>
  readonly everyTicks: number
  readonly dispatch: Listener
  isSubscribed: boolean
  working: Promise<void> | undefined
}

interface HintOptions {
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

/**
 * Tells those who follow something in the store that it may have changed. One connection carries the
 * hints for all of them. A hint may be lost, so that everything is also looked at from time to time, and
 * at once when the connection is back.
 */
export class Hints {
  readonly #connection: RedisConnection
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #channels = new Map<string, Channel>()
  #cancelTick: (() => void) | undefined
  #ticks = 0
  #closed = false

  constructor(connection: RedisConnection, { clock, onError }: HintOptions) {
    this.#connection = connection
    this.#clock = clock
    this.#onError = onError
  }

  /** Calls `listener` at every hint until the returned function is called. */
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

  /** Hints may have been missed: everybody looks. */
  lookAgain(): void {
    for (const { dispatch } of this.#channels.values()) dispatch()
  }

  /** Everybody looks for the last time. */
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

  /** Brings the subscription to what is wanted now, which may change while it is under way. */
  #settle(name: string, channel: Channel): Promise<void> {
    channel.working ??= this.#work(name, channel)
      .catch((error: unknown) => {
        // At the end the connection goes, and what was asked of it with it.
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
      // A subscription that failed is tried again.
      if (channel.isSubscribed !== channel.listeners.size > 0) void this.#settle(name, channel)
    }
    if (this.#channels.size > 0) this.#schedule()
  }
}
