import type * as z from 'zod'
import { type Decoded, parseJson } from '../protocol/json.ts'

/** Validates input against a schema. Never throws; the reason names the first invalid field. */
export function decode<Schema extends z.ZodType>(
  schema: Schema,
  json: unknown,
): Decoded<z.infer<Schema>> {
  const result = schema.safeParse(json)
  if (result.success) return { ok: true, value: result.data }
  const issue = result.error.issues[0]
  const path = issue?.path.map(String).join('.') ?? ''
  const message = issue?.message ?? 'invalid'
  return { ok: false, reason: path === '' ? message : `${path}: ${message}` }
}

/** Like `decode`, but takes JSON text. */
export function decodeText<Schema extends z.ZodType>(
  schema: Schema,
  text: string,
): Decoded<z.infer<Schema>> {
  const json = parseJson(text)
  return json.ok ? decode(schema, json.value) : json
}
