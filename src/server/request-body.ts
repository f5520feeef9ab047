import type { Hash } from 'node:crypto'
import type { MiddlewareHandler } from 'hono'
import { isSliceOver, nextSlice } from '../async/time-slice.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { isNestedDeeperThan, isRecord, MAX_JSON_NESTING, parseJsonSafe } from '../protocol/json.ts'
import type { GatewayEnv } from './context.ts'
import { RequestInvalidError } from './errors.ts'
import type { KeyLimits } from './limits/key-limits.ts'
import type { Reattachment } from './reattachment.ts'

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i

/** Larger bodies, and bodies of unknown size, are queued per key. */
const SMALL_BODY_BYTES = 64 * 1024

/**
 * Reads the request body before the routes do: at most `maxBytes`, UTF-8 only. An empty body with a JSON type becomes
 * an empty object. Large bodies yield to the event loop.
 */
export function boundedBody(
  maxBytes: number,
  limits: KeyLimits,
  reattachment: Reattachment,
): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    // Not `raw`: its other fields would create a web Request, which an open stream then retains.
    if (c.req.method === 'GET' || c.req.method === 'HEAD') return next()
    const { headers, body } = c.req.raw
    if (body === null) return next()
    // Without either header there is no body.
    const length = headers.get('content-length')
    if (Number(length) > maxBytes) throw tooLarge(maxBytes)
    const isChunked = length === null && headers.has('transfer-encoding')
    const hash = reattachment.startHash(c)
    const read = () => readText(body, maxBytes, hash)
    const isLarge = isChunked || Number(length) > SMALL_BODY_BYTES
    const sent = await (isLarge ? limits.readBody(c.get('caller'), read) : read())
    const text = sent === '' && JSON_TYPE.test(headers.get('content-type') ?? '') ? '{}' : sent
    if (isNestedDeeperThan(text, MAX_JSON_NESTING)) {
      throw invalidBody(`is nested more than ${MAX_JSON_NESTING} levels deep`)
    }
    if (hash !== undefined) c.set('repeated', reattachment.endHash(c, hash, sent))
    const polluting = pollutingKey(text)
    if (polluting !== undefined) throw invalidBody(`has the key ${polluting}`)
    // Hono stores promises here, despite its type.
    Object.assign(c.req.bodyCache, { text: Promise.resolve(text) })
    return next()
  }
}

/** Adds the bytes to `hash`, if there is one. */
async function readText(
  body: ReadableStream<Uint8Array>,
  maxBytes: number,
  hash?: Hash,
): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of body) {
      if (isSliceOver()) await nextSlice()
      size += chunk.length
      if (size > maxBytes) break
      chunks.push(chunk)
      hash?.update(chunk)
    }
  } catch (cause) {
    // A client that disconnects while sending is not a server failure.
    throw new TurnstreamError('REQUEST_INVALID', 'the body ended early', { cause })
  }
  if (size > maxBytes) throw tooLarge(maxBytes)
  // Decoding, parsing and checking run without a pause: one large body per event loop iteration.
  if (size > SMALL_BODY_BYTES) await nextSlice()
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    throw invalidBody('is not valid UTF-8')
  }
}

function invalidBody(message: string): RequestInvalidError {
  return new RequestInvalidError([{ path: 'body', message }])
}

function tooLarge(maxBytes: number): TurnstreamError {
  return new TurnstreamError('BODY_TOO_LARGE', `the limit is ${maxBytes} bytes`)
}

/**
 * Prototype-pollution guard: finds a key in a JSON text that would change `Object.prototype` in a careless merge. We
 * never merge, but the value is stored and forwarded. Requires bounded nesting.
 */
export function pollutingKey(text: string): string | undefined {
  return mayPollute(text) ? findPollutingKey(parseJsonSafe(text)) : undefined
}

/** Rules out nearly every text. The letters of a key may be escaped. */
function mayPollute(text: string): boolean {
  return (
    text.includes('__proto__') ||
    text.includes(String.raw`\u00`) ||
    (text.includes('constructor') && text.includes('prototype'))
  )
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
