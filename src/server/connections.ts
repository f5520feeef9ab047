import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/**
 * The connections of a server, so that it need not wait for those on which nothing happens. Node knows of
 * idle ones only after a first request; browsers open some that they may never use.
 */
export class Connections {
  readonly #idle = new Set<Socket>()
  #isEnding = false

  constructor(server: Server) {
    server.on('connection', this.#add)
    server.on('request', this.#occupy)
  }

  /** Ends those on which nothing is under way, and each of the others after its answer. */
  end(): void {
    this.#isEnding = true
    for (const socket of this.#idle) socket.destroy()
  }

  readonly #add = (socket: Socket): void => {
    this.#idle.add(socket)
    socket.on('close', () => this.#idle.delete(socket))
  }

  readonly #occupy = ({ socket }: IncomingMessage, response: ServerResponse): void => {
    this.#idle.delete(socket)
    response.on('close', () => {
      if (socket.destroyed) return
      if (this.#isEnding) socket.destroySoon()
      else this.#idle.add(socket)
    })
  }
}
