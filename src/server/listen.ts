import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { type Clock, systemClock } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { answerMalformed, answerUnreadable } from './bare-answers.ts'
import { Connections } from './connections.ts'
import type { Gateway } from './gateway.ts'

export interface ListenOptions {
  /** 127.0.0.1 unless given. */
  readonly host?: string
  /** 4010 unless given; 0 takes a free one. */
  readonly port?: number
  readonly clock?: Clock
}

export interface Listening {
  readonly url: string
  /**
   * Ends the gateway, then the port. As long as turns run their readers can still come and go; only new
   * turns are refused from the first moment on. Idempotent.
   */
  close(): Promise<void>
}

const HOST = '127.0.0.1'
const PORT = 4010

// These bound what a client may take to send its request. None of them counts while an answer is under way,
// however long that lasts.
const HEADERS_TIMEOUT_MS = 20_000
const REQUEST_TIMEOUT_MS = 60_000
// Longer than the minute after which proxies let an idle connection go: the one who closes first must be
// the one who sends, or its request meets a closed connection.
const KEEP_ALIVE_MS = 72_000
const MAX_HEADER_BYTES = 16 * 1024
// How soon a peer that is gone without a word is noticed, on a stream that has nothing to send.
const PROBE_AFTER_MS = 30_000
// What is still being sent when everything has ended gets so long to arrive.
const LAST_WRITES_MS = 2000

/** Opens the port, once what earlier processes left behind is in order. */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Listening> {
  const { host = HOST, port = PORT, clock = systemClock } = options
  await gateway.start()
  const server = createNodeServer(gateway)
  const connections = new Connections(server)
  try {
    await open(server, host, port)
  } catch (error) {
    await gateway.close()
    throw error
  }
  let closed: Promise<void> | undefined

  async function close(): Promise<void> {
    try {
      await gateway.close()
    } finally {
      await end(server, connections, clock)
    }
  }

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${(server.address() as AddressInfo).port}`,
    close: () => {
      closed ??= close()
      return closed
    },
  }
}

function createNodeServer({ app }: Gateway): Server {
  const listener = getRequestListener((request, env) => app.fetch(request, env), {
    errorHandler: answerUnreadable,
    // The process may not be ours alone.
    overrideGlobalObjects: false,
  })
  const server = createServer(
    {
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: REQUEST_TIMEOUT_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      // Who sends none is told by us, in our form.
      requireHostHeader: false,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: PROBE_AFTER_MS,
    },
    (request, response) => void listener(request, response),
  )
  server.on('clientError', answerMalformed)
  return server
}

async function open(server: Server, host: string, port: number): Promise<void> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (cause) {
    throw new TurnstreamError('OPTION_INVALID', advice(cause, host, port), { cause })
  }
}

const ADVICE: Record<string, string> = {
  EADDRINUSE: 'another program uses it; stop that one, or choose another port, or 0 for a free one',
  EACCES: 'this user may not open it; choose a port from 1024 on',
  EADDRNOTAVAIL: 'this machine does not have that address; 127.0.0.1 and ::1 are its own',
  ENOTFOUND: 'this host is not known',
  ERR_SOCKET_BAD_PORT: 'a port is a number from 0 to 65535',
}

function advice(cause: unknown, host: string, port: number): string {
  const { code = '', message } = cause as NodeJS.ErrnoException
  return `port ${port} of ${host} cannot be opened: ${ADVICE[code] ?? message}`
}

async function end(server: Server, connections: Connections, clock: Clock): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  connections.end()
  const stopWaiting = clock.after(LAST_WRITES_MS, () => server.closeAllConnections())
  await closed
  stopWaiting()
}
