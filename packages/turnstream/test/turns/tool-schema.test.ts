import { describe, expect, test } from 'vitest'
import { findSchemaFault } from '../../src/turns/tool-schema.ts'

describe('the schema of parameters', () => {
  test.each([
    [{}],
    [{ properties: { a: { items: { $ref: '#/$defs/b' } } }, $defs: { b: { type: 'string' } } }],
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
    [{ $ref: '#/$defs/100%' }, '$ref leads nowhere in this schema'],
  ])('cannot: %j', (schema, fault) => {
    expect(findSchemaFault(schema)).toBe(fault)
  })

  test('is not nested for ever', () => {
    let schema: Record<string, unknown> = {}
    for (let depth = 0; depth < 200; depth++) schema = { items: schema }
    expect(findSchemaFault(schema)).toBe('nested more than 100 levels deep')
  })
})
