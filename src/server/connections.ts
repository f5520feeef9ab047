import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../async/clock.ts'

export interface ConnectionsOptions {
  readonly max: number
  /** How long a response may wait for a client that reads nothing; 0 is forever. */
  readonly writeTimeoutMs: number
  readonly clock: Clock
  /** Called for each connection above `max`. It is not counted, and nothing else is done with it. */
  readonly onCrowded: (socket: Socket) => void
}

/** How many connections above the limit get a response at a time; others are closed without one. */
const REFUSED_AT_ONCE = 100

// A client that is still sending its body may not see the response when the connection is reset. So the rest of a
// refused body is read and discarded, within these bounds; then the connection is closed.
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024
const MAX_DISCARD_MS = 2000

/**
 * The connections of a server: bounded, without clients that do not read, and without idle ones to wait for at the
 * end. Node only knows a connection as idle after its first request; browsers open some that they never use.
 */
export class Connections {
  readonly #options: ConnectionsOptions
  readonly #idle = new Set<Socket>()
  #open = 0
  #isEnding = false

  constructor(server: Server, options: ConnectionsOptions) {
    this.#options = options
    server.maxConnections = options.max + REFUSED_AT_ONCE
    server.on('connection', this.#add)
    server.on('request', this.#occupy)
    server.on('timeout', this.#cut)
  }

  /** Ends idle connections, and each of the others after its response. */
  end(): void {
    this.#isEnding = true
    for (const socket of this.#idle) socket.destroy()
  }

  readonly #add = (socket: Socket): void => {
    const { max, onCrowded } = this.#options
    if (this.#open >= max) return onCrowded(socket)
    this.#open += 1
    this.#idle.add(socket)
    socket.on('close', this.#remove)
  }

  readonly #occupy = ({ socket }: IncomingMessage, response: ServerResponse): void => {
    this.#idle.delete(socket)
    socket.setTimeout(this.#options.writeTimeoutMs)
    response.on('finish', this.#finished)
    response.on('close', this.#closed)
    this.#sockets.set(response, socket)
  }

  /** Node takes the socket from a request that was destroyed. */
  readonly #sockets = new WeakMap<ServerResponse, Socket>()

  // The listeners are shared and take their emitter from `this`: closures would be held for every open stream.

  readonly #remove = callWithEmitter((socket: Socket) => {
    this.#open -= 1
    this.#idle.delete(socket)
  })

  readonly #finished = callWithEmitter((response: ServerResponse) => {
    const { req } = response
    if (!req.complete) this.#discard(req, this.#sockets.get(response))
  })

  readonly #closed = callWithEmitter((response: ServerResponse) => {
    const socket = this.#sockets.get(response)
    if (socket === undefined || socket.destroyed) return
    if (this.#isEnding) socket.destroySoon()
    else this.#idle.add(socket)
  })

  /** Reads the rest of a request that was answered early. */
  #discard(request: IncomingMessage, socket: Socket | undefined): void {
    let bytes = 0
    const close = () => {
      request.removeAllListeners('data').pause()
      socket?.destroySoon()
    }
    const stopWaiting = this.#options.clock.after(MAX_DISCARD_MS, close)
    // The stream that the app was given would pause it again.
    request.removeAllListeners('data')
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_DISCARDED_BYTES) close()
    })
    request.once('end', stopWaiting)
    request.once('close', stopWaiting)
    request.resume()
  }

  /** After a socket was silent for `writeTimeoutMs`. While a response is open, only if there is something to send. */
  readonly #cut = (socket: Socket): void => {
    if (this.#idle.has(socket) || socket.writableLength > 0) socket.destroy()
  }
}

function callWithEmitter<Emitter>(listener: (emitter: Emitter) => void) {
  return function (this: Emitter): void {
    listener(this)
  }
}
