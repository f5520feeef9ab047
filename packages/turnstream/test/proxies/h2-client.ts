/** A client that speaks HTTP/2 over TLS, as browsers do: one connection, any number of requests. */
import { once } from 'node:events'
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
} from 'node:http2'
import { connect as connectTls } from 'node:tls'
import { onTestFinished } from 'vitest'
import type { Proxy } from './proxy.ts'
import { HOST } from './recipes.ts'

export interface H2Request {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

export class H2Client {
  readonly session: ClientHttp2Session

  private constructor(session: ClientHttp2Session) {
    this.session = session
  }

  /** Connects, and refuses what has another certificate or speaks no HTTP/2; it ends with the test. */
  static async open({ port, certificate }: Proxy): Promise<H2Client> {
    const socket = connectTls({
      ...{ host: '127.0.0.1', port, servername: HOST },
      ...{ ca: certificate, ALPNProtocols: ['h2'] },
    })
    await once(socket, 'secureConnect')
    if (socket.alpnProtocol !== 'h2') throw new Error('the proxy speaks no HTTP/2')
    const session = connect(`https://${HOST}`, { createConnection: () => socket })
    onTestFinished(() => session.destroy())
    // A proxy may end the whole connection because of one request; that one tells.
    session.on('error', () => {})
    await once(session, 'connect')
    return new H2Client(session)
  }

  ask(path: string, { method = 'GET', headers = {}, body }: H2Request = {}): H2Answer {
    const request = { ':method': method, ':path': path, ':authority': HOST, ...headers }
    const stream = this.session.request(request, { endStream: body === undefined })
    if (body !== undefined) stream.end(body)
    return new H2Answer(stream)
  }

  async post(path: string, body: unknown, headers: H2Request['headers'] = {}): Promise<H2Answer> {
    const json = { 'content-type': 'application/json', ...headers }
    const answer = this.ask(path, { method: 'POST', headers: json, body: JSON.stringify(body) })
    await answer.ended()
    return answer
  }
}

export class H2Answer {
  headers: IncomingHttpHeaders & { ':status'?: number | undefined } = {}
  text = ''
  isOver = false
  error: Error | undefined
  readonly #stream: ClientHttp2Stream
  readonly #watchers = new Set<() => void>()

  constructor(stream: ClientHttp2Stream) {
    this.#stream = stream
    stream.setEncoding('utf8')
    stream.on('response', (headers) => {
      this.headers = headers
      this.#tell()
    })
    stream.on('data', (text: string) => {
      this.text += text
      this.#tell()
    })
    stream.on('error', (error) => {
      this.error = error
    })
    stream.on('close', () => {
      this.isOver = true
      this.#tell()
    })
  }

  get status(): number {
    return this.headers[':status'] ?? 0
  }

  get json(): unknown {
    return JSON.parse(this.text)
  }

  /** The last cursor that has come. */
  get cursor(): string {
    return [...this.#frames.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? ''
  }

  /** What the frames hold, in order. */
  get data(): string[] {
    return [...this.#frames.matchAll(/^data: (.*)$/gm)].map(([, data = '']) => data)
  }

  /** What was cut in the middle does not count. */
  get #frames(): string {
    return this.text.slice(0, this.text.lastIndexOf('\n\n') + 2)
  }

  get beats(): number {
    return this.text.split(': heartbeat\n\n').length - 1
  }

  /** Resolves when the condition holds; rejects when the answer is over before. */
  async until(condition: (answer: H2Answer) => boolean): Promise<void> {
    while (!condition(this)) {
      if (this.isOver) {
        const told = `${this.status}: ${this.text.slice(-500)}`
        throw new Error(`the answer ended too early, after ${told}`, { cause: this.error })
      }
      await this.#changed()
    }
  }

  async ended(): Promise<void> {
    while (!this.isOver) await this.#changed()
  }

  /** Leaves, as a page does that is closed. */
  reset(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL)
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => {
      const go = () => {
        this.#watchers.delete(go)
        resolve()
      }
      this.#watchers.add(go)
    })
  }

  #tell(): void {
    for (const go of this.#watchers) go()
  }
}
