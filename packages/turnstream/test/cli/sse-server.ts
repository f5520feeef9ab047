import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export type Answer = (response: ServerResponse, headers: IncomingHttpHeaders, path: string) => void

/** The head of an answer that is a stream. */
export function sse(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { 'content-type': 'text/event-stream' })
}

/** Answers each request with the next of `answers`, and the last one again and again. */
export async function serverWith(...answers: Answer[]) {
  const cursors: (string | undefined)[] = []
  const server = createServer((request, response) => {
    const answer = answers[Math.min(cursors.length, answers.length - 1)]
    cursors.push(request.headers['last-event-id'] as string | undefined)
    answer?.(response, request.headers, request.url ?? '')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, cursors }
}
