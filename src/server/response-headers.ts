import type { MiddlewareHandler } from 'hono'
import { HEADERS } from '../protocol/names.ts'
import type { GatewayEnv } from './context.ts'

/**
 * Browser protections of every response, including refusals. `permissions-policy` is not needed: nothing runs in a
 * document without sources. `strict-transport-security` belongs to what terminates TLS.
 */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  // URLs contain ids and stream tokens.
  'referrer-policy': 'no-referrer',
  // Applies to what pages embed, such as images and scripts. Allowed origins use CORS, which it does not affect.
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  // `frame-ancestors` for older browsers.
  'x-frame-options': 'DENY',
} as const

const SECURITY = Object.entries(SECURITY_HEADERS)
const VISIBLE_ASCII = /^[\x21-\x7e]{1,200}$/

/** Sets the headers of every response. The client's request id is used if it is safe in a header and a log line. */
export function baseHeaders(generateId: () => string): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const given = c.req.header(HEADERS.requestId) ?? ''
    const requestId = VISIBLE_ASCII.test(given) ? given : generateId()
    c.set('requestId', requestId)
    c.header(HEADERS.requestId, requestId)
    c.header('cache-control', 'no-store')
    for (const [name, value] of SECURITY) c.header(name, value)
    await next()
  }
}
