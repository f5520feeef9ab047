import { once } from 'node:events'
import { connect } from 'node:net'

/** Makes requests, and keeps all that comes back. */
export class RecordingClient {
  readonly #url: string
  /** What was answered, but for the answers that hand a token out. */
  readonly answers: string[] = []
  readonly tokens: string[] = []
  statuses: number[] = []

  constructor(url: string) {
    this.#url = url
  }

  async ask(path: string, init: RequestInit = {}): Promise<string> {
    const limit = new AbortController()
    const response = await fetch(`${this.#url}${path}`, {
      ...init,
      redirect: 'manual',
      signal: limit.signal,
    })
    let text = ''
    for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      // The stream of a thread goes on for as long as the thread is there.
      if (/"type":"turn_(complete|error)"/.test(text)) break
    }
    limit.abort()
    this.statuses.push(response.status)
    const told = JSON.stringify([...response.headers])
    const token = /"token":"([^"]+)"/.exec(text)?.[1]
    if (token === undefined) this.answers.push(`${told} ${text}`)
    else this.tokens.push(token)
    return text
  }

  /** Bytes that are no request. */
  async send(bytes: string): Promise<void> {
    const { hostname, port } = new URL(this.#url)
    const socket = connect(Number(port), hostname)
    let text = ''
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
    socket.on('error', () => {})
    socket.end(bytes)
    await once(socket, 'close')
    this.answers.push(text)
  }
}
