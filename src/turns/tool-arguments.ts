import { type SchemaDraft, Validator } from '@cfworker/json-schema'
import { isRecord } from '../protocol/json.ts'

type JsonSchema = Readonly<Record<string, unknown>>

// For the model, which corrects one call at a time.
const MAX_FAULTS = 5
const MAX_FAULT_CHARS = 200

const validators = new WeakMap<JsonSchema, Validator>()

/**
 * Returns what is wrong with the arguments of a call, for the model; undefined if they match the JSON Schema.
 * Throws if the schema cannot be used. `uniqueItems` is not checked: it takes quadratic time.
 */
export function findArgumentsFault(
  parameters: JsonSchema,
  args: Readonly<Record<string, unknown>>,
): string | undefined {
  const { valid, errors } = validatorOf(parameters).validate(args)
  if (valid) return undefined
  // A fault is reported once more for every level above it.
  const innermost = errors.filter(
    ({ instanceLocation: place }) =>
      !errors.some((other) => other.instanceLocation.startsWith(`${place}/`)),
  )
  const faults = innermost.map(({ instanceLocation, keyword, error }) => {
    const place = instanceLocation.replace(/^#\/?/, '').replaceAll('/', '.')
    const text = keyword === 'false' ? 'This property is not allowed.' : error
    return (place === '' ? text : `${place}: ${text}`).slice(0, MAX_FAULT_CHARS)
  })
  return [...new Set(faults)].slice(0, MAX_FAULTS).join(' ')
}

function validatorOf(parameters: JsonSchema): Validator {
  const known = validators.get(parameters)
  if (known !== undefined) return known
  // A copy, because the validator marks what it has seen in the schema itself.
  const copy = JSON.parse(JSON.stringify(parameters), (key, value: unknown) =>
    key === 'uniqueItems' && value === true ? undefined : value,
  ) as Record<string, unknown>
  const validator = new Validator(copy, draftOf(parameters), false)
  validators.set(parameters, validator)
  return validator
}

function draftOf({ $schema }: JsonSchema): SchemaDraft {
  if (typeof $schema !== 'string') return '2020-12'
  if (/draft-0[34]/.test($schema)) return '4'
  if (/draft-0[67]/.test($schema)) return '7'
  return $schema.includes('2019-09') ? '2019-09' : '2020-12'
}

const TYPES = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const ONE = new Set(['additionalProperties', 'contains', 'else', 'if', 'items', 'not', 'then'])
const MANY = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const NAMED = ['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties']
const MAX_DEPTH = 100

/** Returns what is wrong with the JSON Schema of a tool's parameters; undefined if it can be used. */
export function findSchemaFault(parameters: unknown): string | undefined {
  if (!isRecord(parameters)) return 'must be a JSON Schema object'
  const { type } = parameters
  if (type !== undefined && type !== 'object') return 'type must be "object"'
  return faultIn(parameters, parameters, '')
}

function faultIn(schema: unknown, root: JsonSchema, path: string): string | undefined {
  if (typeof schema === 'boolean') return undefined
  const at = (fault: string) => (path === '' ? fault : `${path.slice(1)}: ${fault}`)
  if (!isRecord(schema)) return at('must be a schema: an object, true or false')
  if (path.split('.').length > MAX_DEPTH) return `nested more than ${MAX_DEPTH} levels deep`
  const own = keywordFault(schema, root)
  if (own !== undefined) return at(own)
  for (const [key, value] of Object.entries(schema)) {
    for (const [name, each] of subschemas(key, value)) {
      const fault = faultIn(each, root, `${path}.${name}`)
      if (fault !== undefined) return fault
    }
  }
  return undefined
}

function keywordFault(schema: JsonSchema, root: JsonSchema): string | undefined {
  const { type, required, pattern, enum: choices, $ref } = schema
  const types: unknown[] = Array.isArray(type) ? type : [type ?? 'object']
  const unknown = types.find((each) => !TYPES.has(each as string))
  if (unknown !== undefined) return `unknown type ${JSON.stringify(unknown)}`
  const isNames = Array.isArray(required) && required.every((each) => typeof each === 'string')
  if (required !== undefined && !isNames) return 'required must be a list of names'
  if (choices !== undefined && !Array.isArray(choices)) return 'enum must be a list'
  for (const key of NAMED) {
    if (schema[key] !== undefined && !isRecord(schema[key])) return `${key} must be an object`
  }
  for (const key of MANY) {
    if (schema[key] !== undefined && !Array.isArray(schema[key])) return `${key} must be a list`
  }
  if (pattern !== undefined && !isPattern(pattern)) return 'pattern is not a regular expression'
  if ($ref !== undefined && !isResolved($ref, root)) return '$ref leads nowhere in this schema'
  return undefined
}

function subschemas(key: string, value: unknown): [name: string, schema: unknown][] {
  if (ONE.has(key) && !Array.isArray(value)) return [[key, value]]
  if ((MANY.includes(key) || key === 'items') && Array.isArray(value)) {
    return value.map((each, index) => [`${key}.${index}`, each])
  }
  if (!NAMED.includes(key) || !isRecord(value)) return []
  return Object.entries(value).map(([name, each]) => [`${key}.${name}`, each])
}

function isPattern(pattern: unknown): boolean {
  try {
    return typeof pattern === 'string' && RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** Pointers are followed; the validator knows names. Nothing is fetched. */
function isResolved($ref: unknown, root: JsonSchema): boolean {
  if (typeof $ref !== 'string') return false
  if (!$ref.startsWith('#/')) return $ref.startsWith('#')
  let found: unknown = root
  for (const part of $ref.slice(2).split('/')) {
    const key = decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')
    found = isRecord(found) || Array.isArray(found) ? (found as JsonSchema)[key] : undefined
  }
  return found !== undefined
}
