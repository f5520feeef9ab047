import type { TurnRecord } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { DEFAULT_TENANT, HEADERS, ROUTES } from '@turnstream/core/internal/protocol/names'
import type { Context, MiddlewareHandler } from 'hono'
import type { GatewayEnv, TenantSpaces } from '../context.ts'
import { pathPattern } from '../errors.ts'
import { isPagePath } from '../routes/page.ts'
import type { StreamTokens } from '../routes/stream-tokens.ts'
import type { KeyRing } from './key-ring.ts'

export interface Access {
  /** Without it, every caller is allowed. */
  readonly keys: KeyRing | undefined
  readonly tokens: StreamTokens
  readonly spaces: TenantSpaces
}

/** Routes that need no key: they serve no tenant data. */
const { hello, health, ready, openapi, docs } = ROUTES
const PUBLIC: ReadonlySet<string> = new Set([hello, health, ready, openapi, docs])

/** Routes that a stream token may open. */
const { runStream, turnOutputStream, threadOutputStream, outputStreams } = ROUTES
const STREAMS = [runStream, turnOutputStream, threadOutputStream, outputStreams].map(pathPattern)

const CHALLENGE = 'Bearer realm="turnstream"'

/** Authenticates the caller before the body is read. KEY_REQUIRED, KEY_INVALID, TOKEN_INVALID, TOKEN_EXPIRED. */
export function authenticate({ keys, tokens, spaces }: Access): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const caller = keys === undefined || isPublic(c) ? ANYBODY : identify(c, keys, tokens)
    c.set('caller', caller)
    c.set('space', spaces.of(caller.tenant))
    await next()
  }
}

function isPublic({ req: { method, path } }: Context): boolean {
  if (method === 'OPTIONS') return true
  return (method === 'GET' || method === 'HEAD') && (PUBLIC.has(path) || isPagePath(path))
}

function identify(c: Context<GatewayEnv>, keys: KeyRing, tokens: StreamTokens): Caller {
  try {
    return identifyByKey(c, keys) ?? identifyByToken(c, keys, tokens)
  } catch (error) {
    // Hono copies the header to the error response.
    c.header('www-authenticate', CHALLENGE)
    throw error
  }
}

/** Whether the caller's key is still valid. Always true without keys. */
export function isInForce(keys: KeyRing | undefined, caller: Caller): boolean {
  const { tenant, key: name, fingerprint } = caller
  return keys === undefined || keys.fingerprintOf({ tenant, name }) === fingerprint
}

/** For a caller whose key was revoked during the request. */
export function revoked(c: Context<GatewayEnv>): TurnstreamError {
  c.header('www-authenticate', CHALLENGE)
  const code = c.get('caller').grant === undefined ? 'KEY_INVALID' : 'TOKEN_INVALID'
  return new TurnstreamError(code, 'the key was revoked')
}

function identifyByKey({ req }: Context, keys: KeyRing): Caller | undefined {
  // Other schemes may be meant for a proxy in front of us.
  const bearer = /^Bearer +(.+)$/i.exec(req.header('authorization') ?? '')?.[1]
  const header = req.header(HEADERS.apiKey) || undefined
  const key = bearer ?? header
  if (key === undefined) return undefined
  if (header !== undefined && header !== key) {
    throw new TurnstreamError('KEY_INVALID', `authorization and ${HEADERS.apiKey} differ`)
  }
  const owner = keys.find(key)
  if (owner === undefined)
    throw new TurnstreamError('KEY_INVALID', 'ask the operator for a new key')
  const fingerprint = keys.fingerprintOf(owner)
  return {
    tenant: owner.tenant,
    key: owner.name,
    ...(fingerprint !== undefined && { fingerprint }),
  }
}

function identifyByToken({ req }: Context, keys: KeyRing, tokens: StreamTokens): Caller {
  const isStream = req.method === 'GET' && STREAMS.some((pattern) => pattern.test(req.path))
  const token = isStream ? req.query('token') : undefined
  if (token === undefined) {
    const detail = `send it as "authorization: Bearer …" or "${HEADERS.apiKey}: …"`
    throw new TurnstreamError('KEY_REQUIRED', detail)
  }
  return tokens.verify(token, keys)
}

/** What a stream token may read. */
export type StreamGrant = { readonly turnId: string } | { readonly threadId: string }

export interface Caller {
  readonly tenant: string
  /** Name of the key, to which the limits apply. Unique per tenant. */
  readonly key: string
  /** Distinguishes the key from a later one with the same name. Missing without keys. */
  readonly fingerprint?: string
  /** Set for stream tokens only. */
  readonly grant?: StreamGrant
}

/** The caller on a server without keys. */
export const ANYBODY: Caller = { tenant: DEFAULT_TENANT, key: 'anybody' }

/** A key may read every turn of its tenant; a token only what it was issued for. */
export function mayReadTurn({ grant }: Caller, turn: TurnRecord): boolean {
  if (grant === undefined) return true
  return 'turnId' in grant ? grant.turnId === turn.turnId : grant.threadId === turn.threadId
}

export function mayReadThread({ grant }: Caller, threadId: string): boolean {
  if (grant === undefined) return true
  return 'threadId' in grant && grant.threadId === threadId
}
