/** What stands in for a gateway where it matters what the proxy sends, and how. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface Upstream {
  readonly url: string
  /** The requests, but those that ask whether it is ready. */
  readonly requests: IncomingMessage[]
  /** The connections that these came on. */
  readonly sockets: Set<Socket>
  /** How many answers are under way. */
  readonly open: () => number
  /** How often it was asked whether it is ready. */
  readonly checks: () => number
}

export interface UpstreamOptions {
  readonly isReady?: () => boolean
}

type Answer = (request: IncomingMessage, response: ServerResponse) => void

/** Answers whatever it is asked with `answer`; it ends with the test. */
export async function startUpstream(
  answer: Answer,
  { isReady = () => true }: UpstreamOptions = {},
): Promise<Upstream> {
  const requests: IncomingMessage[] = []
  const sockets = new Set<Socket>()
  let open = 0
  let checks = 0
  const server = createServer({ maxHeaderSize: 65_536 }, (request, response) => {
    if (request.url === '/readyz') {
      checks += 1
      response.writeHead(isReady() ? 200 : 503).end()
      return
    }
    requests.push(request)
    sockets.add(request.socket)
    open += 1
    response.on('close', () => {
      open -= 1
    })
    answer(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  return { url, requests, sockets, open: () => open, checks: () => checks }
}

/** Begins a stream and leaves it open. */
export function holdOpen(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('data: begun\n\n')
}

/** Begins a stream and is gone in the middle of a frame. */
export function breakOff(request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('data: half of a fr', () => request.socket.resetAndDestroy())
}
