import { ServerResponse } from 'node:http'
import { PassThrough, Readable, type Writable } from 'node:stream'
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
export class SseConnection {
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
  /** Node's response, or what the body of a web response reads. */
  readonly #body: Writable
  /** Whether frames are written as HTTP chunks. */
  readonly #isChunked: boolean
  readonly #stop = new Stop()
  #isOpen = false
  #draining: Promise<void> | undefined

  constructor({ streams, slot, kind, caller }: ConnectionDeps, body: Writable, isChunked = false) {
    this.kind = kind
    this.caller = caller
    this.streams = streams
    this.slot = slot
    this.#body = body
    this.#isChunked = isChunked
  }

  get waitingBytes(): number {
    return this.#body.writableLength
  }

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
    return this.#write(frame)
  }

  #write(frame: Frame): boolean {
    const isTaken = this.#body.write(this.#isChunked ? frame.chunk : frame.bytes)
    return isTaken || this.waitingBytes < MAX_WAITING_BYTES
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
    await this.#taken()
    release()
    this.behindSince = undefined
  }

  async #taken(): Promise<void> {
    const body = this.#body
    // The event may already have fired.
    if (body.destroyed || !body.writableNeedDrain) return
    await new Promise<void>((resolve) => {
      const go = () => {
        body.off('drain', go).off('close', go)
        resolve()
      }
      body.on('drain', go).on('close', go)
    })
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
    this.#write(text === '' ? HEARTBEAT : new Frame(text))
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
    if (this.#isChunked) this.#body.write(LAST_CHUNK)
    this.#body.end()
  }

  /** Aborts the stream, so that the client reconnects. */
  cut(): void {
    if (!this.#isOpen) return
    this.close()
    const body = this.#body
    if (!(body instanceof ServerResponse)) body.destroy(new Error('the stream was aborted'))
    else if (body.socket === null) body.destroy()
    // Data already written still arrives, but not the last chunk.
    else body.socket.destroySoon()
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
function openOnNode(deps: ConnectionDeps, response: ServerResponse, headers: Headers) {
  releaseRequest(response)
  response.writeHead(200, Object.fromEntries(headers))
  response.socket?.setNoDelay(true)
  const isChunked = response.chunkedEncoding
  // Frames are already chunked. HTTP/1.0 clients get no chunks.
  response.chunkedEncoding = false
  const connection = new SseConnection(deps, response, isChunked)
  onResponseClose(response, connection.close)
  return connection
}

/** For runtimes without sockets, and for an app called as a function. */
export function openOnWeb(deps: ConnectionDeps) {
  // What waits for the reader stays on the writable side, which `waitingBytes` counts.
  const stream = new PassThrough({
    readableHighWaterMark: 1,
    writableHighWaterMark: MAX_WAITING_BYTES,
    // The event `close` would come later than the reader's `cancel`.
    destroy(error, done) {
      connection.close()
      done(error)
    },
  })
  const connection: SseConnection = new SseConnection(deps, stream)
  const body = Readable.toWeb(stream, { strategy: { highWaterMark: 0 } }) as ReadableStream
  return { connection, body }
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
  const { connection, body } = openConnection(deps, outgoing, head.headers)
  connection.open(cursor)
  void serve(connection, send, context.onError, c.get('requestId'))
  return body === undefined ? RESPONSE_ALREADY_SENT : c.body(body, 200, headers)
}

function openConnection(deps: ConnectionDeps, outgoing: unknown, headers: Headers) {
  try {
    if (!(outgoing instanceof ServerResponse)) return openOnWeb(deps)
    return { connection: openOnNode(deps, outgoing, headers), body: undefined }
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
