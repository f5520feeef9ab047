import type { Clock } from '../../async/clock.ts'

/** What a connection of `@redis/client` has that is needed here. */
export interface WatchedClient {
  readonly isReady: boolean
  sendCommand(args: string[], options: { readonly timeout: number }): Promise<unknown>
  on(event: 'error', listener: (error: unknown) => void): unknown
}

interface WatchOptions<T extends WatchedClient> {
  readonly clock: Clock
  /** How long a connection may leave a ping unanswered. */
  readonly limitMs: number
  /** The connections in use now, in an array of their own. */
  readonly clients: () => readonly T[]
  /** Called at most once per client: destroys it and replaces it. */
  readonly discard: (client: T, reason: Error) => void
}

/** A ping may be unanswered for so many ticks. Ticks, not time: a blocked event loop is not the server's fault. */
const TICKS = 4

interface Watched {
  /** Ticks since the ping was sent; undefined while none is in flight. */
  waitedTicks: number | undefined
  isDiscarded: boolean
}

/**
 * Pings every connection and discards those that stay silent or break the protocol. The client itself does
 * neither: its socket timeout is reset by every write, and after a malformed reply it goes on with the rest
 * of the bytes, so that replies may go to the wrong commands.
 */
export class Watch<T extends WatchedClient> {
  readonly #options: WatchOptions<T>
  readonly #watched = new WeakMap<T, Watched>()
  #cancelTick: () => void

  constructor(options: WatchOptions<T>) {
    this.#options = options
    for (const client of options.clients()) this.#add(client)
    this.#cancelTick = this.#tickLater()
  }

  stop(): void {
    this.#cancelTick()
  }

  #tickLater(): () => void {
    const { clock, limitMs } = this.#options
    return clock.after(limitMs / TICKS, () => {
      this.#cancelTick = this.#tickLater()
      for (const client of this.#options.clients()) this.#check(client)
    })
  }

  #check(client: T): void {
    const watched = this.#watched.get(client) ?? this.#add(client)
    if (watched.waitedTicks !== undefined) {
      watched.waitedTicks += 1
      if (watched.waitedTicks >= TICKS) {
        this.#discard(client, new Error(`Redis did not answer for ${this.#options.limitMs} ms`))
      }
    } else if (client.isReady) void this.#ping(client, watched)
  }

  async #ping(client: T, watched: Watched): Promise<void> {
    watched.waitedTicks = 0
    try {
      const reply = String(await client.sendCommand(['PING'], { timeout: 0 }))
      if (reply.toUpperCase() !== 'PONG') {
        this.#discard(client, new Error('Redis answered a ping with something else'))
      }
    } catch {
      // An error is an answer, and a lost connection is restored by the client.
    }
    watched.waitedTicks = undefined
  }

  #add(client: T): Watched {
    const watched: Watched = { waitedTicks: undefined, isDiscarded: false }
    this.#watched.set(client, watched)
    // A connection that was lost is not ready when its error is reported, one that sent garbage is.
    client.on('error', (cause) => {
      if (client.isReady) this.#discard(client, new Error('Redis broke the protocol', { cause }))
    })
    return watched
  }

  #discard(client: T, reason: Error): void {
    const watched = this.#watched.get(client)
    if (watched === undefined || watched.isDiscarded) return
    watched.isDiscarded = true
    this.#options.discard(client, reason)
    for (const each of this.#options.clients()) if (!this.#watched.has(each)) this.#add(each)
  }
}
