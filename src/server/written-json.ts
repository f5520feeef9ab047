import type { Context, TypedResponse } from 'hono'
import type { JSONParsed } from 'hono/utils/types'
import type { GatewayEnv } from './context.ts'

/** JSON text of a value, without the value: what is stored as text need not be parsed to be sent. */
export interface WrittenJson<Value> {
  readonly text: string
  /** Never there: it lets the type of the value be known. */
  readonly value?: Value
}

export function writtenJson<Value>(
  c: Context<GatewayEnv>,
  { text }: WrittenJson<Value>,
): Response & TypedResponse<JSONParsed<Value>, 200, 'json'> {
  const response = c.body(text, 200, { 'content-type': 'application/json' })
  // Hono knows only of bodies that it has written itself what they hold.
  return response as Response as Response & TypedResponse<JSONParsed<Value>, 200, 'json'>
}
