import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { FakeClock } from '../../../../conformance/src/index.ts'
import { SseDecoder, type SseEvent } from '../../../../core/src/index.ts'

export interface RawRequest {
  readonly method?: string
  readonly version?: '1.0' | '1.1'
  readonly headers?: Readonly<Record<string, string>>
}

interface Head {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
}

const HEAD_END = '\r\n\r\n'

/**
 * An HTTP client that shows the bytes as they come, one socket for each request. What it knows of the answer
 * is read from these bytes alone.
 */
export class RawClient {
  readonly socket: Socket
  /** How many bytes have arrived. */
  received = 0
  #pieces: Buffer[] = []
  #isClosed = false
  #error: Error | undefined
  readonly #watchers = new Set<() => void>()

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (piece: Buffer) => {
      this.received += piece.length
      this.#pieces.push(piece)
      this.#tell()
    })
    socket.on('error', (error) => {
      this.#error = error
    })
    socket.on('close', () => {
      this.#isClosed = true
      this.#tell()
    })
  }

  static async open(port: number, path: string, request: RawRequest = {}): Promise<RawClient> {
    const socket = connect(port, '127.0.0.1')
    const client = new RawClient(socket)
    await once(socket, 'connect')
    client.ask(path, request)
    return client
  }

  /** Sends a request on the same socket. */
  ask(path: string, { method = 'GET', version = '1.1', headers = {} }: RawRequest = {}): void {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    this.socket.write(`${method} ${path} HTTP/${version}\r\nhost: test\r\n${lines.join('')}\r\n`)
  }

  get bytes(): Buffer {
    const bytes = Buffer.concat(this.#pieces)
    this.#pieces = [bytes]
    return bytes
  }

  /** Whether these are the last bytes so far; cheaper than to look at all of them. */
  endsWith(text: string): boolean {
    const pieces: Buffer[] = []
    let length = 0
    for (let at = this.#pieces.length - 1; at >= 0 && length < text.length; at--) {
      const piece = this.#pieces[at] ?? Buffer.alloc(0)
      pieces.unshift(piece)
      length += piece.length
    }
    return Buffer.concat(pieces).subarray(-text.length).toString('latin1') === text
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  get error(): Error | undefined {
    return this.#error
  }

  /** Undefined until all of it is here. */
  get head(): Head | undefined {
    const { bytes } = this
    const end = bytes.indexOf(HEAD_END)
    if (end === -1) return undefined
    const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n')
    const headers = lines.map((line) => {
      const colon = line.indexOf(':')
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
    })
    return { status: Number(first.split(' ')[1]), headers: Object.fromEntries(headers) }
  }

  /** What has arrived of the body, without the chunks around it, and whether that is all of it. */
  get answer(): { body: Buffer; isWhole: boolean } {
    const { head } = this
    if (head === undefined) return { body: Buffer.alloc(0), isWhole: false }
    const { bytes } = this
    const rest = bytes.subarray(bytes.indexOf(HEAD_END) + HEAD_END.length)
    if (head.headers['transfer-encoding'] === 'chunked') return unchunked(rest)
    const length = head.headers['content-length']
    const isEmpty = head.status === 204 || (length !== undefined && rest.length >= Number(length))
    return { body: rest, isWhole: isEmpty || this.#isClosed }
  }

  get body(): Buffer {
    return this.answer.body
  }

  get events(): SseEvent[] {
    return new SseDecoder().feed(this.body)
  }

  /** Resolves when the condition holds. Rejects when the connection ended before. */
  async until(condition: (client: RawClient) => boolean): Promise<void> {
    while (!condition(this)) {
      if (this.#isClosed) {
        const told = this.bytes.toString().slice(-500)
        throw new Error(`the connection ended too early, after: ${told}`, { cause: this.#error })
      }
      await this.changed()
    }
  }

  /** The same while time passes, a second after the other. */
  async untilIn(clock: FakeClock, condition: (client: RawClient) => boolean): Promise<void> {
    while (!condition(this)) await clock.advance(1000)
  }

  /** Resolves with the next bytes, and when the connection ends. */
  changed(): Promise<void> {
    return new Promise((resolve) => {
      const go = () => {
        this.#watchers.delete(go)
        resolve()
      }
      this.#watchers.add(go)
    })
  }

  /** The whole body. */
  async whole(): Promise<Buffer> {
    await this.until(({ answer }) => answer.isWhole)
    return this.body
  }

  async closed(): Promise<void> {
    while (!this.#isClosed) await this.changed()
  }

  close(): void {
    this.socket.destroy()
  }

  #tell(): void {
    for (const go of this.#watchers) go()
  }
}

/** Reads the chunks as strictly as a client may: each whole, none left over but the last. */
function unchunked(bytes: Buffer): { body: Buffer; isWhole: boolean } {
  const parts: Buffer[] = []
  let at = 0
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd === -1) return { body: Buffer.concat(parts), isWhole: false }
    const line = bytes.toString('latin1', at, lineEnd)
    if (!/^[0-9a-f]+$/.test(line)) throw new Error(`no size of a chunk: ${line}`)
    const size = Number.parseInt(line, 16)
    const start = lineEnd + 2
    if (size === 0) return { body: Buffer.concat(parts), isWhole: bytes.length >= start + 2 }
    parts.push(bytes.subarray(start, Math.min(start + size, bytes.length)))
    if (bytes.length < start + size + 2) return { body: Buffer.concat(parts), isWhole: false }
    if (bytes.toString('latin1', start + size, start + size + 2) !== '\r\n') {
      throw new Error('a chunk is longer than it says')
    }
    at = start + size + 2
  }
}

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

/** One request, read to its end. */
export async function get(port: number, path: string, request?: RawRequest): Promise<Answer> {
  const client = await RawClient.open(port, path, request)
  const body = await client.whole()
  const { status = 0, headers = {} } = client.head ?? {}
  client.close()
  return { status, headers, body }
}

/** The frames of a body, as they are written, each with its blank line. */
export function framesOf(body: Buffer | string): string[] {
  const parts = body.toString().split('\n\n')
  if (parts.pop() !== '') throw new Error('the body ends inside a frame')
  return parts.map((part) => `${part}\n\n`)
}

/** The code of a refusal. */
export function codeOf(body: Buffer): string {
  return JSON.parse(body.toString()).error.code
}
