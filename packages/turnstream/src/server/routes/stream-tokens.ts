import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '@turnstream/core/internal/async/clock'
import type { TurnLog } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import { decodeText } from '@turnstream/core/internal/schemas/decode'
import * as z from 'zod'
import type { Caller, StreamGrant } from '../auth/authenticate.ts'
import type { KeyRing } from '../auth/key-ring.ts'
import type { GatewayApp } from '../context.ts'
import * as spec from './spec.ts'

export const streamTokenBodySchema = spec
  .object({
    turnId: spec.optional(spec.id, 'Opens the streams of this turn, raw events and snapshots'),
    threadId: spec.optional(spec.id, 'Opens the stream of this thread, and those of its turns'),
  })
  .refine(({ turnId, threadId }) => (turnId === undefined) !== (threadId === undefined), {
    message: 'must have either a turnId or a threadId',
  })
  .meta({ id: 'NewStreamToken', examples: [{ turnId: 'TURN_ID' }] })

const streamTokenSchema = z
  .object({
    token: z.string().describe('The value of `?token=`'),
    expiresAt: z.number().describe('When the token expires, in milliseconds since the epoch'),
  })
  .meta({ id: 'StreamToken' })

const streamTokenRoute = spec.route('post', ROUTES.streamTokens, {
  summary: 'Create a stream token for one turn or thread',
  description:
    'For an `EventSource`, which sends no headers: `?token=` replaces the key. A token is read-only, opens ' +
    'streams for five minutes, and becomes invalid when its key is revoked.',
  tags: ['v2'],
  request: { body: spec.jsonBody(streamTokenBodySchema) },
  responses: { 201: spec.json('The token', streamTokenSchema) },
  refusals: ['THREAD_UNKNOWN', 'TURN_UNKNOWN'],
})

export function addStreamTokenRoute(app: GatewayApp, tokens: StreamTokens): void {
  app.openapi(streamTokenRoute, async (c) => {
    const grant = await toGrant(c.get('space').log, c.req.valid('json'))
    return c.json(tokens.issue(c.get('caller'), grant), 201)
  })
}

/** Only for existing turns and threads: a token for a future thread could open another user's. */
async function toGrant(
  log: TurnLog,
  { turnId = '', threadId }: z.infer<typeof streamTokenBodySchema>,
): Promise<StreamGrant> {
  if (threadId === undefined) {
    if ((await log.getTurn(turnId)) !== undefined) return { turnId }
    throw new TurnstreamError('TURN_UNKNOWN', turnId)
  }
  if ((await log.getThread(threadId)) !== undefined) return { threadId }
  throw new TurnstreamError('THREAD_UNKNOWN', threadId)
}

/** Long enough for a page to connect, and to reconnect soon after. */
export const TOKEN_LIFETIME_MS = 5 * 60_000

/** Clocks of two instances may differ by one lifetime. */
const MAX_LIFETIME_MS = 2 * TOKEN_LIFETIME_MS

const MIN_SECRET_CHARS = 32

/** More than a token with the longest ids needs. */
const MAX_TOKEN_CHARS = 2048

/** 96 bits are enough: nonces are signed and cannot be guessed. */
const MARK_CHARS = 16

const VERSION = 'v1'

/** `<version>.<payload>.<mac>`, the last two in base64url; 43 characters are 32 bytes. */
const TOKEN = /^(v1\.([\w-]+))\.([\w-]{43})$/

const bearer = { tenant: z.string(), key: z.string(), mark: z.string(), expiresAt: z.int() }
const payloadSchema = z.union([
  z.strictObject({ ...bearer, turnId: z.string() }),
  z.strictObject({ ...bearer, threadId: z.string() }),
])

export interface StreamTokensOptions {
  /** Shared by all instances that accept each other's tokens. Random by default. */
  readonly secret?: string | undefined
  readonly clock: Clock
}

/** Issues and verifies stream tokens. They are signed and self-contained, so nothing is stored. */
export class StreamTokens {
  readonly #secret: string | Buffer
  readonly #clock: Clock

  /** OPTION_INVALID for a secret that is too short. */
  constructor({ secret, clock }: StreamTokensOptions) {
    if (secret !== undefined && secret.length < MIN_SECRET_CHARS) {
      const detail = `the secret of stream tokens must have at least ${MIN_SECRET_CHARS} characters`
      throw new TurnstreamError('OPTION_INVALID', detail)
    }
    this.#secret = secret ?? randomBytes(32)
    this.#clock = clock
  }

  issue(
    { tenant, key, fingerprint = '' }: Caller,
    grant: StreamGrant,
  ): z.infer<typeof streamTokenSchema> {
    const expiresAt = this.#clock.now() + TOKEN_LIFETIME_MS
    const mark = this.#markOf(fingerprint)
    const payload = JSON.stringify({ tenant, key, mark, ...grant, expiresAt })
    const signed = `${VERSION}.${Buffer.from(payload).toString('base64url')}`
    return { token: `${signed}.${this.#macOf(signed)}`, expiresAt }
  }

  /** Verifies a token whose key is still valid. TOKEN_INVALID, TOKEN_EXPIRED. */
  verify(token: string, keys: Pick<KeyRing, 'fingerprintOf'>): Required<Caller> {
    const { expiresAt, tenant, key, mark, ...grant } = this.#parse(token)
    const left = expiresAt - this.#clock.now()
    if (left > MAX_LIFETIME_MS) throw invalid()
    if (left <= 0) throw new TurnstreamError('TOKEN_EXPIRED', 'request a new one')
    const fingerprint = keys.fingerprintOf({ tenant, name: key })
    if (fingerprint === undefined || this.#markOf(fingerprint) !== mark) {
      throw new TurnstreamError('TOKEN_INVALID', 'its key was revoked')
    }
    return { tenant, key, fingerprint, grant }
  }

  #parse(token: string): z.infer<typeof payloadSchema> {
    if (token.length > MAX_TOKEN_CHARS) throw invalid()
    const [, signed = '', payload = '', mac = ''] = TOKEN.exec(token) ?? []
    // Compared as text: base64 has several encodings of the same bytes, and only one is a valid token.
    const expected = Buffer.from(this.#macOf(signed))
    const given = Buffer.from(mac)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw invalid()
    const decoded = decodeText(payloadSchema, Buffer.from(payload, 'base64url').toString())
    if (!decoded.ok) throw invalid()
    return decoded.value
  }

  /** Distinguishes the key from a later one of its name. An HMAC: a weak key could be guessed from a plain hash. */
  #markOf(fingerprint: string): string {
    // No token begins like this.
    return this.#macOf(`key ${fingerprint}`).slice(0, MARK_CHARS)
  }

  #macOf(signed: string): string {
    return createHmac('sha256', this.#secret).update(signed).digest('base64url')
  }
}

/** Gives no reason: a legitimate client requests another token. */
function invalid(): TurnstreamError {
  return new TurnstreamError('TOKEN_INVALID', 'request a new one')
}
