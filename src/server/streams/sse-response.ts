import { ServerResponse } from 'node:http'
import type { HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { Context } from 'hono'
import { hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { revoked } from '../auth/authenticate.ts'
import type { GatewayContext, GatewayEnv } from '../context.ts'
import { NodeSink } from './node-sink.ts'
import { SseConnection } from './sse-connection.ts'
import type { StreamKind } from './stream-counts.ts'
import { WebSink } from './web-sink.ts'

const SSE_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  // What stands between us and the reader must neither keep the stream nor compress it, which would hold
  // frames back.
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

export interface SseResponseOptions {
  readonly kind: StreamKind
  /** Where the reader is; missing on a stream that cannot be resumed as it is. */
  readonly cursor?: string
  readonly headers: Readonly<Record<string, string>>
  /**
   * Sends what there is to send. The stream ends when this is done or finds the turn deleted, and breaks off
   * when it fails.
   */
  readonly run: (connection: SseConnection) => Promise<void>
}

/** Answers with a stream. The response returned is what the handler of the route returns. */
export function openSse(
  c: Context<GatewayEnv>,
  context: GatewayContext,
  options: SseResponseOptions,
): Response {
  const { kind, cursor, run } = options
  if (context.closing.aborted) throw new TurnstreamError('SERVER_SHUTDOWN', 'no new streams')
  const caller = c.get('caller')
  // Streams of a revoked key are cut when it is revoked, and this one would have come too late for that.
  if (!context.isInForce(caller)) throw revoked(c)
  const headers = { ...SSE_HEADERS, ...options.headers }
  const head = c.body(null, 200, headers)
  if (c.req.method === 'HEAD') return head
  const slot = c.get('slot') ?? context.limits.takeStream(caller)
  const connection = new SseConnection(context.streams, slot, kind, caller)
  const sink = sinkFor(connection, c.env?.outgoing, head.headers)
  if (sink === undefined) return RESPONSE_ALREADY_SENT
  connection.open(sink, cursor)
  endWith(start(run, connection), connection, reporterOf(context, c.get('requestId')))
  return sink instanceof NodeSink ? RESPONSE_ALREADY_SENT : c.body(sink.body, 200, headers)
}

/** Undefined when nobody is there any more. The connection is closed unless there is a way to it. */
function sinkFor(
  connection: SseConnection,
  outgoing: HttpBindings['outgoing'] | undefined,
  headers: Headers,
): NodeSink | WebSink | undefined {
  // Whoever left while the turn was looked up is gone for good: nothing would tell us again.
  if (outgoing?.destroyed === true) {
    connection.close()
    return undefined
  }
  if (!(outgoing instanceof ServerResponse)) return new WebSink(connection.close)
  try {
    return new NodeSink(outgoing, headers, connection.close)
  } catch (error) {
    connection.close()
    throw error
  }
}

/** Once the head is sent, whatever is thrown is a failure of the stream and not of the request. */
function start(run: SseResponseOptions['run'], connection: SseConnection): Promise<void> {
  try {
    return run(connection)
  } catch (error) {
    return Promise.reject(error)
  }
}

function endWith(
  sent: Promise<void>,
  connection: SseConnection,
  report: (error: unknown) => void,
): void {
  sent.then(
    () => connection.end(),
    (error: unknown) => {
      // Whoever comes back is told that the turn is gone.
      if (hasCode(error, 'TURN_DELETED')) return connection.end()
      // Whoever has left is told nothing.
      if (!connection.signal.aborted) report(error)
      connection.cut()
    },
  )
}

/** Made apart, so that an open stream keeps nothing else of its request. */
function reporterOf({ onError }: GatewayContext, requestId: string): (error: unknown) => void {
  return (error) => onError(error, { requestId })
}

/** An id in a header: what no header can hold is written as in an address. */
export function headerOf(id: string): string {
  return id.replaceAll(/[^\u0021-\u007e]/gu, encodeURIComponent)
}
