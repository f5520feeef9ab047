import { ServerResponse } from 'node:http'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { Page, PageOptions, TurnLog } from '@turnstream/core/internal/log/turn-log'
import { HEADERS } from '@turnstream/core/internal/protocol/names'
import type { Context, MiddlewareHandler, TypedResponse } from 'hono'
import { onResponseClose } from './client-close.ts'
import type { GatewayContext, GatewayEnv } from './context.ts'

/** UTF-8 bytes. */
type Bytes = Uint8Array<ArrayBuffer>

/** JSON that is already encoded: the type of a route cannot check it. */
export type JsonResponse = Response & TypedResponse<never, 200, 'json'>

/** Queues a read for the caller and sends its JSON. READS_LIMITED, UNREAD_LIMITED, and what `read` throws. */
export async function sendRead(
  c: Context<GatewayEnv>,
  context: Pick<GatewayContext, 'limits'>,
  read: (log: TurnLog) => Promise<Bytes>,
): Promise<JsonResponse> {
  const bytes = await context.limits.read(c.get('caller'), async () =>
    // The client may have disconnected while the read was queued.
    c.env?.outgoing?.destroyed === true ? new Uint8Array() : await read(c.get('space').log),
  )
  return sendJson(c, context, bytes)
}

/** Sends JSON, counted as unread until the client has received it. UNREAD_LIMITED. */
export function sendJson(
  c: Context<GatewayEnv>,
  { limits }: Pick<GatewayContext, 'limits'>,
  bytes: Bytes,
): JsonResponse {
  const release = limits.holdAnswer(c.get('caller'), bytes.byteLength)
  const outgoing = c.env?.outgoing
  if (outgoing instanceof ServerResponse && !outgoing.destroyed) onResponseClose(outgoing, release)
  else release()
  return sendSharedJson(c, bytes)
}

/** Sends bytes that all responses share, so they are not counted. */
export function sendSharedJson(c: Context<GatewayEnv>, bytes: Bytes): JsonResponse {
  const response = c.body(bytes, 200, { 'content-type': 'application/json' })
  // Hono sets a content type only for bodies it encodes itself.
  return response as Response as JsonResponse
}

export function encodeJson(value: unknown): Buffer<ArrayBuffer> {
  return Buffer.from(JSON.stringify(value))
}

/** Encodes an object whose last field is a list, in time slices: it may have thousands of items. */
export async function encodeList<T>(
  head: object,
  name: string,
  items: readonly T[],
  encode: (item: T) => string,
): Promise<Buffer<ArrayBuffer>[]> {
  const parts = [Buffer.from(`${JSON.stringify(head).slice(0, -1)},"${name}":[`)]
  for (const [index, item] of items.entries()) {
    if (isSliceOver()) await nextSlice()
    parts.push(Buffer.from(index === 0 ? encode(item) : `,${encode(item)}`))
  }
  parts.push(Buffer.from(']}'))
  return parts
}

/** A page ends with the item that exceeds this size. */
const MAX_PAGE_BYTES = 8 * 1024 * 1024

const COMMA = Buffer.from(',')

interface PageEncoding<T, Options extends PageOptions> {
  /** Text before the items, up to the bracket. */
  readonly head: string
  readonly list: (options: Options) => Promise<Page<T>>
  /** Encoded parts of an item; none to omit it. */
  readonly encode: (item: T) => Bytes[] | Promise<Bytes[]>
}

export async function encodePage<T, Options extends PageOptions>(
  options: Options,
  { head, list, encode }: PageEncoding<T, Options>,
): Promise<Bytes> {
  const page = await list(options)
  const parts: Bytes[] = []
  let { nextCursor } = page
  let size = 0
  for (const [index, item] of page.items.entries()) {
    if (isSliceOver()) await nextSlice()
    const encoded = await encode(item)
    if (encoded.length > 0 && parts.length > 0) parts.push(COMMA)
    for (const part of encoded) {
      parts.push(part)
      size += part.byteLength
    }
    const taken = index + 1
    if (size > MAX_PAGE_BYTES && taken < page.items.length) {
      // Only the store creates cursors.
      nextCursor = (await list({ ...options, limit: taken })).nextCursor
      break
    }
  }
  const next = nextCursor === undefined ? '' : `,"nextCursor":${JSON.stringify(nextCursor)}`
  return Buffer.concat([Buffer.from(head), ...parts, Buffer.from(`]${next}}`)])
}

/** Browser protections of every response. `strict-transport-security` is up to the TLS terminator. */
export const SECURITY_HEADERS = {
  'x-content-type-options': 'nosniff',
  // URLs contain ids and stream tokens.
  'referrer-policy': 'no-referrer',
  // Restricts embedding, such as images and scripts. Does not affect CORS.
  'cross-origin-resource-policy': 'same-origin',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  // `frame-ancestors` for older browsers.
  'x-frame-options': 'DENY',
} as const

const SECURITY = Object.entries(SECURITY_HEADERS)
const VISIBLE_ASCII = /^[\x21-\x7e]{1,200}$/

/** Sets common headers. Uses the client's request id if it is safe in a header and a log line. */
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
