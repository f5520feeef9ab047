import { describe, expect, test } from 'vitest'
import { ArgumentsSchema, checkQuickly, isLinear } from '../../src/turns/tool-arguments.ts'

function findArgumentsFault(schema: object, args: object): string | undefined {
  return new ArgumentsSchema(JSON.stringify(schema)).findFault(args, JSON.stringify(args).length)
}

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

  test('report five faults of two thousand', () => {
    const schema = { type: 'object', properties: { list: { items: { type: 'string' } } } }
    const fault = findArgumentsFault(schema, { list: Array.from({ length: 2000 }, () => 1) })
    expect(fault?.match(/Expected "string"/g)).toHaveLength(5)
  })

  test('report the first fault of half a million', () => {
    const schema = { type: 'object', properties: { list: { items: { type: 'string' } } } }
    const fault = findArgumentsFault(schema, { list: Array.from({ length: 500_000 }, () => 1) })
    expect(fault).toBe('list.0: Instance type "number" is invalid. Expected "string".')
  })

  test('are not compared with each other, which takes quadratic time', () => {
    const schema = { type: 'object', properties: { list: { uniqueItems: true } } }
    expect(findArgumentsFault(schema, { list: [1, 1] })).toBeUndefined()
  })
})

describe('a check on the event loop', () => {
  test.each([
    [{}],
    [{ type: 'object', properties: { a: { items: { anyOf: [{ type: 'string' }, true] } } } }],
    [{ additionalProperties: { oneOf: [{ not: { enum: ['a'] } }] }, required: ['b'] }],
  ])('takes schemas with a bounded number of steps: %j', (schema) => {
    expect(isLinear(schema)).toBe(true)
    expect(checkQuickly(schema, { b: 1 }, '{"b":1}')).toEqual({ fault: undefined })
  })

  test.each([
    [{ properties: { a: { pattern: '^(a+)+$' } } }],
    [{ properties: { a: { format: 'email' } } }],
    [{ patternProperties: { '^(a+)+$': true } }],
    [{ propertyNames: { maxLength: 3 } }],
    [{ properties: { a: { $ref: '#' } } }],
    [{ items: [{ anyOf: [{ if: { pattern: 'a' } }] }] }],
    [{ unknown: { pattern: 'a' } }],
  ])('does not take others: %j', (schema) => {
    expect(checkQuickly(schema, {}, '{}')).toBeUndefined()
  })

  test('does not take a schema and arguments that are large together', () => {
    const schema = { properties: { a: { enum: Array.from({ length: 1000 }, (_, at) => `${at}`) } } }
    const args = { a: 'x'.repeat(1000) }
    expect(checkQuickly(schema, { a: '7' }, '{"a":"7"}')).toEqual({ fault: undefined })
    expect(checkQuickly(schema, args, JSON.stringify(args))).toBeUndefined()
  })

  test('leaves the schema as it is', () => {
    const before = JSON.stringify(WEATHER)
    checkQuickly(WEATHER, {}, '{}')
    expect(JSON.stringify(WEATHER)).toBe(before)
  })
})
