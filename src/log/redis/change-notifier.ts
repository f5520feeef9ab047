import type { Clock } from '../../async/clock.ts'
import type { Listener, RedisConnection } from './connection.ts'

/** How often to look at urgent channels, should a notification be lost: a cancel has to arrive within a second. */
const TICK_MS = 700

/** How many ticks pass between looks at the others. */
const TICKS_PER_LOOK = 4

interface Channel {
  readonly listeners: Set<Listener>
  readonly everyTicks: number
  readonly dispatch: Listener
  isSubscribed: boolean
  working: Promise<void> | undefined
}

/**
 * Notifies followers that something in the store may have changed, over one connection for all of them. A
 * notification may be lost, so everything is also looked at from time to time, and when the connection is back.
 */
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

  /** Calls `listener` at every notification until the returned function is called. */
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

  /** Notifications may have been missed: all followers look. */
  lookAgain(): void {
    for (const { dispatch } of this.#channels.values()) dispatch()
  }

  /** All followers look for the last time. */
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

  /** Subscribes or unsubscribes as the listeners need it now, which may change meanwhile. */
  #settle(name: string, channel: Channel): Promise<void> {
    channel.working ??= this.#work(name, channel)
      .catch((error: unknown) => {
        // Closing the connection fails what is in flight.
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
