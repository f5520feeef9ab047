import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { type Clock, monotonicNow, systemClock } from '../async/clock.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { trackAdapter } from './client-close.ts'
import { Connections } from './connections.ts'
import type { Gateway } from './gateway.ts'
import {
  checkHead,
  connectionsFor,
  nodeMaxHeaders,
  nodeOptions,
  nodeWriteTimeout,
  openFilesLimit,
  type PortLimits,
  resolvePortLimits,
} from './limits/port-limits.ts'
import {
  refuseConnection,
  refuseMalformed,
  refuseRequest,
  refuseUnreadable,
} from './raw-responses.ts'

export interface ListenOptions extends Partial<PortLimits> {
  /** 127.0.0.1 by default. */
  readonly host?: string
  /** 4010 by default; 0 takes a free one. */
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
   * Closes the gateway, then the port. While turns run their readers can still come and go; only new turns are refused
   * from the start. Idempotent.
   */
  close(): Promise<void>
}

const HOST = '127.0.0.1'
const PORT = 4010

const CROWD_REPORT_MS = 60_000

// When a silent connection is first checked for a peer that is gone.
const KEEP_ALIVE_PROBE_MS = 30_000
// How long the last responses may take to be sent.
const LAST_WRITES_MS = 2000

/** Opens the port, after the turns of earlier processes were ended. */
export async function listen(gateway: Gateway, options: ListenOptions = {}): Promise<Listening> {
  const { host = HOST, port = PORT, clock = systemClock } = options
  const limits = resolvePortLimits(options)
  await gateway.start()
  const server = createServer({
    ...nodeOptions(limits),
    // Checked in the app, which sends our own error.
    requireHostHeader: false,
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: KEEP_ALIVE_PROBE_MS,
  })
  server.maxHeadersCount = nodeMaxHeaders(limits)
  const max = connectionsFor(limits.maxConnections, openFilesLimit())
  const report = crowdReporter(max, clock, options.onCrowded)
  const onCrowded = () => {
    gateway.refused('CONNECTIONS_LIMITED')
    report()
  }
  const connections = new Connections(server, {
    max,
    writeTimeoutMs: nodeWriteTimeout(limits),
    clock,
    onCrowded: (socket) => {
      onCrowded()
      refuseConnection(socket, clock)
    },
  })
  // Node closes the connections above `server.maxConnections` without a response.
  server.on('drop', onCrowded)
  server.on('clientError', (error, socket) => {
    const code = refuseMalformed(error, socket, { clock, limits })
    if (code !== undefined) gateway.refused(code)
  })
  server.on('request', requestListener(gateway, limits))
  // Unknown expectations are ignored. Node would refuse them in its own form.
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

/** Counts refused connections, and reports them at most once a minute. */
function crowdReporter(maxConnections: number, clock: Clock, report: ListenOptions['onCrowded']) {
  let refused = 0
  let reportedAt = -Infinity
  return (): void => {
    refused += 1
    const now = monotonicNow(clock)
    if (now - reportedAt < CROWD_REPORT_MS) return
    reportedAt = now
    report?.({ refused, maxConnections })
    refused = 0
  }
}

/**
 * Serves the gateway from a server of yours: `node:http`, Express, Fastify. The limits of `listen` are not applied: they
 * are those of your server.
 */
export function createRequestListener(gateway: Gateway): RequestListener {
  const listener = appListener(gateway, { autoCleanupIncoming: true })
  return (request, response) => {
    if (!request.readableDidRead) return listener(request, response)
    const detail = 'its body was read before. Mount the gateway before body parsers'
    const error = new TurnstreamError('REQUEST_INVALID', detail)
    gateway.refused(error.code)
    refuseRequest(error, response)
  }
}

function appListener(
  gateway: Gateway,
  options: { readonly autoCleanupIncoming: boolean },
): RequestListener {
  const listener = getRequestListener((request, env) => gateway.app.fetch(request, env), {
    ...options,
    errorHandler: refuseUnreadable,
    // The process may not be ours alone.
    overrideGlobalObjects: false,
  })
  return (request, response) => trackAdapter(response, () => void listener(request, response))
}

function requestListener(gateway: Gateway, limits: PortLimits): RequestListener {
  // `Connections` discards the rest of a body.
  const listener = appListener(gateway, { autoCleanupIncoming: false })
  return (request, response) => {
    // A pipelined request after the last response of its connection.
    if (!request.socket.writable) return
    const refusal = checkHead(request, limits)
    if (refusal === undefined) return listener(request, response)
    gateway.refused(refusal.code)
    refuseRequest(refusal, response)
  }
}

async function open(server: Server, host: string, port: number): Promise<void> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException
    const detail = `port ${port} of ${host} cannot be opened: ${ADVICE[code] ?? message}`
    throw new TurnstreamError('OPTION_INVALID', detail, { cause })
  }
}

const ADVICE: Record<string, string> = {
  EADDRINUSE: 'another program uses it; stop that one, or choose another port, or 0 for a free one',
  EACCES: 'this user may not open it; choose a port from 1024 on',
  EADDRNOTAVAIL: 'this machine does not have that address; 127.0.0.1 and ::1 are its own',
  ENOTFOUND: 'this host is not known',
  ERR_SOCKET_BAD_PORT: 'a port is a number from 0 to 65535',
}

async function end(server: Server, connections: Connections, clock: Clock): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  connections.end()
  const stopWaiting = clock.after(LAST_WRITES_MS, () => server.closeAllConnections())
  await closed
  stopWaiting()
}
