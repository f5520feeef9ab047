import { type Clock, monotonicNow } from '../../async/clock.ts'
import { onAbort } from '../../log/on-abort.ts'
import type { Caller } from '../auth/caller.ts'
import type { SseConnection } from './sse-connection.ts'
import { newStreamCounts } from './stream-counts.ts'

export interface OpenStreamsOptions {
  readonly clock: Clock
  readonly heartbeatMs: number
  readonly closing: AbortSignal
}

/**
 * The open streams of a server. All of them share one timer for their heartbeats: it is set for the one
 * that has been silent longest. When the server closes, all of them end.
 */
export class OpenStreams {
  readonly counts = newStreamCounts()
  readonly #clock: Clock
  readonly #heartbeatMs: number
  /** The one that has been silent longest comes first: a Set keeps the order in which it was filled. */
  readonly #open = new Set<SseConnection>()
  #cancelTimer: (() => void) | undefined

  constructor({ clock, heartbeatMs, closing }: OpenStreamsOptions) {
    this.#clock = clock
    this.#heartbeatMs = Math.max(1, heartbeatMs)
    onAbort(closing, () => {
      for (const connection of this.#open) connection.end()
    })
  }

  get size(): number {
    return this.#open.size
  }

  /** For how long the one that has been behind longest has been so, in ms; 0 when nobody is behind. */
  get longestLag(): number {
    let since = Infinity
    for (const connection of this.#open) since = Math.min(since, connection.behindSince ?? Infinity)
    return since === Infinity ? 0 : Math.max(0, monotonicNow(this.#clock) - since)
  }

  /** Breaks off the streams of all who may not read any more. */
  cutUnless(mayRead: (caller: Caller) => boolean): void {
    for (const connection of this.#open) if (!mayRead(connection.caller)) connection.cut()
  }

  now(): number {
    return monotonicNow(this.#clock)
  }

  add(connection: SseConnection): void {
    this.counts.clients[connection.kind] += 1
    connection.silentSince = monotonicNow(this.#clock)
    this.#open.add(connection)
    if (this.#cancelTimer === undefined) this.#arm(this.#heartbeatMs)
  }

  /** Something is sent on a connection that was added. */
  touch(connection: SseConnection): void {
    const now = monotonicNow(this.#clock)
    if (connection.silentSince === now) return
    connection.silentSince = now
    this.#open.delete(connection)
    this.#open.add(connection)
  }

  delete(connection: SseConnection): void {
    if (this.#open.delete(connection)) this.counts.clients[connection.kind] -= 1
    if (this.#open.size > 0) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #arm(ms: number): void {
    this.#cancelTimer = this.#clock.after(ms, this.#beat)
  }

  readonly #beat = (): void => {
    this.#cancelTimer = undefined
    for (const connection of this.#open) {
      const silence = monotonicNow(this.#clock) - connection.silentSince
      // A clock may be set back: then it is not known how long the silence has lasted.
      if (silence >= 0 && silence < this.#heartbeatMs) return this.#arm(this.#heartbeatMs - silence)
      this.touch(connection)
      connection.beat()
    }
  }
}
