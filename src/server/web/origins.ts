import type { Context, HonoRequest, MiddlewareHandler } from 'hono'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { GatewayEnv } from '../context.ts'

/** The entry that allows every origin. */
export const ANY_ORIGIN = '*'

// Scheme, host and perhaps a port. Apps have their own schemes: capacitor://localhost.
const ORIGIN = /^[a-z][a-z\d+.-]*:\/\/(?:[^\s/?#@:*\\[\]]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i

/** The origins whose pages may use the API. */
export class AllowedOrigins {
  readonly isEmpty: boolean
  /** Every page may call, and needs a key. */
  readonly isOpen: boolean
  readonly #origins: ReadonlySet<string>

  /** OPTION_INVALID for an invalid origin, and for `*` on a server without keys. */
  constructor(written: readonly string[] = [], { hasKeys }: { readonly hasKeys: boolean }) {
    this.isOpen = written.includes(ANY_ORIGIN)
    this.isEmpty = written.length === 0
    if (this.isOpen && written.length > 1) throw invalid('* is every origin, and stands alone')
    if (this.isOpen && !hasKeys) {
      throw invalid('* would let every page use a server that asks for no key; name the origins')
    }
    this.#origins = new Set(this.isOpen ? [] : written.map(parseOrigin))
  }

  /** Takes an `origin` header, which browsers write in only one form. */
  has(origin: string): boolean {
    return this.isOpen || this.#origins.has(origin)
  }
}

/** An origin as browsers write it: in lower case, without the default port. */
export function originOf(written: string): string | undefined {
  if (!ORIGIN.test(written) || !URL.canParse(written)) return undefined
  const { origin } = new URL(written)
  // URL has no origin for schemes that are not the web's.
  return origin === 'null' ? written.toLowerCase() : origin
}

function parseOrigin(written: string): string {
  const origin = originOf(written)
  if (origin !== undefined) return origin
  const shown = JSON.stringify(written.slice(0, 100))
  throw invalid(
    `an origin is a scheme, a host and perhaps a port: https://app.example, not ${shown}`,
  )
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('OPTION_INVALID', `corsOrigins: ${detail}`)
}

/** Whether an origin is that of a request's `host`. A proxy may end TLS, so the scheme does not count. */
export function isOwnOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false
  const own = new URL(origin)
  const defaultPort = own.protocol === 'https:' ? '443' : '80'
  return own.host === host || (own.port === '' && `${own.host}:${defaultPort}` === host)
}

// Never `access-control-allow-credentials`: pages authenticate with a header they set themselves, and nothing that
// a browser adds by itself counts.
const EXPOSED = [HEADERS.requestId, HEADERS.turnId, HEADERS.threadId, 'retry-after'].join(', ')

/** Sent by OpenAI's package with every request, and ignored here. */
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
  // Chrome's maximum.
  'access-control-max-age': '7200',
}

/**
 * Allows the pages of the allowed origins, and refuses all others: a browser hides the response from them, but sends
 * simple requests first, and a stream would take a slot. Clients that are no browsers send neither `origin` nor
 * `sec-fetch-site` and are not affected.
 *
 * All headers are set before the routes run, because streams bypass what comes after them. Hono's own middleware sets
 * `vary` afterwards, and answers every OPTIONS.
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
 * Whether the request comes from a page of another origin. Browsers say so in a header that pages cannot change. Where
 * they do not (plain HTTP outside loopback), the origin is compared with the host.
 */
function isForeign(c: Context<GatewayEnv>, origin: string | undefined): boolean {
  const site = c.req.header('sec-fetch-site')
  // Typed in, or from our own page. More reliable than comparing, because a proxy may change the host.
  if (site === 'same-origin' || site === 'none') return false
  if (site !== undefined) return !isNavigation(c)
  return origin !== undefined && !isOwnOrigin(origin, c.get('address').host)
}

/** A link that opens in its own window. */
function isNavigation({ req }: Context<GatewayEnv>): boolean {
  return (
    (req.method === 'GET' || req.method === 'HEAD') &&
    req.header('sec-fetch-mode') === 'navigate' &&
    req.header('sec-fetch-dest') === 'document'
  )
}

/** The names of a server on the same machine. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '::1']

/**
 * Refuses requests for host names that are not in the list, if there is one. A page can point its own name to our
 * address (DNS rebinding): the browser then takes us for the page's own server, and only the name tells.
 */
export function checkHost(allowedHosts?: readonly string[]): MiddlewareHandler<GatewayEnv> {
  const names = allowedHosts && new Set(allowedHosts.map(parseHost))
  return async (c, next) => {
    const address = parseAddress(c.req)
    c.set('address', address)
    // The name of an absolute request target, which overrides `host`, or that of `host`.
    const name = withoutDot(address.hostname)
    if (names === undefined || names.has(name) || isProbe(c.req.path)) return next()
    throw new TurnstreamError('HOST_REFUSED', `${name.slice(0, 100)} is not in allowedHosts`)
  }
}

function parseAddress(request: HonoRequest): URL {
  // With two hosts, a proxy may have checked the other one.
  const isOne = request.header('host')?.includes(',') !== true
  // Some hosts only turn out invalid when parsed: 1.2.3.4.5
  if (isOne && URL.canParse(request.url)) return new URL(request.url)
  throw new TurnstreamError('REQUEST_INVALID', 'its address or host')
}

function parseHost(written: string): string {
  const name = hostNameOf(written)
  if (name !== undefined) return name
  const shown = JSON.stringify(written.slice(0, 100))
  const detail = `allowedHosts: a name or an address without a port, not ${shown}`
  throw new TurnstreamError('OPTION_INVALID', detail)
}

const PLAIN_NAME = /^[^\s/?#@:*\\[\]]+$/
const IPV6 = /^\[?([\da-f:.]*:[\da-f:.]*)\]?$/i

/** A host name in the form in which URLs have it; undefined if it is invalid or has a port. */
export function hostNameOf(written: string): string | undefined {
  const ipv6 = IPV6.exec(written)?.[1]
  if (ipv6 === undefined && !PLAIN_NAME.test(written)) return undefined
  const url = `http://${ipv6 === undefined ? written : `[${ipv6}]`}`
  return URL.canParse(url) ? withoutDot(new URL(url).hostname) : undefined
}

/** A name with a final dot is the same name in DNS, but another one to browsers. */
function withoutDot(hostname: string): string {
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
}

/** Probes may use any name or address. They read nothing of value and change nothing. */
function isProbe(path: string): boolean {
  return path === ROUTES.health || path === ROUTES.ready
}
