import { ServerResponse } from 'node:http'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'
import { isTurnMissing, TurnstreamError } from '../../protocol/errors.ts'
import { revoked } from '../auth/authenticate.ts'
import type { ErrorHandler, GatewayContext, GatewayEnv } from '../context.ts'
import type { StreamKind } from './open-streams.ts'
import {
  type ConnectionDeps,
  NodeConnection,
  type SseConnection,
  WebConnection,
} from './sse-connection.ts'

const SSE_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  // Proxies must neither cache the stream nor compress it, which would delay frames.
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/** Sends everything. The stream ends when this is done or the turn was deleted, and is cut when it fails. */
export type SendStream = (connection: SseConnection) => Promise<void>

export interface SseResponseOptions {
  readonly kind: StreamKind
  /** Where the client is; missing on a stream that cannot be resumed. */
  readonly cursor?: string
  readonly headers: Readonly<Record<string, string>>
  readonly send: SendStream
}

/** Answers with a stream. Returns what the handler of the route returns. */
export function openSse(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  options: SseResponseOptions,
): Response {
  const { kind, cursor, send } = options
  if (context.closing.aborted) throw new TurnstreamError('SERVER_SHUTDOWN', 'no new streams')
  const caller = c.get('caller')
  // The streams of a revoked key were cut already: this one would stay open.
  if (!context.isInForce(caller)) throw revoked(c)
  const headers = { ...SSE_HEADERS, ...options.headers }
  const head = c.body(null, 200, headers)
  if (c.req.method === 'HEAD') return head
  const slot = c.get('slot') ?? context.limits.takeStream(caller)
  const outgoing = c.env?.outgoing
  // The client left while the turn was looked up: nothing would notify us again.
  if (outgoing?.destroyed === true) {
    slot.free()
    return RESPONSE_ALREADY_SENT
  }
  const deps = { streams: context.streams, slot, kind, caller }
  const connection =
    outgoing instanceof ServerResponse
      ? openOnNode(deps, outgoing, head.headers)
      : new WebConnection(deps)
  connection.open(cursor)
  void serve(connection, send, context.onError, c.get('requestId'))
  return connection instanceof WebConnection
    ? c.body(connection.body, 200, headers)
    : RESPONSE_ALREADY_SENT
}

function openOnNode(deps: ConnectionDeps, outgoing: ServerResponse, headers: Headers) {
  try {
    return new NodeConnection(deps, outgoing, headers)
  } catch (error) {
    deps.slot.free()
    throw error
  }
}

/** Takes single values, so that an open stream retains nothing else of its request. */
async function serve(
  connection: SseConnection,
  send: SendStream,
  onError: ErrorHandler,
  requestId: string,
): Promise<void> {
  try {
    await send(connection)
    connection.end()
  } catch (error) {
    // A client that reconnects learns that the turn is gone.
    if (isTurnMissing(error)) return connection.end()
    if (!connection.signal.aborted) onError(error, { requestId })
    connection.cut()
  }
}

/** An id as a header value: percent-encoded where it is not visible ASCII. */
export function headerOf(id: string): string {
  return id.replaceAll(/[^\u0021-\u007e]/gu, encodeURIComponent)
}
