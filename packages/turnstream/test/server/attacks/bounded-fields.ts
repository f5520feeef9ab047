/** Every field that a request may have, with a value that is larger than it may be. */
import type { JsonSchema, OpenApiDocument } from '../../../src/server/openapi.ts'

export interface Oversize {
  /** `input.0.content`, as a refusal names it. */
  readonly path: string
  /** A body that is right but for this field. */
  readonly body: unknown
}

interface Bounded extends JsonSchema {
  readonly maxItems?: number
  readonly additionalProperties?: unknown
}

/** As long as an id that is too long, and as what has no bound of its own that the description could tell. */
const LONG = 300_000

export function oversizesOf(document: OpenApiDocument, schema: JsonSchema): Oversize[] {
  const found: Oversize[] = []
  walk(schema, [], (body) => body)
  return found

  function walk(
    given: JsonSchema,
    path: readonly string[],
    wrap: (value: unknown) => unknown,
  ): void {
    const each: Bounded = resolved(given, document)
    const add = (value: unknown) => found.push({ path: path.join('.'), body: wrap(value) })
    for (const variant of each.oneOf ?? each.anyOf ?? []) walk(variant, path, wrap)
    if (each.type === 'string' && each.enum === undefined && each.const === undefined) {
      add('x'.repeat((each.maxLength ?? LONG) + 1))
    }
    if (each.maximum !== undefined) add(each.maximum + 1)
    if (each.minimum !== undefined) add(each.minimum - 1)
    if (each.maxItems !== undefined && each.items) {
      const item = minimal(each.items, document)
      add(Array.from({ length: each.maxItems + 1 }, () => item))
    }
    if (each.items) walk(each.items, [...path, '0'], (value) => wrap([value]))
    if (each.type === 'object' && each.properties === undefined) add({ a: 'x'.repeat(LONG) })
    const base = minimal(each, document) as object
    for (const [name, property] of Object.entries(each.properties ?? {})) {
      const others = path.length === 0 ? rootOf(base, name, each) : base
      walk(property, [...path, name], (value) => wrap({ ...others, [name]: value }))
    }
  }
}

/** What is right of the rest of a body: a submit has either of the two, a chat has something to answer. */
function rootOf(base: object, name: string, { properties = {} }: JsonSchema): object {
  if ('messages' in properties) return { ...base, messages: [{ role: 'user', content: 'Hi' }] }
  if (!('prompt' in properties) || name === 'input' || name === 'prompt') return base
  return { prompt: 'Hi', ...base }
}

function resolved(schema: JsonSchema, { components }: OpenApiDocument): JsonSchema {
  const name = schema.$ref?.slice(schema.$ref.lastIndexOf('/') + 1)
  return name === undefined ? schema : (components.schemas[name] ?? {})
}

/** The least that a schema allows. */
function minimal(given: JsonSchema, document: OpenApiDocument): unknown {
  const schema = resolved(given, document)
  const [variant] = schema.oneOf ?? schema.anyOf ?? []
  if (variant !== undefined) return minimal(variant, document)
  if (schema.const !== undefined) return schema.const
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.type === 'array') return []
  if (schema.type === 'boolean') return true
  if (schema.type === 'integer' || schema.type === 'number') return schema.minimum ?? 0
  if (schema.type !== 'object') return 'x'
  const { properties = {}, required = [] } = schema
  return Object.fromEntries(
    required.map((name) => [name, minimal(properties[name] ?? {}, document)]),
  )
}
