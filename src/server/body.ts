import type { MiddlewareHandler } from 'hono'
import { TurnstreamError } from '../protocol/errors.ts'
import { isNestedDeeperThan, MAX_JSON_NESTING } from '../protocol/json.ts'
import type { GatewayEnv } from './context.ts'
import { RequestInvalidError } from './request-error.ts'
import { poisonedKey } from './web/poisoned-json.ts'

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json\b/i

/**
 * Reads the body of a request before anything else does: never more than `maxBytes` of it, and only what is
 * text. What the routes then see is the same request, with the text as its body; an empty one with a JSON type
 * is an empty object.
 */
export function boundedBody(maxBytes: number): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const { method, url, headers, body, signal } = c.req.raw
    if (method === 'GET' || method === 'HEAD' || body === null) return next()
    if (Number(headers.get('content-length')) > maxBytes) throw tooLarge(maxBytes)
    const sent = await readText(body, maxBytes)
    const text = sent === '' && JSON_TYPE.test(headers.get('content-type') ?? '') ? '{}' : sent
    if (isNestedDeeperThan(text, MAX_JSON_NESTING)) {
      throw invalidBody(`is nested more than ${MAX_JSON_NESTING} levels deep`)
    }
    const poisoned = poisonedKey(text)
    if (poisoned !== undefined) throw invalidBody(`has the key ${poisoned}`)
    c.req.raw = new Request(url, { method, headers, signal, ...(text !== '' && { body: text }) })
    return next()
  }
}

async function readText(body: ReadableStream<Uint8Array>, maxBytes: number): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  let size = 0
  for await (const chunk of untilBroken(body)) {
    size += chunk.length
    if (size > maxBytes) throw tooLarge(maxBytes)
    text += decodeWith(decoder, chunk)
  }
  return text + decodeWith(decoder)
}

/** A client that leaves in the middle of its body is no failure of ours. */
async function* untilBroken(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    yield* body
  } catch (cause) {
    throw new TurnstreamError('REQUEST_INVALID', 'the body broke off', { cause })
  }
}

/** Without a chunk, what is left of the one before. */
function decodeWith(decoder: TextDecoder, chunk?: Uint8Array): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined })
  } catch {
    throw invalidBody('is no UTF-8')
  }
}

function invalidBody(message: string): RequestInvalidError {
  return new RequestInvalidError([{ path: 'body', message }])
}

function tooLarge(maxBytes: number): TurnstreamError {
  return new TurnstreamError('BODY_TOO_LARGE', `${maxBytes} bytes are allowed`)
}
