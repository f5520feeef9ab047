import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { ChunkedResponse, TakeChunk } from '../providers/body.ts'

export interface ProviderFetchOptions {
  /** Connect timeout, including TLS. 10 s by default. */
  connectMs?: number | undefined
}

const IDLE_SOCKET_MS = 4000
const DRAIN_MS = 500
const WITHOUT_BODY = new Set([204, 205, 304])

/**
 * A `fetch` for providers. Node's own aborts any wait for headers or bytes after 300 s, and has no separate connect
 * timeout. This one only limits connecting. Takes a URL and a text body, and follows no redirects.
 */
export function createProviderFetch(options: ProviderFetchOptions = {}): typeof globalThis.fetch {
  const { connectMs = 10_000 } = options
  const settings = { keepAlive: true, timeout: IDLE_SOCKET_MS }
  const http = { request: httpRequest, agent: new HttpAgent(settings), event: 'connect' }
  const agent = new HttpsAgent(settings)
  const https = { request: httpsRequest, agent, event: 'secureConnect' }
  return async (input, init = {}) => {
    const { method = 'GET', body = null, signal, headers } = init
    if (typeof body !== 'string' && body !== null) {
      throw new TurnstreamError('OPTION_INVALID', 'the body of a provider call must be text')
    }
    const url = new URL(input instanceof Request ? input.url : input)
    const { request, agent, event } = url.protocol === 'https:' ? https : http
    return new Promise((resolve, reject) => {
      const sent = request(url, {
        method,
        agent,
        headers: Object.fromEntries(new Headers(headers)),
        ...(signal && { signal }),
      })
      sent.once('socket', (socket: Socket) => {
        if (!socket.connecting) return
        const timer = setTimeout(() => {
          const error = new Error(`no connection within ${connectMs} ms`)
          sent.destroy(Object.assign(error, { code: 'ETIMEDOUT' }))
        }, connectMs)
        const clear = (): void => clearTimeout(timer)
        socket.once(event, clear).once('close', clear)
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

function toResponse(incoming: IncomingMessage): Response {
  const { statusCode: status = 0, statusMessage: statusText = '', headersDistinct } = incoming
  // The servers of some frameworks replace `Response` by one that does not check it.
  if (status < 200 || status > 599) throw new RangeError(`invalid status ${status}`)
  const headers = new Headers()
  for (const [name, values = []] of Object.entries(headersDistinct)) {
    for (const value of values) headers.append(name, value)
  }
  // A response that is left unread may break off.
  incoming.on('error', () => {})
  if (WITHOUT_BODY.has(status)) incoming.resume()
  const body = WITHOUT_BODY.has(status) ? null : toWebStream(incoming)
  const response = new Response(body, { status, statusText, headers })
  return Object.assign(response, {
    readChunks: (take: TakeChunk) => readChunks(incoming, take),
  }) satisfies ChunkedResponse
}

/** Reads nothing before its own first read. */
function toWebStream(incoming: IncomingMessage): ReadableStream<Uint8Array> {
  const chunks = incoming[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await chunks.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel() {
        incoming.destroy()
      },
    },
    { highWaterMark: 0 },
  )
}

function readChunks(incoming: IncomingMessage, take: TakeChunk): Promise<void> {
  return new Promise((resolve, reject) => {
    let taking: Promise<boolean> | undefined
    let isOver = false
    const goOn = (goesOn: boolean): void => {
      if (goesOn) return void incoming.resume()
      isOver = true
      drain(incoming)
      resolve()
    }
    const fail = (error: unknown): void => {
      isOver = true
      incoming.destroy()
      reject(error)
    }
    incoming.on('data', (chunk: Uint8Array) => {
      if (isOver) return
      try {
        const taken = take(chunk)
        if (taken === true) return
        if (taken === false) return goOn(false)
        taking = taken
        incoming.pause()
        taken.then(goOn, fail)
      } catch (error) {
        fail(error)
      }
    })
    // The last chunk may still be taken.
    incoming.once('end', () => void Promise.resolve(taking).then(() => resolve(), fail))
    incoming.once('error', fail)
  })
}

/** Ignores the rest. If it ends soon, the next call can use the connection. */
function drain(incoming: IncomingMessage): void {
  if (incoming.readableEnded) return
  const timer = setTimeout(() => incoming.destroy(), DRAIN_MS)
  incoming.once('close', () => clearTimeout(timer)).resume()
}
