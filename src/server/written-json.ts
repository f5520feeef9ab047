import { ServerResponse } from 'node:http'
import type { Context, TypedResponse } from 'hono'
import type { JSONParsed } from 'hono/utils/types'
import type { GatewayContext, GatewayEnv } from './context.ts'
import { onResponseClose } from './response-close.ts'

/** JSON of a value, in UTF-8, without the value: what is stored as text need not be parsed to be sent. */
export interface WrittenJson<Value> {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Never there: it lets the type of the value be known. */
  readonly value?: Value
}

type JsonAnswer<Value> = Response & TypedResponse<JSONParsed<Value>, 200, 'json'>

/**
 * Answers a read of the caller, when it is its turn. READS_LIMITED, UNREAD_LIMITED, and what `read` throws.
 */
export async function answerRead<Value>(
  c: Context<GatewayEnv>,
  context: Pick<GatewayContext, 'limits'>,
  read: () => Promise<WrittenJson<Value>>,
): Promise<JsonAnswer<Value>> {
  const written = await context.limits.read(c.get('caller'), async () =>
    // Whoever left while others were served needs no answer.
    c.env?.outgoing?.destroyed === true ? NOTHING : await read(),
  )
  return sendJson(c, context, written)
}

const NOTHING = { bytes: new Uint8Array() }

/** Answers with JSON, which counts as unsent until the client has taken it. UNREAD_LIMITED. */
export function sendJson<Value>(
  c: Context<GatewayEnv>,
  { limits }: Pick<GatewayContext, 'limits'>,
  written: WrittenJson<Value>,
): JsonAnswer<Value> {
  const release = limits.holdAnswer(c.get('caller'), written.bytes.byteLength)
  const outgoing = c.env?.outgoing
  if (outgoing instanceof ServerResponse && !outgoing.destroyed) onResponseClose(outgoing, release)
  else release()
  return writtenJson(c, written)
}

/** The same for what is not counted, because all answers share the bytes. */
export function writtenJson<Value>(
  c: Context<GatewayEnv>,
  { bytes }: WrittenJson<Value>,
): JsonAnswer<Value> {
  const response = c.body(bytes, 200, { 'content-type': 'application/json' })
  // Hono knows only of bodies that it has written itself what they hold.
  return response as Response as JsonAnswer<Value>
}

export function toWrittenJson<Value>(value: Value): WrittenJson<Value> {
  return { bytes: Buffer.from(JSON.stringify(value)) }
}
