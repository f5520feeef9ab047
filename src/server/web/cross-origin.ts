import type { Context, MiddlewareHandler } from 'hono'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'
import type { GatewayEnv } from '../context.ts'
import { type AllowedOrigins, ANY_ORIGIN, isOwnOrigin } from './origins.ts'
import { isProbe } from './probes.ts'

// Never `access-control-allow-credentials`: who asks is told by a header that the page has to set, and a
// browser adds nothing by itself that would count.
const EXPOSED = [HEADERS.requestId, HEADERS.turnId, HEADERS.threadId, 'retry-after'].join(', ')

/** What the package of OpenAI says of itself with every request. It counts for nothing here. */
const OPENAI_HEADERS = [
  'openai-organization',
  'openai-project',
  ...['arch', 'helper-method', 'lang', 'os', 'package-version'].map(
    (name) => `x-stainless-${name}`,
  ),
  ...['retry-count', 'runtime', 'runtime-version', 'timeout'].map((name) => `x-stainless-${name}`),
]

const PREFLIGHT = {
  'access-control-allow-methods': 'GET, HEAD, POST, PATCH, DELETE',
  'access-control-allow-headers': [
    'authorization',
    HEADERS.apiKey,
    'content-type',
    HEADERS.lastEventId,
    HEADERS.idempotencyKey,
    HEADERS.traceparent,
    HEADERS.tracestate,
    HEADERS.requestId,
    HEADERS.cancelOnDisconnect,
    ...OPENAI_HEADERS,
  ].join(', '),
  // As long as Chrome keeps it at most.
  'access-control-max-age': '7200',
}

/**
 * Lets the pages of the allowed origins in, and refuses those of all others: a browser would keep the answer
 * from them, but sends what needs no permission first, and a stream takes its place. Whoever is no browser
 * has neither `origin` nor `sec-fetch-site` and is not concerned.
 *
 * All headers are set before the routes run, because a stream is written past what comes after them. Hono's
 * own middleware sets `vary` afterwards, and answers every OPTIONS.
 */
export function crossOrigin(allowed: AllowedOrigins): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const origin = c.req.header('origin')
    if (!allowed.isEmpty) c.header('vary', 'origin')
    if (origin !== undefined && allowed.has(origin)) {
      c.header('access-control-allow-origin', allowed.isOpen ? ANY_ORIGIN : origin)
      c.header('access-control-expose-headers', EXPOSED)
      if (isPreflight(c)) return c.body(null, 204, PREFLIGHT)
    } else if (!allowed.isOpen && isForeign(c, origin) && !isProbe(c.req.path)) {
      const who = origin === undefined ? 'another site' : origin.slice(0, 100)
      throw new TurnstreamError('ORIGIN_REFUSED', `${who} is not in corsOrigins`)
    }
    return next()
  }
}

function isPreflight({ req }: Context<GatewayEnv>): boolean {
  return req.method === 'OPTIONS' && req.header('access-control-request-method') !== undefined
}

/**
 * Whether a page of another origin asks. Browsers say so themselves, and no page can change what they say;
 * where they do not (an address without TLS that is not loopback), the origin is held against the host.
 */
function isForeign(c: Context<GatewayEnv>, origin: string | undefined): boolean {
  const site = c.req.header('sec-fetch-site')
  // Typed in, or of our own page. A proxy may have changed the host, so that this is better than to compare.
  if (site === 'same-origin' || site === 'none') return false
  if (site !== undefined) return !isVisit(c)
  return origin !== undefined && !isOwnOrigin(origin, c.get('address').host)
}

/** Somebody follows a link, and will see the answer in a window of its own. */
function isVisit({ req }: Context<GatewayEnv>): boolean {
  return (
    (req.method === 'GET' || req.method === 'HEAD') &&
    req.header('sec-fetch-mode') === 'navigate' &&
    req.header('sec-fetch-dest') === 'document'
  )
}
