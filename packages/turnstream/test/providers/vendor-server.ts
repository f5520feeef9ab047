/** A provider on this machine that does what a test tells it to. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface VendorServer {
  url: string
  /** Bodies of the requests so far. */
  bodies: string[]
  close(): Promise<void>
}

export type Answer = (
  response: ServerResponse,
  request: IncomingMessage,
  count: number,
) => void | Promise<void>

export async function startVendor(answer: Answer): Promise<VendorServer> {
  const bodies: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (text: string) => {
      body += text
    })
    request.on('end', () => {
      bodies.push(body)
      void answer(response, request, bodies.length)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    bodies,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

/** Answers with these SSE frames and the end of the body. */
export function sse(...frames: string[]): Answer {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.end(frames.map((frame) => `data: ${frame}\n\n`).join(''))
  }
}
