import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { HEADERS, ROUTES, THREAD_HEADERS } from '@turnstream/core/internal/protocol/names'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import type { Context, HonoRequest, MiddlewareHandler } from 'hono'
import type { GatewayEnv } from '../context.ts'

/** The entry that allows every origin. */
export const ANY_ORIGIN = '*'

// Scheme, host and optional port. Apps have their own schemes: capacitor://localhost.
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/(?:[^\s/?#@:*\\[\]]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i

/** Origins allowed to use the API from a browser. */
export class AllowedOrigins {
  readonly isEmpty: boolean
  /** Every origin is allowed; a key is required. */
  readonly isOpen: boolean
  readonly #origins: ReadonlySet<string>

  /** OPTION_INVALID for an invalid origin, and for `*` on a server without keys. */
  constructor(written: readonly string[] = [], { hasKeys }: { readonly hasKeys: boolean }) {
    this.isOpen = written.includes(ANY_ORIGIN)
    this.isEmpty = written.length === 0
    if (this.isOpen && written.length > 1)
      throw invalid('* allows every origin and must be the only entry')
    if (this.isOpen && !hasKeys) {
      const advice = 'list the origins, or require keys'
      throw invalid(`* would let every web page use a server without keys: ${advice}`)
    }
    this.#origins = new Set(this.isOpen ? [] : written.map(parseOrigin))
  }

  /** Takes an `origin` header, which browsers always normalize. */
  has(origin: string): boolean {
    return this.isOpen || this.#origins.has(origin)
  }
}

/** Normalizes an origin as browsers do: lower case, without the default port. */
export function originOf(written: string): string | undefined {
  const url = ORIGIN.test(written) ? parseUrl(written) : undefined
  if (url === undefined) return undefined
  // URL has no origin for non-web schemes.
  return url.origin === 'null' ? written.toLowerCase() : url.origin
}

function parseOrigin(written: string): string {
  const origin = originOf(written)
  if (origin !== undefined) return origin
  const example = `such as https://app.example, not ${JSON.stringify(written.slice(0, 100))}`
  throw invalid(`an origin is a scheme, a host and an optional port, ${example}`)
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `corsOrigins: ${detail}`)
}

/** Whether an origin matches a request's `host`. A proxy may terminate TLS, so the scheme is ignored. */
export function isOwnOrigin(origin: string, host: string): boolean {
  const own = parseUrl(origin)
  if (own === undefined) return false
  const defaultPort = own.protocol === 'https:' ? '443' : '80'
  return own.host === host || (own.port === '' && `${own.host}:${defaultPort}` === host)
}

// Never `access-control-allow-credentials`: pages authenticate with a header that they set themselves.
const { requestId, turnId, threadId, ignored } = HEADERS
const EXPOSED = [requestId, turnId, threadId, ignored, 'retry-after'].join(', ')

/** Sent by OpenAI's package with every request. Ignored. */
const STAINLESS =
  'arch helper-method lang os package-version retry-count runtime runtime-version timeout'
const OPENAI_HEADERS = [
  'openai-organization',
  'openai-project',
  ...STAINLESS.split(' ').map((name) => `x-stainless-${name}`),
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
    ...THREAD_HEADERS,
    HEADERS.cancelOnDisconnect,
    HEADERS.reattach,
    ...OPENAI_HEADERS,
  ].join(', '),
  // Chrome's maximum.
  'access-control-max-age': '7200',
}

/**
 * Refuses pages of other origins: a browser only hides the response, but sends simple requests, and a stream would take
 * a slot. Other clients send neither `origin` nor `sec-fetch-site`. Sets headers before the routes run, because streams
 * bypass later middleware, as Hono's own CORS middleware would.
 */
export function checkOrigin(allowed: AllowedOrigins): MiddlewareHandler<GatewayEnv> {
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
 * Whether a page of another origin sent it. Without the browser's own header (plain HTTP), compares origin and host.
 */
function isForeign(c: Context<GatewayEnv>, origin: string | undefined): boolean {
  const site = c.req.header('sec-fetch-site')
  // Typed in, or from our own page. More reliable than comparing hosts, which a proxy may change.
  if (site === 'same-origin' || site === 'none') return false
  if (site !== undefined) return !isNavigation(c)
  return origin !== undefined && !isOwnOrigin(origin, c.get('address').host)
}

/** A link that opens as a document. */
function isNavigation({ req }: Context<GatewayEnv>): boolean {
  return (
    (req.method === 'GET' || req.method === 'HEAD') &&
    req.header('sec-fetch-mode') === 'navigate' &&
    req.header('sec-fetch-dest') === 'document'
  )
}

/** Names of a server on the same machine. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '::1']

/** Refuses other host names than those of the list, if there is one: with DNS rebinding, a page's name leads to us. */
export function checkHost(allowedHosts?: readonly string[]): MiddlewareHandler<GatewayEnv> {
  const names = allowedHosts && new Set(allowedHosts.map(parseHost))
  return async (c, next) => {
    const address = parseAddress(c.req)
    c.set('address', address)
    // The name in an absolute request target, which overrides `host`, or `host` itself.
    const name = withoutDot(address.hostname)
    if (names === undefined || names.has(name) || isProbe(c.req.path)) return next()
    throw new TurnstreamError('HOST_REFUSED', `${name.slice(0, 100)} is not in allowedHosts`)
  }
}

function parseAddress(request: HonoRequest): URL {
  // With two hosts, a proxy may have checked the other one.
  const isOne = request.header('host')?.includes(',') !== true
  // Some hosts are only found invalid when parsed: 1.2.3.4.5
  const address = isOne ? parseUrl(request.url) : undefined
  if (address !== undefined) return address
  throw new TurnstreamError('REQUEST_INVALID', 'invalid URL or host')
}

function parseHost(written: string): string {
  const name = hostNameOf(written)
  if (name !== undefined) return name
  const shown = JSON.stringify(written.slice(0, 100))
  const detail = `allowedHosts must be names or addresses without a port, not ${shown}`
  throw new TurnstreamError('OPTION_INVALID', detail)
}

const PLAIN_NAME = /^[^\s/?#@:*\\[\]]+$/
const IPV6 = /^\[?([\da-f:.]*:[\da-f:.]*)\]?$/i

/** Normalizes a host name as URLs do; undefined if it is invalid or has a port. */
export function hostNameOf(written: string): string | undefined {
  const ipv6 = IPV6.exec(written)?.[1]
  if (ipv6 === undefined && !PLAIN_NAME.test(written)) return undefined
  const url = parseUrl(`http://${ipv6 === undefined ? written : `[${ipv6}]`}`)
  return url && withoutDot(url.hostname)
}

/** A trailing dot is the same name in DNS, but a different one to browsers. */
function withoutDot(hostname: string): string {
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
}

/** Probes may use any host. They read nothing of value and change nothing. */
function isProbe(path: string): boolean {
  return path === ROUTES.health || path === ROUTES.ready
}
