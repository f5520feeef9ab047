import { isRecord } from '../../../core/src/protocol/json.ts'
import type { JsonSchema, OpenApiDocument } from '../../src/server/openapi.ts'

/** The rest of the vocabulary that our documents use. */
interface Schema extends JsonSchema {
  readonly additionalProperties?: Schema | false
  readonly pattern?: string
  readonly minLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly propertyNames?: Schema
}

/** Every keyword that `faultsOf` holds values to, or that says nothing about values. */
export const KEYWORDS = new Set([
  ...['$ref', 'type', 'properties', 'required', 'additionalProperties', 'propertyNames', 'items'],
  ...['oneOf', 'anyOf', 'enum', 'const', 'pattern', 'minLength', 'maxLength', 'minItems'],
  ...['maxItems', 'minimum', 'maximum', 'description', 'default', 'examples'],
])

/** What is wrong with a value by a schema of the document: nothing, if it is valid. */
export function faultsOf(
  schema: JsonSchema,
  value: unknown,
  document: OpenApiDocument,
  path = '$',
): string[] {
  const inner = (each: JsonSchema, part: unknown, at: string) =>
    faultsOf(each, part, document, `${path}${at}`)
  const { $ref, oneOf, anyOf } = schema
  if ($ref !== undefined) return inner(resolve($ref, document), value, '')
  const faults = ownFaults(schema, value).map((fault) => `${path} ${fault}`)
  const variants = oneOf ?? anyOf
  if (variants !== undefined) {
    const fitting = variants.filter((variant) => inner(variant, value, '').length === 0).length
    if (oneOf === undefined ? fitting === 0 : fitting !== 1) {
      faults.push(`${path} fits ${fitting} of ${variants.length} variants`)
    }
  }
  const { properties = {}, items, additionalProperties } = schema as Schema
  if (Array.isArray(value) && items !== undefined) {
    faults.push(...value.flatMap((each, index) => inner(items, each, `[${index}]`)))
  }
  if (!isRecord(value)) return faults
  for (const [name, part] of Object.entries(value)) {
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (known !== undefined) faults.push(...inner(known, part, `.${name}`))
    else if (additionalProperties === false) faults.push(`${path}.${name} is not allowed`)
    else if (additionalProperties) faults.push(...inner(additionalProperties, part, `.${name}`))
  }
  return faults
}

export function resolve($ref: string, document: OpenApiDocument): JsonSchema {
  const name = $ref.replace('#/components/schemas/', '')
  const schema = document.components.schemas[name]
  if (schema === undefined) throw new Error(`${$ref} leads nowhere`)
  return schema
}

const TYPES: Record<string, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  boolean: (value) => typeof value === 'boolean',
  object: isRecord,
  array: (value) => Array.isArray(value),
  null: (value) => value === null,
}

function ownFaults(schema: Schema, value: unknown): string[] {
  const { type, required = [], pattern } = schema
  const types = [type ?? []].flat()
  const text = typeof value === 'string' ? value : undefined
  const number = typeof value === 'number' ? value : undefined
  const list = Array.isArray(value) ? value : undefined
  const missing = isRecord(value) ? required.filter((name) => !Object.hasOwn(value, name)) : []
  const checks: [boolean, string][] = [
    [
      type !== undefined && !types.some((each) => TYPES[each]?.(value)),
      `is no ${types.join(' or ')}`,
    ],
    [schema.enum !== undefined && !schema.enum.includes(value), 'is none of the values'],
    [schema.const !== undefined && schema.const !== value, 'is not the value'],
    [missing.length > 0, `lacks ${missing.join(', ')}`],
    [pattern !== undefined && text?.match(new RegExp(pattern, 'u')) === null, 'does not match'],
    [(text?.length ?? Infinity) < (schema.minLength ?? 0), 'is too short'],
    [(text?.length ?? 0) > (schema.maxLength ?? Infinity), 'is too long'],
    [(number ?? Infinity) < (schema.minimum ?? -Infinity), 'is too small'],
    [(number ?? -Infinity) > (schema.maximum ?? Infinity), 'is too large'],
    [(list?.length ?? Infinity) < (schema.minItems ?? 0), 'has too few items'],
    [(list?.length ?? 0) > (schema.maxItems ?? Infinity), 'has too many items'],
  ]
  return checks.flatMap(([isFault, fault]) => (isFault ? [fault] : []))
}
