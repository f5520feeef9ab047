import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/** Stands between client and server: cuts, silences and corrupts connections where a test says. */
export class Proxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** After how many bytes, in either direction, all connections are cut; never unless set. */
  #bytesLeft = Number.POSITIVE_INFINITY
  #nextCut: (() => number) | undefined
  cuts = 0
  /** How many connections were opened. */
  accepted = 0
  /** Swallows what new connections send, too. */
  isDeaf = false
  readonly #silenced = new WeakSet<Socket>()
  readonly #nearSides = new Set<Socket>()

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(target: { host: string; port: number }): Promise<Proxy> {
    const server = createServer()
    const proxy = new Proxy(server)
    server.on('connection', (near) => proxy.#join(near, connect(target)))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Cuts again and again, each time after as many bytes as `next` says. */
  cutEvery(next: () => number): void {
    this.#nextCut = next
    this.#bytesLeft = next()
  }

  stopCutting(): void {
    this.#bytesLeft = Number.POSITIVE_INFINITY
    this.#nextCut = undefined
  }

  /** Connections that exist stay open and carry nothing any more; new ones work. */
  silence(): void {
    for (const socket of this.#sockets) this.#silenced.add(socket)
  }

  /** Sends bytes to every client, as if they came from the server. */
  inject(bytes: string): void {
    for (const near of this.#nearSides) near.write(bytes)
  }

  async stop(): Promise<void> {
    this.#server.close()
    this.#cut()
    await once(this.#server, 'close')
  }

  #join(near: Socket, far: Socket): void {
    this.accepted += 1
    this.#nearSides.add(near)
    near.on('close', () => this.#nearSides.delete(near))
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      this.#sockets.add(from)
      // A cut shows as an error on one side or the other; the client's own handling is what is tested.
      from.on('error', () => to.destroy())
      from.on('close', () => {
        this.#sockets.delete(from)
        to.destroy()
      })
      from.on('data', (chunk: Buffer) => {
        if (!this.isDeaf && !this.#silenced.has(from)) this.#forward(chunk, to)
      })
    }
  }

  #forward(chunk: Buffer, to: Socket): void {
    const passed = chunk.subarray(0, Math.min(chunk.length, this.#bytesLeft))
    this.#bytesLeft -= passed.length
    if (this.#bytesLeft > 0) {
      to.write(passed)
      return
    }
    this.#bytesLeft = this.#nextCut?.() ?? Number.POSITIVE_INFINITY
    this.cuts += 1
    // What passed arrives, also if it is half of a command.
    if (to.writable) to.end(passed, () => this.#cut())
    else this.#cut()
  }

  #cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}
