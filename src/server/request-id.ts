import type { MiddlewareHandler } from 'hono'
import { HEADERS } from '../protocol/names.ts'
import type { GatewayEnv } from './context.ts'
import { SECURITY_HEADERS } from './web/security-headers.ts'

const SECURITY = Object.entries(SECURITY_HEADERS)
const VISIBLE_ASCII = /^[\x21-\x7e]{1,200}$/

/** The caller's id of a request if it can stand in a header and a log line, otherwise a new one. */
function requestIdOf(given: string | undefined, generateId: () => string): string {
  return given !== undefined && VISIBLE_ASCII.test(given) ? given : generateId()
}

/** Gives every answer the headers that all of them have. */
export function baseHeaders(generateId: () => string): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const requestId = requestIdOf(c.req.header(HEADERS.requestId), generateId)
    c.set('requestId', requestId)
    c.header(HEADERS.requestId, requestId)
    c.header('cache-control', 'no-store')
    for (const [name, value] of SECURITY) c.header(name, value)
    await next()
  }
}
