import { isRecord } from '@turnstream/core/internal/protocol/json'

export type JsonSchema = Readonly<Record<string, unknown>>

const TYPES = new Set(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const ONE = new Set(['additionalProperties', 'contains', 'else', 'if', 'items', 'not', 'then'])
const MANY = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const NAMED = ['$defs', 'definitions', 'dependentSchemas', 'patternProperties', 'properties']
export const MAX_DEPTH = 100

/** Returns what is wrong with the JSON Schema of a tool's parameters; undefined if it can be used. */
export function findSchemaFault(parameters: unknown): string | undefined {
  if (!isRecord(parameters)) return 'must be a JSON Schema object'
  const { type } = parameters
  if (type !== undefined && type !== 'object') return 'type must be "object"'
  return faultIn(parameters, parameters, '', 1)
}

function faultIn(
  schema: unknown,
  root: JsonSchema,
  path: string,
  depth: number,
): string | undefined {
  if (typeof schema === 'boolean') return undefined
  const at = (fault: string) => (path === '' ? fault : `${path.slice(1)}: ${fault}`)
  if (!isRecord(schema)) return at('must be a schema: an object, true or false')
  if (depth > MAX_DEPTH) return `nested more than ${MAX_DEPTH} levels deep`
  const own = keywordFault(schema, root)
  if (own !== undefined) return at(own)
  for (const [key, value] of Object.entries(schema)) {
    for (const [name, each] of subschemas(key, value)) {
      const fault = faultIn(each, root, `${path}.${name}`, depth + 1)
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
  const noObject = NAMED.find((key) => schema[key] !== undefined && !isRecord(schema[key]))
  if (noObject !== undefined) return `${noObject} must be an object`
  const noList = MANY.find((key) => schema[key] !== undefined && !Array.isArray(schema[key]))
  if (noList !== undefined) return `${noList} must be a list`
  if (pattern !== undefined && !isPattern(pattern)) return 'pattern is not a regular expression'
  if ($ref !== undefined && !isResolved($ref, root)) return '$ref leads nowhere in this schema'
  return undefined
}

/** Returns the schemas that the value of a keyword contains, with their places in it. */
export function subschemas(key: string, value: unknown): [name: string, schema: unknown][] {
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
    const key = decodeFragment(part)?.replaceAll('~1', '/').replaceAll('~0', '~')
    if (key === undefined) return false
    found = isRecord(found) || Array.isArray(found) ? (found as JsonSchema)[key] : undefined
  }
  return found !== undefined
}

function decodeFragment(part: string): string | undefined {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined // a lone percent sign
  }
}
