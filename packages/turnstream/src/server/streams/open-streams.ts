import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import { onAbort } from '@turnstream/core/internal/async/on-abort'
import type { Caller } from '../auth/authenticate.ts'
import { once } from '../once.ts'
import type { SseConnection } from './sse-connection.ts'

/** What a stream carries: raw events, the snapshots of a turn or of a thread, or a turn in a vendor's dialect. */
export type StreamKind = keyof OpenStreams['counts']['clients']

export interface OpenStreamsOptions {
  readonly clock: Clock
  readonly heartbeatMs: number
  readonly closing: AbortSignal
}

/** The open streams of a server, with one heartbeat timer. All end when the server closes. */
export class OpenStreams {
  readonly counts = {
    clients: { v2: 0, xapi: 0, thread: 0, chat: 0, responses: 0, messages: 0 },
    resyncs: { foreign: 0, trimmed: 0 },
    /** Snapshots superseded before a connected client could read them. */
    skipped: 0,
  }
  /** Readers of vendors' APIs, streaming or not. */
  readonly readers = new TurnReaders()
  readonly #clock: Clock
  /** How long a stream may be silent before a comment is sent. */
  readonly heartbeatMs: number
  /** Longest silent first: a Set preserves insertion order. */
  readonly #open = new Set<SseConnection>()
  #cancelTimer: (() => void) | undefined

  constructor({ clock, heartbeatMs, closing }: OpenStreamsOptions) {
    this.#clock = clock
    this.heartbeatMs = Math.max(1, Math.round(heartbeatMs))
    onAbort(closing, () => {
      for (const connection of this.#open) connection.end()
    })
  }

  get size(): number {
    return this.#open.size
  }

  /** How long the slowest client has been behind, in ms; 0 if none is. */
  get longestLag(): number {
    let since = Infinity
    for (const connection of this.#open) since = Math.min(since, connection.behindSince ?? Infinity)
    return since === Infinity ? 0 : Math.max(0, this.now() - since)
  }

  /** Cuts the streams of callers whose access was revoked. */
  cutUnless(mayRead: (caller: Caller) => boolean): void {
    for (const connection of this.#open) if (!mayRead(connection.caller)) connection.cut()
  }

  now(): number {
    return monotonicNow(this.#clock)
  }

  add(connection: SseConnection): void {
    this.counts.clients[connection.kind] += 1
    connection.silentSince = this.now()
    this.#open.add(connection)
    if (this.#cancelTimer === undefined) this.#arm(this.heartbeatMs)
  }

  touch(connection: SseConnection): void {
    const now = this.now()
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
      const silence = this.now() - connection.silentSince
      // Negative if the clock was set back: the silence is then unknown.
      if (silence >= 0 && silence < this.heartbeatMs) return this.#arm(this.heartbeatMs - silence)
      this.touch(connection)
      connection.beat()
    }
  }
}

/** Counts who follows a turn in this process: the last one that disconnects may cancel it. */
class TurnReaders {
  readonly #counts = new Map<string, number>()

  /** Returns a function that ends the reading, and returns whether no reader is left. */
  add(tenant: string, turnId: string): () => boolean {
    // Tenant names contain no space.
    const key = `${tenant} ${turnId}`
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    const remove = once(() => {
      const count = (this.#counts.get(key) ?? 1) - 1
      if (count === 0) this.#counts.delete(key)
      else this.#counts.set(key, count)
    })
    return () => {
      remove()
      return !this.#counts.has(key)
    }
  }
}
