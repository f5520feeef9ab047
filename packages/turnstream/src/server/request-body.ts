import type { Hash } from 'node:crypto'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import { MessageThreadError } from '@turnstream/core/internal/formats/messages/errors'
import { RequestInvalidError } from '@turnstream/core/internal/formats/request-errors'
import { hasCode, TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import type { MiddlewareHandler } from 'hono'
import type { Caller } from './auth/authenticate.ts'
import { BodyParts } from './body-parts.ts'
import type { GatewayEnv } from './context.ts'
import { isVendorPath } from './errors.ts'
import { JsonBounds } from './json-bounds.ts'
import type { KeyLimits } from './limits/key-limits.ts'
import type { Reattachment } from './reattachment.ts'
import { hasManyUnpaired, MAX_UNPAIRED } from './unpaired-surrogates.ts'

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i

/** Larger bodies, and bodies of unknown size, are queued per key. */
const SMALL_BODY_BYTES = 64 * 1024

/** Vendors' APIs take images, which our own limits would not fit. */
export type BodyLimits = Readonly<Record<'maxBodyBytes' | 'maxVendorBodyBytes', number>>

/**
 * Reads the body before the routes do: UTF-8, within the bounds of its path, its key and `JsonBounds`. An empty body
 * with a JSON type is an empty object. A key that sends many invalid bodies has to wait.
 */
export function boundedBody(
  { maxBodyBytes, maxVendorBodyBytes }: BodyLimits,
  limits: KeyLimits,
  reattachment: Reattachment,
): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    // Not `raw`: its other fields would create a web Request, which an open stream then retains.
    if (c.req.method === 'GET' || c.req.method === 'HEAD') return next()
    const { headers, body } = c.req.raw
    if (body === null) return next()
    const caller = c.get('caller')
    limits.checkRefusals(caller)
    const maxBytes = isVendorPath(c.req.path) ? maxVendorBodyBytes : maxBodyBytes
    const held = holdBody(limits, caller)
    const dropBody = () => {
      c.req.bodyCache = {}
      return held.handOver()
    }
    c.set('handOverBody', dropBody)
    try {
      // Without either header there is no body.
      const length = headers.get('content-length')
      if (Number(length) > maxBytes) throw tooLarge(maxBytes)
      const isChunked = length === null && headers.has('transfer-encoding')
      const { hash, isInSession } = reattachment.startRequest(c) ?? {}
      const read = () => readText(body, maxBytes, { hash, held })
      const isLarge = isChunked || Number(length) > SMALL_BODY_BYTES
      if (length !== null) held.resize(Number(length))
      const sent = await (isLarge ? limits.readBody(caller, read) : read())
      const text = sent === '' && JSON_TYPE.test(headers.get('content-type') ?? '') ? '{}' : sent
      if (isInSession !== undefined) {
        c.set('repeated', { keys: hash ? [hash.digest('base64url')] : [], isInSession })
      }
      if (isLarge) await nextSlice()
      const polluting = (await mayPollute(text)) ? pollutingKey(text) : undefined
      if (polluting !== undefined) throw invalidBody(`has the key ${polluting}`)
      if (isLarge && (await hasManyUnpaired(text))) {
        throw invalidBody(`has more than ${MAX_UNPAIRED} unpaired surrogates`)
      }
      if (isLarge) await nextSlice()
      // Hono stores promises here, despite its type.
      Object.assign(c.req.bodyCache, { text: Promise.resolve(text) })
      await next()
    } catch (error) {
      if (isInvalid(error)) limits.countRefusal(caller)
      throw error
    } finally {
      // Answers may be streamed for long.
      dropBody()()
    }
    if (isInvalid(c.error)) limits.countRefusal(caller)
  }
}

function isInvalid(error: unknown): boolean {
  if (error instanceof MessageThreadError) return true
  return hasCode(error, 'REQUEST_INVALID') || hasCode(error, 'BODY_TOO_LARGE')
}

type HeldBody = ReturnType<typeof holdBody>

/** Counts a large body against the memory of its key: until its turn ends, or else until it is answered. */
function holdBody(limits: KeyLimits, caller: Caller) {
  let held = 0
  let releases: (() => void)[] = []
  return {
    /** Sets the size that is known so far. UNREAD_LIMITED. */
    resize(bytes: number): void {
      const added = bytes - held
      if (added < SMALL_BODY_BYTES) return
      releases.push(limits.holdRequest(caller, added))
      held = bytes
    },
    /** Leaves it to the caller to stop the count, with the returned function. */
    handOver(): () => void {
      const given = releases
      releases = []
      return () => {
        for (const release of given) release()
      }
    },
  }
}

async function readText(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  { hash, held }: { readonly hash: Hash | undefined; readonly held: HeldBody },
): Promise<string> {
  const parts = new BodyParts()
  const bounds = new JsonBounds()
  let size = 0
  let refusal: unknown
  try {
    for await (const chunk of body) {
      if (isSliceOver()) await nextSlice()
      size += chunk.length
      if (size > maxBytes) break
      // The rest of a refused body is discarded: the client may read the response only when it has sent everything.
      if (refusal !== undefined) continue
      try {
        held.resize(size)
        bounds.add(chunk)
        parts.add(chunk)
      } catch (error) {
        refusal = error
        parts.clear()
      }
      hash?.update(chunk)
    }
  } catch (cause) {
    // A client that disconnects while sending is not a server failure.
    throw new TurnstreamError('REQUEST_INVALID', 'the body ended early', { cause })
  }
  if (refusal !== undefined) throw refusal
  if (size > maxBytes) throw tooLarge(maxBytes)
  // Copying, decoding and parsing a large body each hold the event loop for an iteration of their own.
  if (size > SMALL_BODY_BYTES) await nextSlice()
  const bytes = parts.drain()
  if (size > SMALL_BODY_BYTES) await nextSlice()
  return decodeUtf8(bytes)
}

/** How much is decoded at once. Other text than ASCII takes several milliseconds. */
export const PART_BYTES = 1024 * 1024

/** REQUEST_INVALID. Yields to the event loop. */
export async function decodeUtf8(bytes: Uint8Array): Promise<string> {
  const parts: string[] = []
  for (let start = 0; start < bytes.length; ) {
    if (start > 0 && isSliceOver()) await nextSlice()
    const end = endOfCharacter(bytes, start + PART_BYTES)
    // Only the first part may start with a byte order mark.
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: start > 0 })
    try {
      parts.push(decoder.decode(bytes.subarray(start, end)))
    } catch {
      throw invalidBody('is not valid UTF-8')
    }
    start = end
  }
  return parts.join('')
}

/** Returns the first end of a character from `at`. One has at most three bytes more than its first. */
function endOfCharacter(bytes: Uint8Array, at: number): number {
  let end = at
  while (end < at + 3 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end += 1
  return end
}

function invalidBody(message: string): RequestInvalidError {
  return new RequestInvalidError([{ path: 'body', message }])
}

function tooLarge(maxBytes: number): TurnstreamError {
  return new TurnstreamError('BODY_TOO_LARGE', `the limit is ${maxBytes} bytes`)
}

/** How much text is searched at once, and how much of it again with the next part. */
const PART_CHARS = 1024 * 1024
const OVERLAP_CHARS = 16

/** The letters of a key may be escaped. */
const PARTS_OF_KEYS = ['__proto__', String.raw`\u00`, 'constructor', 'prototype']

/** Rules out nearly every text, without parsing it. */
async function mayPollute(text: string): Promise<boolean> {
  const found = new Set<string>()
  for (let start = 0; start < text.length; start += PART_CHARS) {
    if (start > 0 && isSliceOver()) await nextSlice()
    const end = start + PART_CHARS + OVERLAP_CHARS
    for (const each of PARTS_OF_KEYS) if (text.slice(start, end).includes(each)) found.add(each)
  }
  const [proto = '', escape = '', ...names] = PARTS_OF_KEYS
  return found.has(proto) || found.has(escape) || names.every((name) => found.has(name))
}

/**
 * Prototype-pollution guard: finds a key in a JSON text that would change `Object.prototype` in a careless merge. We
 * never merge, but the value is stored and forwarded. Requires bounded nesting.
 */
export function pollutingKey(text: string): string | undefined {
  return findPollutingKey(parseJsonSafe(text))
}

function findPollutingKey(value: unknown): string | undefined {
  if (isRecord(value)) {
    if (Object.hasOwn(value, '__proto__')) return '__proto__'
    const { constructor } = value
    if (isRecord(constructor) && Object.hasOwn(constructor, 'prototype')) {
      return 'constructor.prototype'
    }
  }
  if (typeof value !== 'object' || value === null) return undefined
  for (const each of Object.values(value)) {
    const found = findPollutingKey(each)
    if (found !== undefined) return found
  }
  return undefined
}
