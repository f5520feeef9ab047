import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { TurnstreamError } from '../protocol/errors.ts'

export interface ProviderFetchOptions {
  /** Connect timeout, including TLS. 10 s by default. */
  connectMs?: number | undefined
}

const CONNECT_MS = 10_000
const IDLE_SOCKET_MS = 4000
const WITHOUT_BODY = new Set([204, 205, 304])

/**
 * A `fetch` for providers. Node's own aborts any wait for headers or bytes after 300 s, and has no separate connect
 * timeout. This one only limits connecting. Takes a URL and a text body, and follows no redirects.
 */
export function createProviderFetch(options: ProviderFetchOptions = {}): typeof globalThis.fetch {
  const { connectMs = CONNECT_MS } = options
  const settings = { keepAlive: true, timeout: IDLE_SOCKET_MS }
  const http = { request: httpRequest, agent: new HttpAgent(settings), connected: 'connect' }
  const https = {
    request: httpsRequest,
    agent: new HttpsAgent(settings),
    connected: 'secureConnect',
  }
  return async (input, init = {}) => {
    const { method = 'GET', body = null, signal, headers } = init
    if (typeof body !== 'string' && body !== null) {
      throw new TurnstreamError('OPTION_INVALID', 'the body of a provider call must be text')
    }
    const url = new URL(input instanceof Request ? input.url : input)
    const { request, agent, connected } = url.protocol === 'https:' ? https : http
    return new Promise((resolve, reject) => {
      const sent = request(url, {
        method,
        agent,
        headers: Object.fromEntries(new Headers(headers)),
        ...(signal && { signal }),
      })
      sent.once('socket', (socket: Socket) => {
        if (!socket.connecting) return
        const timer = setTimeout(() => sent.destroy(new ConnectTimeoutError(connectMs)), connectMs)
        const clear = (): void => clearTimeout(timer)
        socket.once(connected, clear).once('close', clear)
      })
      sent.once('response', (incoming) => {
        try {
          resolve(toResponse(incoming))
        } catch (error) {
          incoming.destroy()
          reject(error)
        }
      })
      sent.on('error', reject)
      sent.end(body ?? undefined)
    })
  }
}

class ConnectTimeoutError extends Error {
  readonly code = 'ETIMEDOUT'

  constructor(ms: number) {
    super(`no connection within ${ms} ms`)
  }
}

function toResponse(incoming: IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = '', headersDistinct } = incoming
  // The servers of some frameworks replace `Response` by one that does not check it.
  if (status < 200 || status > 599) throw new RangeError(`invalid status ${status}`)
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(headersDistinct)) {
    for (const value of values) headers.append(name, value)
  }
  if (WITHOUT_BODY.has(status)) incoming.resume()
  // The stream types of Node and the web differ.
  const body = WITHOUT_BODY.has(status) ? null : (Readable.toWeb(incoming) as unknown as BodyInit)
  return new Response(body, { status, statusText, headers })
}
