import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '../async/clock.ts'

export interface ConnectionsOptions {
  /** How many there may be. */
  readonly max: number
  /** After how long an answer is given up of which the client takes nothing; 0 is never. */
  readonly writeTimeoutMs: number
  readonly clock: Clock
  /** Told of each connection that is one too many. It is not counted, and nothing else is done with it. */
  readonly onCrowded: (socket: Socket) => void
}

/** So many that are one too many are told so at a time; others are closed without a word. */
const TOLD_AT_ONCE = 100

// A client that is still sending its body may not see the answer when the connection is reset. So the rest of a
// body that was refused is read and discarded, within these bounds; then the connection is closed.
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024
const MAX_DISCARD_MS = 2000

/**
 * The connections of a server: no more than it may have, none whose client does not read, and at its end it
 * need not wait for those on which nothing happens. Node knows of idle ones only after a first request;
 * browsers open some that they may never use.
 */
export class Connections {
  readonly #options: ConnectionsOptions
  readonly #idle = new Set<Socket>()
  #open = 0
  #isEnding = false

  constructor(server: Server, options: ConnectionsOptions) {
    this.#options = options
    server.maxConnections = options.max + TOLD_AT_ONCE
    server.on('connection', this.#add)
    server.on('request', this.#occupy)
    server.on('timeout', this.#cut)
  }

  /** How many there are, without those that are one too many. */
  get size(): number {
    return this.#open
  }

  /** Ends those on which nothing is under way, and each of the others after its answer. */
  end(): void {
    this.#isEnding = true
    for (const socket of this.#idle) socket.destroy()
  }

  readonly #add = (socket: Socket): void => {
    const { max, onCrowded } = this.#options
    if (this.#open >= max) return onCrowded(socket)
    this.#open += 1
    this.#idle.add(socket)
    socket.on('close', () => {
      this.#open -= 1
      this.#idle.delete(socket)
    })
  }

  readonly #occupy = (request: IncomingMessage, response: ServerResponse): void => {
    const { socket } = request
    this.#idle.delete(socket)
    response.on('finish', () => {
      if (!request.complete) this.#discard(request)
    })
    socket.setTimeout(this.#options.writeTimeoutMs)
    response.on('close', () => {
      if (socket.destroyed) return
      if (this.#isEnding) socket.destroySoon()
      else this.#idle.add(socket)
    })
  }

  /** Reads what is left of a request that was answered before all of it had come. */
  #discard(request: IncomingMessage): void {
    const { socket } = request
    let bytes = 0
    const close = () => {
      request.removeAllListeners('data').pause()
      socket.destroySoon()
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

  /**
   * Nothing was read and nothing was sent for as long as that may last: between two requests, or while an
   * answer is under way. The latter is bad only if there is something to send.
   */
  readonly #cut = (socket: Socket): void => {
    if (this.#idle.has(socket) || socket.writableLength > 0) socket.destroy()
  }
}
