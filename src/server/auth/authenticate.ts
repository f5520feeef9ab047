import type { Context, MiddlewareHandler } from 'hono'
import { TurnstreamError } from '../../protocol/errors.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import type { GatewayEnv } from '../context.ts'
import type { TenantSpaces } from '../tenant-space.ts'
import { ANYBODY, type Caller } from './caller.ts'
import type { KeyRing } from './key-ring.ts'
import type { StreamTokens } from './stream-tokens.ts'

export interface Access {
  /** Without any, everybody may do everything. */
  readonly keys: KeyRing | undefined
  readonly tokens: StreamTokens
  readonly spaces: TenantSpaces
}

/** What a proxy, a supervisor or a person may ask without a key: nothing of it is anybody's own. */
const PUBLIC: ReadonlySet<string> = new Set([
  '/',
  ROUTES.health,
  ROUTES.ready,
  ROUTES.openapi,
  ROUTES.docs,
])

/** All that a token may open. */
const STREAMS: readonly RegExp[] = [
  ROUTES.runStream,
  ROUTES.turnOutputStream,
  ROUTES.threadOutputStream,
].map((route) => new RegExp(`^${route.replace(/:\w+/, '[^/]+')}$`))

const CHALLENGE = 'Bearer realm="turnstream"'

/**
 * Says who asks, before anything else of the request is looked at, and refuses who may not. KEY_REQUIRED,
 * KEY_INVALID, TOKEN_INVALID, TOKEN_EXPIRED.
 */
export function authenticate({ keys, tokens, spaces }: Access): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const caller = keys === undefined || isPublic(c) ? ANYBODY : callerOf(c, keys, tokens)
    c.set('caller', caller)
    c.set('space', spaces.of(caller.tenant))
    await next()
  }
}

function isPublic({ req }: Context): boolean {
  const { method, path } = req
  return method === 'OPTIONS' || (isReading(method) && PUBLIC.has(path))
}

function isReading(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}

function callerOf(c: Context<GatewayEnv>, keys: KeyRing, tokens: StreamTokens): Caller {
  try {
    return ofKey(c, keys) ?? ofToken(c, keys, tokens)
  } catch (error) {
    // It stays on the answer that is made of the error.
    c.header('www-authenticate', CHALLENGE)
    throw error
  }
}

/** Whether the key of a caller is the one that has its name now. Without keys everybody may ask. */
export function isInForce(keys: KeyRing | undefined, caller: Caller): boolean {
  const { tenant, key: name, fingerprint } = caller
  return keys === undefined || keys.fingerprintOf({ tenant, name }) === fingerprint
}

/** For a caller that was let in, and whose key was revoked before there was an answer. */
export function revoked(c: Context<GatewayEnv>): TurnstreamError {
  c.header('www-authenticate', CHALLENGE)
  const code = c.get('caller').grant === undefined ? 'KEY_INVALID' : 'TOKEN_INVALID'
  return new TurnstreamError(code, 'the key was revoked')
}

function ofKey({ req }: Context, keys: KeyRing): Caller | undefined {
  const bearer = bearerOf(req.header('authorization'))
  const header = req.header(HEADERS.apiKey) || undefined
  const key = bearer ?? header
  if (key === undefined) return undefined
  if (header !== undefined && header !== key) {
    throw new TurnstreamError('KEY_INVALID', `authorization and ${HEADERS.apiKey} differ`)
  }
  const found = keys.find(key)
  if (found === undefined) throw new TurnstreamError('KEY_INVALID', 'ask the operator for one')
  const { tenant, name } = found
  const fingerprint = keys.fingerprintOf(found)
  return { tenant, key: name, ...(fingerprint !== undefined && { fingerprint }) }
}

/** Other schemes may be meant for a proxy before us. */
function bearerOf(header: string | undefined): string | undefined {
  return /^Bearer +(.+)$/i.exec(header ?? '')?.[1]
}

function ofToken({ req }: Context, keys: KeyRing, tokens: StreamTokens): Caller {
  const isStream = req.method === 'GET' && STREAMS.some((pattern) => pattern.test(req.path))
  const token = isStream ? req.query('token') : undefined
  if (token === undefined) {
    const detail = `send it as "authorization: Bearer …" or "${HEADERS.apiKey}: …"`
    throw new TurnstreamError('KEY_REQUIRED', detail)
  }
  return tokens.verify(token, keys)
}
