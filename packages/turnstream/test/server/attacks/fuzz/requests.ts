/** Requests that are as they should be, for all that is then done to them. */
import type { JsonSchema, OpenApiDocument, Operation } from '../../../../src/server/openapi.ts'
import type { Dice } from './dice.ts'

export interface Place {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

export interface WholeRequest {
  readonly method: string
  readonly target: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer
}

function placesOf({ paths }: OpenApiDocument): Place[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
    })),
  )
}

/** Ids that the server knows, and one that it does not. */
const IDS = ['known', 'other', 'unknown']
const DOOMED = ['doomed', 'unknown']

export class Requests {
  readonly #dice: Dice
  readonly #document: OpenApiDocument
  readonly #places: readonly Place[]

  constructor(dice: Dice, document: OpenApiDocument) {
    this.#dice = dice
    this.#document = document
    this.#places = placesOf(document)
  }

  /** One that the description allows, of any route, or of those that take a body. */
  next(only: 'any' | 'with a body' = 'any'): WholeRequest {
    const dice = this.#dice
    const places = this.#places.filter(
      ({ operation }) => only === 'any' || operation.requestBody !== undefined,
    )
    const { method, path, operation } = dice.pick(places)
    const schema = operation.requestBody?.content['application/json']?.schema
    const body = Buffer.from(schema === undefined ? '' : JSON.stringify(this.value(schema)))
    const headers: [string, string][] = [['host', '127.0.0.1:4010']]
    if (schema !== undefined) headers.push(['content-type', 'application/json'])
    if (dice.oneIn(4)) headers.push(['x-request-id', dice.pick(IDS)])
    for (const { in: where, name, schema: field } of operation.parameters) {
      if (where === 'header' && dice.oneIn(3)) headers.push([name, this.#plain(field)])
    }
    if (body.length > 0) headers.push(['content-length', String(body.length)])
    // What is known stays known: what can be read of it is the most that there is to attack.
    const ids = method === 'DELETE' ? DOOMED : IDS
    const target = `${this.#filled(path, ids)}${this.#query(operation)}`
    return { method, target, headers, body }
  }

  #filled(path: string, ids: readonly string[]): string {
    return path.replaceAll(/\{\w+\}/g, () => this.#dice.pick(ids))
  }

  #query({ parameters }: Operation): string {
    const dice = this.#dice
    const given = parameters.filter((each) => each.in === 'query' && dice.oneIn(2))
    const pairs = given.map(({ name, schema }) => `${name}=${encodeURI(this.#plain(schema))}`)
    return pairs.length > 0 ? `?${pairs.join('&')}` : ''
  }

  #plain(schema: JsonSchema): string {
    const value = this.value(schema)
    return typeof value === 'string' ? value.replaceAll(/[^\x21-\x7e]/g, '-') : String(value)
  }

  /** A value that a schema allows, more or less. */
  value(schema: JsonSchema, depth = 0): unknown {
    const dice = this.#dice
    const { $ref, oneOf, anyOf, properties, required = [], items } = schema
    if ($ref !== undefined) {
      const name = $ref.slice($ref.lastIndexOf('/') + 1)
      return this.value(this.#document.components.schemas[name] ?? {}, depth)
    }
    if (schema.const !== undefined) return schema.const
    if (schema.enum !== undefined) return dice.pick(schema.enum)
    const variants = oneOf ?? anyOf
    if (variants !== undefined) return this.value(dice.pick(variants), depth)
    if (items !== undefined) return dice.times(dice.below(3), () => this.value(items, depth + 1))
    if (properties !== undefined) {
      const fields = Object.entries(properties).filter(
        ([name]) => required.includes(name) || dice.oneIn(depth + 3),
      )
      return Object.fromEntries(fields.map(([name, each]) => [name, this.value(each, depth + 1)]))
    }
    return this.#scalar([schema.type ?? 'string'].flat()[0] ?? 'string')
  }

  #scalar(type: string): unknown {
    const dice = this.#dice
    if (type === 'integer') return dice.between(1, 50)
    if (type === 'number') return dice.below(100) / 100
    if (type === 'boolean') return dice.oneIn(2)
    if (type === 'object') return { a: dice.pick(IDS) }
    return dice.oneIn(2) ? dice.pick(IDS) : `new-${dice.below(1_000_000)}`
  }
}

/** The bytes of a request, however wrong its parts are. */
export function bytesOf({ method, target, headers, body }: WholeRequest, version = '1.1'): Buffer {
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([latin1(`${method} ${target} HTTP/${version}\r\n${lines}\r\n`), body])
}

/** Characters as bytes, those above U+00FF as UTF-8. */
export function latin1(text: string): Buffer {
  // oxlint-disable-next-line no-control-regex -- all that one byte can hold
  return /^[\0-\xff]*$/.test(text) ? Buffer.from(text, 'latin1') : Buffer.from(text)
}
