import type { HonoRequest, MiddlewareHandler } from 'hono'
import { TurnstreamError } from '../../protocol/errors.ts'
import { ROUTES } from '../../protocol/names.ts'
import type { GatewayEnv } from '../context.ts'

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
export function isProbe(path: string): boolean {
  return path === ROUTES.health || path === ROUTES.ready
}
