import { ServerResponse } from 'node:http'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Stop, type StopSignal } from '@turnstream/core/internal/async/on-abort'
import { isTurnMissing, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { heartbeatAnnouncement } from '@turnstream/core/internal/protocol/heartbeat'
import { encodeComment, encodeSse } from '@turnstream/core/internal/sse/encode'
import type { Context } from 'hono'
import { type Caller, revoked } from '../auth/authenticate.ts'
import { onResponseClose, releaseRequest } from '../client-close.ts'
import type { ErrorHandler, GatewayContext, GatewayEnv } from '../context.ts'
import type { StreamSlot } from '../limits/key-limits.ts'
import { Frame, LAST_CHUNK } from './frames.ts'
import type { OpenStreams, StreamKind } from './open-streams.ts'

const RETRY_MS = 1000

/** How many bytes to buffer for a client. One that is further behind reads from the log later. */
export const MAX_WAITING_BYTES = 64 * 1024

const HEARTBEAT = new Frame(encodeComment('heartbeat'))

export type ConnectionDeps = Pick<SseConnection, 'streams' | 'slot' | 'kind' | 'caller'>

/** One open SSE response. Sends only complete frames, and nothing after the end or a disconnect. */
export abstract class SseConnection {
  /** Time of the last write, for `OpenStreams`. */
  silentSince = 0
  /** Sent before the end, for clients that take a stream that stops for a complete one. Undefined cuts the stream. */
  lastWords: (() => Frame | undefined) | undefined
  /** What is sent in place of a comment while the stream is silent; a comment if it is empty. */
  heartbeat: (() => string) | undefined
  /** Since when the client has read nothing of what is buffered; undefined while it keeps up. */
  behindSince: number | undefined
  readonly kind: StreamKind
  readonly caller: Caller
  readonly streams: OpenStreams
  readonly slot: StreamSlot
  readonly #stop = new Stop()
  #isOpen = false
  #draining: Promise<void> | undefined

  constructor({ streams, slot, kind, caller }: ConnectionDeps) {
    this.kind = kind
    this.caller = caller
    this.streams = streams
    this.slot = slot
  }

  abstract readonly waitingBytes: number
  /** False when the buffer is full. */
  protected abstract write(frame: Frame): boolean
  /** Resolves when everything was read or the client disconnected, also if that already happened. */
  protected abstract taken(): Promise<void>
  protected abstract endBody(): void
  /** Aborts the body, so that the client detects the interruption. */
  protected abstract cutBody(): void

  /** Aborts when the client disconnects or nothing more will be sent. */
  get signal(): StopSignal {
    return this.#stop
  }

  /**
   * Sends the retry delay, the heartbeat interval and the cursor, because a connection may break before the first record.
   * Without a cursor the stream cannot be resumed, and nothing is sent.
   */
  open(cursor: string | undefined): void {
    this.#isOpen = true
    this.streams.add(this)
    if (cursor === undefined) return
    const comment = heartbeatAnnouncement(this.streams.heartbeatMs)
    this.send(new Frame(encodeSse({ retry: RETRY_MS, comment }) + encodeSse({ id: cursor })))
  }

  /** False when the client is behind: then await `drained`. */
  send(frame: Frame): boolean {
    if (!this.#isOpen) return true
    this.streams.touch(this)
    return this.write(frame)
  }

  /** Whether what was sent waits for the client. */
  get isBehind(): boolean {
    return this.#draining !== undefined
  }

  /** Resolves when the client has read everything, or disconnected. Several threads may wait at once. */
  drained(): Promise<void> {
    this.#draining ??= this.#drain().finally(() => {
      this.#draining = undefined
    })
    return this.#draining
  }

  async #drain(): Promise<void> {
    if (!this.#isOpen) return
    this.behindSince = this.streams.now()
    const release = this.slot.hold(this.waitingBytes)
    await this.taken()
    release()
    this.behindSince = undefined
  }

  /** Whether to await `room`, before a frame of this size is encoded. */
  isHeldBack(bytes: number): boolean {
    return this.slot.isHeldBack(bytes) && !this.signal.aborted
  }

  /** Resolves when the clients of the key have read enough for a frame of this size, or this one disconnected. */
  room(bytes: number): Promise<void> {
    return this.slot.room(bytes, this.signal)
  }

  /** Sends a comment, unless other data is buffered. */
  beat(): void {
    if (!this.#isOpen || this.waitingBytes > 0) return
    const text = this.heartbeat?.() ?? ''
    this.write(text === '' ? HEARTBEAT : new Frame(text))
  }

  end(): void {
    // Encoding them may be expensive, and nobody reads them.
    if (!this.#isOpen) return
    if (this.lastWords !== undefined) {
      const frame = this.lastWords()
      if (frame === undefined) return this.cut()
      this.send(frame)
    }
    this.close()
    this.endBody()
  }

  /** Aborts the stream, so that the client reconnects. */
  cut(): void {
    if (!this.#isOpen) return
    this.close()
    this.cutBody()
  }

  /** The client disconnected, or nothing more will be sent. */
  readonly close = (): void => {
    this.slot.free()
    if (!this.#isOpen) return
    this.#isOpen = false
    this.streams.delete(this)
    this.#stop.abort()
  }
}

/** Writes to Node's response, which sends what is written in one tick with one system call, and the head with it. */
class NodeConnection extends SseConnection {
  readonly #response: ServerResponse
  readonly #isChunked: boolean

  constructor(deps: ConnectionDeps, response: ServerResponse, headers: Headers) {
    super(deps)
    this.#response = response
    releaseRequest(response)
    onResponseClose(response, this.close)
    response.writeHead(200, Object.fromEntries(headers))
    response.socket?.setNoDelay(true)
    this.#isChunked = response.chunkedEncoding
    // Frames are already chunked. HTTP/1.0 clients get no chunks.
    response.chunkedEncoding = false
  }

  get waitingBytes(): number {
    return this.#response.writableLength
  }

  protected write(frame: Frame): boolean {
    const isTaken = this.#response.write(this.#isChunked ? frame.chunk : frame.bytes)
    return isTaken || this.waitingBytes < MAX_WAITING_BYTES
  }

  protected taken(): Promise<void> {
    const response = this.#response
    // The event may already have fired.
    if (response.destroyed || !response.writableNeedDrain) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => {
        response.off('drain', go).off('close', go)
        resolve()
      }
      response.on('drain', go).on('close', go)
    })
  }

  protected endBody(): void {
    if (this.#isChunked) this.#response.write(LAST_CHUNK)
    this.#response.end()
  }

  protected cutBody(): void {
    const { socket } = this.#response
    // Data already written still arrives, but not the last chunk.
    if (socket === null) this.#response.destroy()
    else socket.destroySoon()
  }
}

/** For runtimes without sockets, and for an app called as a function. */
export class WebConnection extends SseConnection {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined
  #resume: (() => void) | undefined

  constructor(deps: ConnectionDeps) {
    super(deps)
    const source: UnderlyingDefaultSource<Uint8Array<ArrayBuffer>> = {
      start: (controller) => {
        this.#controller = controller
      },
      pull: () => this.#resume?.(),
      cancel: () => this.#release(),
    }
    const strategy = new ByteLengthQueuingStrategy({ highWaterMark: MAX_WAITING_BYTES })
    this.body = new ReadableStream(source, strategy)
  }

  get waitingBytes(): number {
    return MAX_WAITING_BYTES - this.#room
  }

  protected write(frame: Frame): boolean {
    this.#controller?.enqueue(frame.bytes)
    return this.#room > 0
  }

  protected taken(): Promise<void> {
    if (this.#controller === undefined || this.#room > 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  protected endBody(): void {
    this.#controller?.close()
    this.#release()
  }

  protected cutBody(): void {
    this.#controller?.error(new Error('the stream was aborted'))
    this.#release()
  }

  get #room(): number {
    return this.#controller?.desiredSize ?? 0
  }

  #release(): void {
    this.#controller = undefined
    this.#resume?.()
    this.close()
  }
}

const SSE_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  // Proxies must not cache or compress the stream: that would delay frames.
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** Sends a stream to its end. The stream ends when this resolves or the turn was deleted, and is cut when it fails. */
export type SendStream = (connection: SseConnection) => Promise<void>

export interface SseResponseOptions {
  readonly kind: StreamKind
  /** The client's position; missing on a stream that cannot be resumed. */
  readonly cursor?: string
  readonly headers: Readonly<Record<string, string>>
  /** How many streams it counts as. Default 1. */
  readonly size?: number
  readonly send: SendStream
}

/** Responds with a stream. Returns what the route handler returns. */
export function openSse(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  options: SseResponseOptions,
): Response {
  const { kind, cursor, send } = options
  if (context.closing.aborted) throw new TurnstreamError('SERVER_SHUTDOWN', 'no new streams')
  const caller = c.get('caller')
  // The streams of a revoked key were already cut: this one would stay open.
  if (!context.isInForce(caller)) throw revoked(c)
  const headers = { ...SSE_HEADERS, ...options.headers }
  const head = c.body(null, 200, headers)
  if (c.req.method === 'HEAD') return head
  const slot = c.get('slot') ?? context.limits.takeStream(caller, options.size)
  const outgoing = c.env?.outgoing
  // The client disconnected during the lookup: no further event would report it.
  if (outgoing?.destroyed === true) {
    slot.free()
    return RESPONSE_ALREADY_SENT
  }
  const deps = { streams: context.streams, slot, kind, caller }
  const connection =
    outgoing instanceof ServerResponse
      ? openOnNode(deps, outgoing, head.headers)
      : new WebConnection(deps)
  connection.open(cursor)
  void serve(connection, send, context.onError, c.get('requestId'))
  return connection instanceof WebConnection
    ? c.body(connection.body, 200, headers)
    : RESPONSE_ALREADY_SENT
}

function openOnNode(deps: ConnectionDeps, outgoing: ServerResponse, headers: Headers) {
  try {
    return new NodeConnection(deps, outgoing, headers)
  } catch (error) {
    deps.slot.free()
    throw error
  }
}

/** Takes single values, so that an open stream does not retain its request. */
async function serve(
  connection: SseConnection,
  send: SendStream,
  onError: ErrorHandler,
  requestId: string,
): Promise<void> {
  try {
    await send(connection)
    connection.end()
  } catch (error) {
    // A reconnecting client gets the error for the deleted turn.
    if (isTurnMissing(error)) return connection.end()
    if (!connection.signal.aborted) onError(error, { requestId })
    connection.cut()
  }
}

/** Encodes an id as a header value: percent-encoded except for visible ASCII. */
export function headerOf(id: string): string {
  return id.replaceAll(/[^\u0021-\u007e]/gu, encodeURIComponent)
}
