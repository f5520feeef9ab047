import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/** A connection on which a test says what it likes, when it likes. */
export class Wire {
  readonly socket: Socket
  /** Resolves when the connection is closed, by whomever. */
  readonly closed: Promise<void>
  /** What has come back. */
  text = ''
  isClosed = false
  readonly #watchers = new Set<() => void>()

  private constructor(socket: Socket) {
    this.socket = socket
    socket.setEncoding('latin1')
    socket.on('data', (text: string) => {
      this.text += text
      this.#tell()
    })
    // What was read before a reset counts.
    socket.on('error', () => {})
    this.closed = new Promise((resolve) => {
      socket.on('close', () => {
        this.isClosed = true
        this.#tell()
        resolve()
      })
    })
  }

  /** Resolves when the connection is there. */
  static async open(url: string): Promise<Wire> {
    const wire = Wire.start(url)
    await once(wire.socket, 'connect')
    return wire
  }

  /** Does not wait for the connection. */
  static start(url: string): Wire {
    const { hostname, port } = new URL(url)
    return new Wire(connect(Number(port), hostname))
  }

  send(text: string): void {
    if (this.socket.writable) this.socket.write(text, 'latin1')
  }

  /** The status of the first answer; 0 if there was none. */
  get status(): number {
    return Number(/^HTTP\/1\.1 (\d{3})/.exec(this.text)?.[1] ?? 0)
  }

  /** The code of a refusal that is all that has come. */
  get code(): string {
    const body = this.text.slice(this.text.indexOf('\r\n\r\n') + 4)
    return JSON.parse(body).error.code
  }

  header(name: string): string | undefined {
    return new RegExp(`^${name}: (.*)\r$`, 'im').exec(this.text)?.[1]
  }

  /** Resolves when this has come; rejects when the connection is closed before. */
  async until(text: string): Promise<void> {
    while (!this.text.includes(text)) {
      if (this.isClosed) throw new Error(`closed before ${text} came, after: ${this.text}`)
      await new Promise<void>((resolve) => {
        this.#watchers.add(resolve)
      })
    }
  }

  close(): void {
    this.socket.destroy()
  }

  #tell(): void {
    for (const go of this.#watchers) go()
    this.#watchers.clear()
  }
}
