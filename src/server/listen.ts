import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { type Clock, monotonicNow, systemClock } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { answerCrowded, answerMalformed, answerRefused, answerUnreadable } from './bare-answers.ts'
import { Connections } from './connections.ts'
import type { Gateway } from './gateway.ts'
import { connectionsFor, openFilesLimit } from './limits/open-files.ts'
import { oversizeOf } from './limits/oversize.ts'
import {
  nodeMaxHeaders,
  nodeOptions,
  nodeWriteTimeout,
  type PortLimits,
  resolvePortLimits,
} from './limits/port-limits.ts'

export interface ListenOptions extends Partial<PortLimits> {
  /** 127.0.0.1 unless given. */
  readonly host?: string
  /** 4010 unless given; 0 takes a free one. */
  readonly port?: number
  readonly clock?: Clock
  /** Called at most once a minute while connections are refused because too many are open. */
  readonly onCrowded?: (crowd: Crowd) => void
}

/** How many connections were refused since the last report, and how many may be open. */
export interface Crowd {
  readonly refused: number
  readonly maxConnections: number
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

const CROWD_REPORT_MS = 60_000

// How soon a peer that is gone without a word is noticed, on a stream that has nothing to send.
const PROBE_AFTER_MS = 30_000
// What is still being sent when everything has ended gets so long to arrive.
const LAST_WRITES_MS = 2000

/** Opens the port, once what earlier processes left behind is in order. */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Listening> {
  const { host = HOST, port = PORT, clock = systemClock } = options
  const limits = resolvePortLimits(options)
  await gateway.start()
  const server = createNodeServer(limits)
  const max = connectionsFor(limits.maxConnections, openFilesLimit())
  const crowd = new CrowdReport(max, options)
  const connections = new Connections(server, {
    max,
    writeTimeoutMs: nodeWriteTimeout(limits),
    clock,
    onCrowded: (socket) => {
      gateway.refused('CONNECTIONS_LIMITED')
      crowd.add()
      answerCrowded(socket, clock)
    },
  })
  // So many more that Node closes them without a word.
  server.on('drop', () => {
    gateway.refused('CONNECTIONS_LIMITED')
    crowd.add()
  })
  server.on('clientError', (error, socket) => {
    const code = answerMalformed(error, socket, { clock, limits })
    if (code !== undefined) gateway.refused(code)
  })
  server.on('request', requestListener(gateway, limits))
  // Of what else somebody may expect we know nothing. Node would refuse it in a form of its own.
  server.on('checkExpectation', (request, response) => server.emit('request', request, response))
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

/** Reports refused connections, at most once a minute. */
class CrowdReport {
  readonly #maxConnections: number
  readonly #options: ListenOptions
  #refused = 0
  #reportedAt = -Infinity

  constructor(maxConnections: number, options: ListenOptions) {
    this.#maxConnections = maxConnections
    this.#options = options
  }

  add(): void {
    const { clock = systemClock, onCrowded } = this.#options
    this.#refused += 1
    const now = monotonicNow(clock)
    if (now - this.#reportedAt < CROWD_REPORT_MS) return
    this.#reportedAt = now
    onCrowded?.({ refused: this.#refused, maxConnections: this.#maxConnections })
    this.#refused = 0
  }
}

function createNodeServer(limits: PortLimits): Server {
  const server = createServer({
    ...nodeOptions(limits),
    // Who sends none is told by us, in our form.
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: PROBE_AFTER_MS,
  })
  server.maxHeadersCount = nodeMaxHeaders(limits)
  return server
}

/**
 * Serves the gateway from a server of yours: `node:http`, Express, Fastify. The limits of `listen` are not applied: they
 * are those of your server.
 */
export function createRequestListener(gateway: Gateway): RequestListener {
  const listener = listenerOf(gateway, { autoCleanupIncoming: true })
  return (request, response) => {
    if (!request.readableDidRead) return void listener(request, response)
    const detail = 'its body was read before. Mount the gateway before body parsers'
    const error = new TurnstreamError('REQUEST_INVALID', detail)
    gateway.refused(error.code)
    answerRefused(error, response)
  }
}

function listenerOf(gateway: Gateway, options: { readonly autoCleanupIncoming: boolean }) {
  return getRequestListener((request, env) => gateway.app.fetch(request, env), {
    ...options,
    errorHandler: answerUnreadable,
    // The process may not be ours alone.
    overrideGlobalObjects: false,
  })
}

function requestListener(gateway: Gateway, limits: PortLimits): RequestListener {
  // `Connections` discards what is left of a body.
  const listener = listenerOf(gateway, { autoCleanupIncoming: false })
  return (request, response) => {
    // On a connection that has had its last answer nobody waits for one.
    if (!request.socket.writable) return
    const oversize = oversizeOf(request, limits)
    if (oversize === undefined) return void listener(request, response)
    gateway.refused(oversize.code)
    answerRefused(oversize, response)
  }
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
