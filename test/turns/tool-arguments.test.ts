import { describe, expect, test } from 'vitest'
import { findArgumentsFault, findSchemaFault } from '../../src/turns/tool-arguments.ts'

const WEATHER = {
  type: 'object',
  properties: {
    city: { type: 'string', minLength: 2 },
    days: { type: 'integer', maximum: 5 },
    places: { type: 'array', items: { $ref: '#/$defs/place' } },
  },
  required: ['city'],
  additionalProperties: false,
  $defs: { place: { type: 'object', properties: { kind: { enum: ['a', 'b'] } } } },
}

describe('arguments of a call', () => {
  test.each([[{ city: 'Lisbon' }], [{ city: 'Lisbon', days: 5, places: [{ kind: 'a' }, {}] }]])(
    'match the schema: %j',
    (args) => {
      expect(findArgumentsFault(WEATHER, args)).toBeUndefined()
    },
  )

  test.each([
    [{}, 'Instance does not have required property "city".'],
    [{ city: 1 }, 'city: Instance type "number" is invalid. Expected "string".'],
    [{ city: 'x', days: 9 }, 'city: String is too short (1 < 2). days: 9 is greater than 5.'],
    [{ city: 'xx', town: 1 }, 'town: This property is not allowed.'],
    [
      { city: 'xx', places: [{}, { kind: 'c' }] },
      'places.1.kind: Instance does not match any of ["a","b"].',
    ],
  ])('do not: %j', (args, fault) => {
    expect(findArgumentsFault(WEATHER, args)).toBe(fault)
  })

  test('leave the schema as it is', () => {
    const before = JSON.stringify(WEATHER)
    findArgumentsFault(WEATHER, {})
    expect(JSON.stringify(WEATHER)).toBe(before)
  })

  test.each([
    ['http://json-schema.org/draft-04/schema#', { exclusiveMinimum: true, minimum: 1 }],
    ['http://json-schema.org/draft-07/schema#', { exclusiveMinimum: 1 }],
    ['https://json-schema.org/draft/2019-09/schema', { exclusiveMinimum: 1 }],
    ['https://json-schema.org/draft/2020-12/schema', { exclusiveMinimum: 1 }],
  ])('are checked by the rules of %s', ($schema, bound) => {
    const schema = { $schema, type: 'object', properties: { n: { type: 'number', ...bound } } }
    expect(findArgumentsFault(schema, { n: 1 })).toMatch(/^n: /)
    expect(findArgumentsFault(schema, { n: 2 })).toBeUndefined()
  })

  test('report five faults of a million', () => {
    const schema = { type: 'object', properties: { list: { items: { type: 'string' } } } }
    const fault = findArgumentsFault(schema, { list: Array.from({ length: 2000 }, () => 1) })
    expect(fault?.match(/Expected "string"/g)).toHaveLength(5)
  })

  test('are not compared with each other, which takes quadratic time', () => {
    const schema = { type: 'object', properties: { list: { uniqueItems: true } } }
    expect(findArgumentsFault(schema, { list: [1, 1] })).toBeUndefined()
  })
})

describe('the schema of parameters', () => {
  test.each([
    [{}],
    [WEATHER],
    [{ type: 'object', properties: { a: true, b: { $ref: '#' }, c: { items: [{}, {}] } } }],
    [{ anyOf: [{ required: ['a'] }, { not: { type: ['string', 'null'] } }] }],
  ])('can be used: %j', (schema) => {
    expect(findSchemaFault(schema)).toBeUndefined()
  })

  test.each([
    ['no object', 'must be a JSON Schema object'],
    [{ type: 'string' }, 'type must be "object"'],
    [{ properties: { a: { type: 'objekt' } } }, 'properties.a: unknown type "objekt"'],
    [{ properties: { a: 5 } }, 'properties.a: must be a schema: an object, true or false'],
    [{ properties: [] }, 'properties must be an object'],
    [{ required: 'a' }, 'required must be a list of names'],
    [{ anyOf: {} }, 'anyOf must be a list'],
    [{ properties: { a: { enum: 'b' } } }, 'properties.a: enum must be a list'],
    [{ items: { pattern: '(' } }, 'items: pattern is not a regular expression'],
    [{ allOf: [{ $ref: '#/$defs/a' }] }, 'allOf.0: $ref leads nowhere in this schema'],
    [{ $ref: 'https://example.com/a.json' }, '$ref leads nowhere in this schema'],
  ])('cannot: %j', (schema, fault) => {
    expect(findSchemaFault(schema)).toBe(fault)
  })

  test('is not nested for ever', () => {
    let schema: Record<string, unknown> = {}
    for (let depth = 0; depth < 200; depth++) schema = { items: schema }
    expect(findSchemaFault(schema)).toBe('nested more than 100 levels deep')
  })
})
