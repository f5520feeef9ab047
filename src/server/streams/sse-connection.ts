import { ServerResponse } from 'node:http'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'
import { isTurnMissing, TurnstreamError } from '../../protocol/errors.ts'
import { encodeComment, encodeSse } from '../../sse/encode.ts'
import { type Caller, revoked } from '../auth/authenticate.ts'
import { onResponseClose, releaseRequest } from '../client-close.ts'
import type { ErrorHandler, GatewayContext, GatewayEnv } from '../context.ts'
import type { StreamSlot } from '../limits/key-limits.ts'
import { Frame, LAST_CHUNK } from './frames.ts'
import type { OpenStreams, StreamCounts, StreamKind } from './open-streams.ts'

/** How long a client waits before it reconnects, in ms. */
const RETRY_MS = 1000

/** Larger than nearly every answer of a model, and small enough for each of a key's streams to hold one. */
const SMALL_FRAME_BYTES = 256 * 1024

/** How much may wait for a client. One that is further behind gets nothing new: the rest waits in the log. */
export const MAX_WAITING_BYTES = 64 * 1024

const HEARTBEAT = new Frame(encodeComment('heartbeat'))

export interface ConnectionDeps {
  readonly streams: OpenStreams
  /** Freed when the connection is closed. */
  readonly slot: StreamSlot
  readonly kind: StreamKind
  readonly caller: Caller
}

/**
 * One open SSE response. Everything that is sent is a whole frame, so a comment never falls into one. After the end, or
 * when the client has left, sending does nothing.
 */
export abstract class SseConnection {
  /** By the clock; for `OpenStreams`. */
  silentSince = 0
  /** Sent before the end, whoever ends it: for clients that take a stream that stops for a complete one. */
  lastWords: Frame | undefined
  /** Since when the client has taken nothing of what waits for it; undefined while it keeps up. */
  behindSince: number | undefined
  readonly kind: StreamKind
  readonly caller: Caller
  readonly #streams: OpenStreams
  readonly #slot: StreamSlot
  readonly #left = new AbortController()
  #isOpen = false

  constructor({ streams, slot, kind, caller }: ConnectionDeps) {
    this.kind = kind
    this.caller = caller
    this.#streams = streams
    this.#slot = slot
  }

  /** How many bytes were written and not taken. */
  abstract readonly waitingBytes: number
  /** False when enough is waiting. */
  protected abstract write(frame: Frame): boolean
  /** Resolves when everything was taken, or when the client has left; at once if that has happened already. */
  protected abstract taken(): Promise<void>
  protected abstract endBody(): void
  /** Stops in the middle of the body, so that the client notices. */
  protected abstract cutBody(): void

  /** Shared by all streams of the server. */
  get counts(): StreamCounts {
    return this.#streams.counts
  }

  /** Aborts when the client has left, or nothing more will be sent. */
  get signal(): AbortSignal {
    return this.#left.signal
  }

  /**
   * Sends the retry delay and the cursor to resume with, because a connection may break before the first record.
   * Without a cursor the stream cannot be resumed, and nothing is sent.
   */
  open(cursor: string | undefined): void {
    this.#isOpen = true
    this.#streams.add(this)
    if (cursor === undefined) return
    this.send(new Frame(encodeSse({ retry: RETRY_MS }) + encodeSse({ id: cursor })))
  }

  /** False when the client is behind: then await `drained`. */
  send(frame: Frame): boolean {
    if (!this.#isOpen) return true
    this.#streams.touch(this)
    return this.write(frame)
  }

  async drained(): Promise<void> {
    if (!this.#isOpen) return
    this.behindSince = this.#streams.now()
    const release = this.#slot.unsent.hold(this.waitingBytes)
    await this.taken()
    release()
    this.behindSince = undefined
  }

  /**
   * Whether the clients of the key leave too much unread for a frame of this size: then await `room` and check again.
   * Small frames are always sent, so that a few clients that do not read stop none that do.
   */
  isHeldBack({ chunk }: Frame): boolean {
    if (chunk.byteLength <= SMALL_FRAME_BYTES || !this.#slot.unsent.isFull) return false
    return !this.signal.aborted
  }

  /** Resolves when others of the key have taken something, or this client has left. */
  room(): Promise<void> {
    return this.#slot.unsent.room(this.signal)
  }

  /** Sends a comment, unless something waits to be sent anyway. */
  beat(): void {
    if (this.#isOpen && this.waitingBytes === 0) this.write(HEARTBEAT)
  }

  end(): void {
    if (this.lastWords !== undefined) this.send(this.lastWords)
    if (this.#isOpen) {
      this.close()
      this.endBody()
    }
  }

  /** Stops in the middle, so that the client reconnects. */
  cut(): void {
    if (this.#isOpen) {
      this.close()
      this.cutBody()
    }
  }

  /** The client has left, or nothing more will be sent. */
  readonly close = (): void => {
    this.#slot.free()
    if (!this.#isOpen) return
    this.#isOpen = false
    this.#streams.delete(this)
    this.#left.abort()
  }
}

/**
 * Writes to Node's response, which sends everything written in one tick with one system call. The head goes out with
 * the first frame.
 */
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
    // The frames are chunks already. A client of HTTP/1.0 gets none.
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
    // A past event does not come again.
    if (response.destroyed || !response.writableNeedDrain) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => {
        response.off('drain', go)
        response.off('close', go)
        resolve()
      }
      response.on('drain', go)
      response.on('close', go)
    })
  }

  protected endBody(): void {
    if (this.#isChunked) this.#response.write(LAST_CHUNK)
    this.#response.end()
  }

  protected cutBody(): void {
    const { socket } = this.#response
    // What was written still arrives; the chunk that ends the body does not.
    if (socket === null) this.#response.destroy()
    else socket.destroySoon()
  }
}

/** For runtimes that expose no socket, and for an app that is called as a function. */
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
    this.#controller?.error(new Error('the stream stopped in the middle'))
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
  // Proxies must neither cache the stream nor compress it, which would delay frames.
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** Sends everything. The stream ends when this is done or the turn was deleted, and is cut when it fails. */
export type SendStream = (connection: SseConnection) => Promise<void>

export interface SseResponseOptions {
  readonly kind: StreamKind
  /** Where the client is; missing on a stream that cannot be resumed. */
  readonly cursor?: string
  readonly headers: Readonly<Record<string, string>>
  readonly send: SendStream
}

/** Answers with a stream. Returns what the handler of the route returns. */
export function openSse(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  options: SseResponseOptions,
): Response {
  const { kind, cursor, send } = options
  if (context.closing.aborted) throw new TurnstreamError('SERVER_SHUTDOWN', 'no new streams')
  const caller = c.get('caller')
  // The streams of a revoked key were cut already: this one would stay open.
  if (!context.isInForce(caller)) throw revoked(c)
  const headers = { ...SSE_HEADERS, ...options.headers }
  const head = c.body(null, 200, headers)
  if (c.req.method === 'HEAD') return head
  const slot = c.get('slot') ?? context.limits.takeStream(caller)
  const outgoing = c.env?.outgoing
  // The client left while the turn was looked up: nothing would notify us again.
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

/** Takes single values, so that an open stream retains nothing else of its request. */
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
    // A client that reconnects learns that the turn is gone.
    if (isTurnMissing(error)) return connection.end()
    if (!connection.signal.aborted) onError(error, { requestId })
    connection.cut()
  }
}

/** An id as a header value: percent-encoded where it is not visible ASCII. */
export function headerOf(id: string): string {
  return id.replaceAll(/[^\u0021-\u007e]/gu, encodeURIComponent)
}
