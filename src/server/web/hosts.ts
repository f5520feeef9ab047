import type { HonoRequest, MiddlewareHandler } from 'hono'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { GatewayEnv } from '../context.ts'
import { isProbe } from './probes.ts'

/** The names under which a browser on the same machine finds a server. */
export const LOOPBACK_NAMES: readonly string[] = ['localhost', '127.0.0.1', '::1']

/**
 * Reads the address of a request, and refuses it when the name is none of the allowed ones; without a list
 * every name is. A page can have its own name lead to our address, after which the browser takes us for the
 * page's own server: only the name tells that we are not.
 */
export function addressed(allowedHosts?: readonly string[]): MiddlewareHandler<GatewayEnv> {
  const names = allowedHosts && new Set(allowedHosts.map(checkedName))
  return async (c, next) => {
    const address = addressOf(c.req)
    c.set('address', address)
    // It has the name of `host`, or one of its own, which then comes before that.
    const name = withoutDot(address.hostname)
    if (names === undefined || names.has(name) || isProbe(c.req.path)) return next()
    throw new TurnstreamError('HOST_REFUSED', `${name.slice(0, 100)} is not in allowedHosts`)
  }
}

function addressOf(request: HonoRequest): URL {
  // Of two hosts somebody before us may have looked at the other one.
  const isOne = request.header('host')?.includes(',') !== true
  // Some hosts look like one until they are read: 1.2.3.4.5
  if (isOne && URL.canParse(request.url)) return new URL(request.url)
  throw new TurnstreamError('REQUEST_INVALID', 'its address or host')
}

function checkedName(written: string): string {
  const name = hostNameOf(written)
  if (name !== undefined) return name
  const shown = JSON.stringify(written.slice(0, 100))
  const detail = `allowedHosts: a name or an address without a port, not ${shown}`
  throw new TurnstreamError('OPTION_INVALID', detail)
}

const PLAIN_NAME = /^[^\s/?#@:*\\[\]]+$/
const IPV6 = /^\[?([\da-f:.]*:[\da-f:.]*)\]?$/i

/** A name as it stands in the address of a request; undefined for what is none, or has a port. */
export function hostNameOf(written: string): string | undefined {
  const ipv6 = IPV6.exec(written)?.[1]
  if (ipv6 === undefined && !PLAIN_NAME.test(written)) return undefined
  const url = `http://${ipv6 === undefined ? written : `[${ipv6}]`}`
  return URL.canParse(url) ? withoutDot(new URL(url).hostname) : undefined
}

/** Browsers take a name and the same with a dot at its end for two, the net for one. */
function withoutDot(hostname: string): string {
  return hostname.endsWith('.') ? hostname.slice(0, -1) : hostname
}
