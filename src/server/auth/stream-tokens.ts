import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import * as z from 'zod'
import type { Clock } from '../../async/clock.ts'
import { decodeText } from '../../protocol/decode.ts'
import { TurnstreamError } from '../../protocol/errors.ts'
import type { Caller, StreamGrant } from './caller.ts'
import type { KeyRing } from './key-ring.ts'

/** As long as a page needs to connect, and to come back when its connection breaks soon after. */
export const TOKEN_LIFETIME_MS = 5 * 60_000

/** The clocks of two instances may differ by as much as a token lives. */
const MAX_LIFETIME_MS = 2 * TOKEN_LIFETIME_MS

const MIN_SECRET_CHARS = 32

/** More than a token with the longest ids has. */
const MAX_TOKEN_CHARS = 2048

/** 96 bits, which nobody has to guess: they are signed. */
const MARK_CHARS = 16

const VERSION = 'v1'

/** `<version>.<payload>.<mac>`, the last two in base64url; 43 characters are 32 bytes. */
const TOKEN = /^(v1\.([\w-]+))\.([\w-]{43})$/

const bearer = { tenant: z.string(), key: z.string(), mark: z.string(), expiresAt: z.int() }
const payloadSchema = z.union([
  z.strictObject({ ...bearer, turnId: z.string() }),
  z.strictObject({ ...bearer, threadId: z.string() }),
])

export interface StreamToken {
  readonly token: string
  /** Milliseconds since the epoch. */
  readonly expiresAt: number
}

export interface StreamTokensOptions {
  /** The same on all instances that shall take each other's tokens; random, and known to nobody, if missing. */
  readonly secret?: string
  readonly clock: Clock
}

/**
 * Makes and reads stream tokens: what a page puts into the address of a stream, because an `EventSource`
 * sends no headers. A token says what it is for and is signed, so that nothing has to be kept of it.
 */
export class StreamTokens {
  readonly #secret: string | Buffer
  readonly #clock: Clock

  /** OPTION_INVALID for a secret that could be guessed. */
  constructor({ secret, clock }: StreamTokensOptions) {
    if (secret !== undefined && secret.length < MIN_SECRET_CHARS) {
      const detail = `the secret of stream tokens must have at least ${MIN_SECRET_CHARS} characters`
      throw new TurnstreamError('OPTION_INVALID', detail)
    }
    this.#secret = secret ?? randomBytes(32)
    this.#clock = clock
  }

  issue({ tenant, key, fingerprint = '' }: Caller, grant: StreamGrant): StreamToken {
    const expiresAt = this.#clock.now() + TOKEN_LIFETIME_MS
    const mark = this.#markOf(fingerprint)
    const payload = JSON.stringify({ tenant, key, mark, ...grant, expiresAt })
    const signed = `${VERSION}.${Buffer.from(payload).toString('base64url')}`
    return { token: `${signed}.${this.#macOf(signed)}`, expiresAt }
  }

  /** Who may read what with it, as long as the key that it was made with is in force. TOKEN_INVALID, TOKEN_EXPIRED. */
  verify(token: string, keys: Pick<KeyRing, 'fingerprintOf'>): Required<Caller> {
    const { expiresAt, tenant, key, mark, ...grant } = this.#payloadOf(token)
    const left = expiresAt - this.#clock.now()
    if (left > MAX_LIFETIME_MS) throw invalid()
    if (left <= 0) throw new TurnstreamError('TOKEN_EXPIRED', 'ask for a new one')
    const fingerprint = keys.fingerprintOf({ tenant, name: key })
    if (fingerprint === undefined || this.#markOf(fingerprint) !== mark) {
      throw new TurnstreamError('TOKEN_INVALID', 'the key that it was made with was revoked')
    }
    return { tenant, key, fingerprint, grant }
  }

  /** Nothing is looked into before it is known to be ours. */
  #payloadOf(token: string): z.infer<typeof payloadSchema> {
    if (token.length > MAX_TOKEN_CHARS) throw invalid()
    const [, signed = '', payload = '', mac = ''] = TOKEN.exec(token) ?? []
    // As texts: bytes can be written in base64 in several ways, and only one of them is a token.
    const expected = Buffer.from(this.#macOf(signed))
    const given = Buffer.from(mac)
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) throw invalid()
    const decoded = decodeText(payloadSchema, Buffer.from(payload, 'base64url').toString())
    if (!decoded.ok) throw invalid()
    return decoded.value
  }

  /**
   * What a token says of its key: another one may take its name. Whoever has the token can read it, so it is made
   * with the secret: the hash of a key that is not random could be found out by trying.
   */
  #markOf(fingerprint: string): string {
    // No token begins like this.
    return this.#macOf(`key ${fingerprint}`).slice(0, MARK_CHARS)
  }

  #macOf(signed: string): string {
    return createHmac('sha256', this.#secret).update(signed).digest('base64url')
  }
}

/** Why it cannot be used is nobody's business: whoever has a right to one asks for another. */
function invalid(): TurnstreamError {
  return new TurnstreamError('TOKEN_INVALID', 'ask for a new one')
}
