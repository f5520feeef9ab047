import { encodeComment, encodeSse } from '../../sse/encode.ts'
import type { Caller } from '../auth/caller.ts'
import type { StreamSlot } from '../limits/key-limits.ts'
import { Frame } from './frame.ts'
import type { OpenStreams } from './open-streams.ts'
import type { SseSink } from './sse-sink.ts'
import type { StreamCounts, StreamKind } from './stream-counts.ts'

/** How long a reader that lost its connection waits before it comes back, in ms. */
const RETRY_MS = 1000

/** Larger than nearly every answer of a model, and small enough for each of a key's streams to hold one. */
const SMALL_FRAME_BYTES = 256 * 1024

const HEARTBEAT = new Frame(encodeComment('heartbeat'))

/**
 * One open SSE response. Everything that is sent is a whole frame, so that a comment never falls into one.
 * After the end, or when the reader has left, sending does nothing.
 */
export class SseConnection {
  /** By the clock; for `OpenStreams`. */
  silentSince = 0
  /**
   * What is sent before the end, whoever ends it: for readers that would take a stream which just stops for
   * one that is whole.
   */
  lastWords: Frame | undefined
  /** Since when the reader has taken nothing of what waits for it; undefined while it keeps up. */
  behindSince: number | undefined
  readonly kind: StreamKind
  /** Who reads. */
  readonly caller: Caller
  readonly #streams: OpenStreams
  readonly #slot: StreamSlot
  readonly #left = new AbortController()
  #sink: SseSink | undefined

  /** The slot is given back when the connection is closed, whether it was open or not. */
  constructor(streams: OpenStreams, slot: StreamSlot, kind: StreamKind, caller: Caller) {
    this.kind = kind
    this.caller = caller
    this.#streams = streams
    this.#slot = slot
  }

  /** Those of all streams of the server. */
  get counts(): StreamCounts {
    return this.#streams.counts
  }

  /** Aborts when nobody reads any more. */
  get signal(): AbortSignal {
    return this.#left.signal
  }

  /**
   * Sends the first bytes: how long to wait before coming back, and the cursor to come back with, because a
   * connection may break before the first record. Without a cursor there is nothing to come back with, and
   * nothing is sent.
   */
  open(sink: SseSink, cursor: string | undefined): void {
    this.#sink = sink
    this.#streams.add(this)
    if (cursor === undefined) return
    this.send(new Frame(encodeSse({ retry: RETRY_MS }) + encodeSse({ id: cursor })))
  }

  /** False when the reader is behind: then `drained` says when to go on. */
  send(frame: Frame): boolean {
    if (this.#sink === undefined) return true
    this.#streams.touch(this)
    return this.#sink.write(frame)
  }

  async drained(): Promise<void> {
    if (this.#sink === undefined) return
    this.behindSince = this.#streams.now()
    const release = this.#slot.unsent.hold(this.#sink.waitingBytes)
    await this.#sink.drained()
    release()
    this.behindSince = undefined
  }

  /**
   * The clients of the key leave too much unread for a frame of this size: wait for `room`, and look again. Small
   * frames are always sent, so that a few clients that do not read stop none that do.
   */
  isHeldBack({ chunk }: Frame): boolean {
    if (chunk.byteLength <= SMALL_FRAME_BYTES || !this.#slot.unsent.isFull) return false
    return !this.signal.aborted
  }

  /** Resolves when others of the key have taken something, or nobody reads here any more. */
  room(): Promise<void> {
    return this.#slot.unsent.room(this.signal)
  }

  /** A sign of life, unless something waits to be sent anyway. */
  beat(): void {
    if (this.#sink?.waitingBytes === 0) this.#sink.write(HEARTBEAT)
  }

  end(): void {
    if (this.lastWords !== undefined) this.send(this.lastWords)
    const sink = this.#sink
    this.close()
    sink?.end()
  }

  /** Stops in the middle, so that the reader comes back. */
  cut(): void {
    const sink = this.#sink
    this.close()
    sink?.cut()
  }

  /** The reader has left, or nothing more will be sent. */
  readonly close = (): void => {
    this.#slot.free()
    if (this.#sink === undefined) return
    this.#sink = undefined
    this.#streams.delete(this)
    this.#left.abort()
  }
}
