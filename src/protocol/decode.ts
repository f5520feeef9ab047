import type * as z from 'zod'

/** What comes of reading untrusted input: the value, or a sentence that says why not. */
export type Decoded<T> = { ok: true; value: T } | { ok: false; reason: string }

/** Never throws: a schema's refusal becomes a reason that names the first field at fault. */
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

/** Like `decode`, from JSON text. */
export function decodeText<Schema extends z.ZodType>(
  schema: Schema,
  text: string,
): Decoded<z.infer<Schema>> {
  const json = parseJson(text)
  return json.ok ? decode(schema, json.value) : json
}

export function parseJson(text: string): Decoded<unknown> {
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch (error) {
    return {
      ok: false,
      reason: `not JSON: ${error instanceof Error ? error.message : 'unreadable'}`,
    }
  }
}
