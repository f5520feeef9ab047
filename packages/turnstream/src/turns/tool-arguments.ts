import { type SchemaDraft, Validator } from '@cfworker/json-schema'
import { type JsonSchema, subschemas } from './tool-schema.ts'

// For the model, which corrects one call at a time.
const MAX_FAULTS = 5
const MAX_FAULT_CHARS = 200

/** Larger arguments are checked up to their first fault: a list may have as many faults as elements. */
const MAX_FULL_REPORT_CHARS = 10_000

/** A JSON Schema as text, compiled when it is used. Validating may take exponential time, unless `isLinear`. */
export class ArgumentsSchema {
  readonly text: string
  readonly #validators = new Map<boolean, Validator>()

  constructor(text: string) {
    this.text = text
  }

  /** Returns what is wrong with the arguments; undefined if they match. Throws if the schema cannot be used. */
  findFault(args: unknown, chars: number): string | undefined {
    const { valid, errors } = this.#validator(chars > MAX_FULL_REPORT_CHARS).validate(args)
    return valid ? undefined : describe(errors)
  }

  #validator(isShort: boolean): Validator {
    const known = this.#validators.get(isShort)
    if (known !== undefined) return known
    // A copy, because the validator marks what it has seen. `uniqueItems` takes quadratic time.
    const copy = JSON.parse(this.text, (key, value: unknown) =>
      key === 'uniqueItems' && value === true ? undefined : value,
    ) as JsonSchema
    const validator = new Validator(copy, draftOf(copy), isShort)
    this.#validators.set(isShort, validator)
    return validator
  }
}

type Fault = ReturnType<Validator['validate']>['errors'][number]

/** Describes the first faults. A fault is reported once more for every level above it; these are left out. */
function describe(errors: readonly Fault[]): string {
  const outer = new Set<string>()
  for (const { instanceLocation: place } of errors) {
    for (let at = place.lastIndexOf('/'); at > 0; at = place.lastIndexOf('/', at - 1)) {
      const level = place.slice(0, at)
      // Then the levels above it are known too.
      if (outer.has(level)) break
      outer.add(level)
    }
  }
  const faults = new Set<string>()
  for (const { instanceLocation, keyword, error } of errors) {
    if (outer.has(instanceLocation)) continue
    const place = instanceLocation.replace(/^#\/?/, '').replaceAll('/', '.')
    const text = keyword === 'false' ? 'This property is not allowed.' : error
    faults.add((place === '' ? text : `${place}: ${text}`).slice(0, MAX_FAULT_CHARS))
    if (faults.size === MAX_FAULTS) break
  }
  return [...faults].join(' ')
}

function draftOf({ $schema }: JsonSchema): SchemaDraft {
  if (typeof $schema !== 'string') return '2020-12'
  if (/draft-0[34]/.test($schema)) return '4'
  if (/draft-0[67]/.test($schema)) return '7'
  return $schema.includes('2019-09') ? '2019-09' : '2020-12'
}

/** Keywords that take one step per value, or one per value and choice. */
const PLAIN = wordSet(`
  $comment $schema default deprecated description examples readOnly title writeOnly
  const enum required type uniqueItems exclusiveMaximum exclusiveMinimum maximum minimum multipleOf
  maxItems maxLength maxProperties minItems minLength minProperties`)
const NESTED = wordSet('additionalProperties allOf anyOf items not oneOf prefixItems properties')

function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.trim().split(/\s+/))
}

/** Returns whether validation takes linear time: no regular expressions, and one path to every part of the schema. */
export function isLinear(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return true
  return Object.entries(schema).every(
    ([key, value]) =>
      PLAIN.has(key) ||
      (NESTED.has(key) && subschemas(key, value).every(([, each]) => isLinear(each))),
  )
}

/** The most steps that are taken on the event loop: some milliseconds. In characters of schema and arguments, multiplied. */
export const MAX_STEPS = 500_000

const known = new WeakMap<JsonSchema, ReturnType<typeof compile>>()

function compile(parameters: JsonSchema) {
  const schema = new ArgumentsSchema(JSON.stringify(parameters))
  return { schema, isLinear: isLinear(parameters) }
}

function knownSchema(parameters: JsonSchema) {
  const compiled = known.get(parameters) ?? compile(parameters)
  known.set(parameters, compiled)
  return compiled
}

/** Returns the JSON text of a schema, which is computed once. */
export function schemaText(parameters: JsonSchema): string {
  return knownSchema(parameters).schema.text
}

/**
 * Checks arguments at once if that is cheap; returns undefined if it may not be. `text` is the JSON of `args`.
 */
export function checkQuickly(
  parameters: JsonSchema,
  args: unknown,
  text: string,
): { readonly fault: string | undefined } | undefined {
  const { schema, isLinear: isCheap } = knownSchema(parameters)
  if (!isCheap || schema.text.length * text.length > MAX_STEPS) return undefined
  return { fault: schema.findFault(args, text.length) }
}
