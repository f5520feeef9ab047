/** The TypeScript types of docs/protocol.md are those of the schemas. */

import { parseSync } from 'oxc-parser'
import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { outputItemSchema } from '../../packages/core/src/schemas/output-item.ts'
import { responseEventSchema, responseSchema } from '../../packages/core/src/schemas/response.ts'
import {
  STREAM_EVENT_TYPES,
  streamEventSchema,
  usageSchema,
} from '../../packages/core/src/schemas/stream-event.ts'
import {
  contentSchema,
  streamMessageSchema,
  turnEventSchema,
} from '../../packages/core/src/schemas/stream-output.ts'
import { read } from './sources.ts'

/** A type as text, with names resolved: objects as JSON with sorted keys. Equal types have equal texts. */
type Shape = string

interface JsonSchema {
  type?: string | string[]
  const?: string
  enum?: string[]
  oneOf?: JsonSchema[]
  anyOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  required?: string[]
}

interface Node {
  type: string
  [field: string]: unknown
}

const declarations = declarationsIn(read('docs/protocol.md'))

function declarationsIn(doc: string): Map<string, Node> {
  const blocks = [...doc.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code = '']) => code)
  const { program, errors } = parseSync('protocol.ts', blocks.join('\n'))
  if (errors.length > 0) throw new Error(`a block does not parse: ${errors[0]?.message}`)
  const statements = program.body as unknown as Node[]
  return new Map(statements.map((each) => [(each['id'] as Node)['name'] as string, each]))
}

function declared(name: string): Shape[] {
  const node = declarations.get(name)
  if (node === undefined) throw new Error(`docs/protocol.md has no type ${name}`)
  if (node.type === 'TSTypeAliasDeclaration') return shapesOf(node['typeAnnotation'] as Node)
  return [objectShape(fieldsOf(node))]
}

function fieldsOf(node: Node): Map<string, Shape> {
  if (node.type === 'TSTypeLiteral') return membersOf(node['members'] as Node[])
  const bases = (node['extends'] as Node[]).flatMap((base) => {
    const named = declarations.get((base['expression'] as Node)['name'] as string)
    return named === undefined ? [] : [...fieldsOf(named)]
  })
  return new Map([...bases, ...membersOf((node['body'] as Node)['body'] as Node[])])
}

function membersOf(members: Node[]): Map<string, Shape> {
  return new Map(
    members.map((member) => {
      const mark = member['optional'] === true ? '?' : ''
      const annotation = (member['typeAnnotation'] as Node)['typeAnnotation'] as Node
      return [
        `${(member['key'] as Node)['name'] as string}${mark}`,
        unionShape(shapesOf(annotation)),
      ]
    }),
  )
}

/** The alternatives of a type. */
function shapesOf(node: Node): Shape[] {
  switch (node.type) {
    case 'TSUnionType':
      return (node['types'] as Node[]).flatMap(shapesOf)
    case 'TSParenthesizedType':
      return shapesOf(node['typeAnnotation'] as Node)
    case 'TSIntersectionType':
      return (node['types'] as Node[])
        .map(shapesOf)
        .reduce((left, right) =>
          left.flatMap((one) => right.map((other) => mergeShapes(one, other))),
        )
    case 'TSArrayType':
      return [`${unionShape(shapesOf(node['elementType'] as Node))}[]`]
    case 'TSTypeLiteral':
      return [objectShape(fieldsOf(node))]
    case 'TSLiteralType':
      return [`'${(node['literal'] as Node)['value'] as string}'`]
    case 'TSTypeReference': {
      const name = (node['typeName'] as Node)['name'] as string
      return name === 'Record' ? ['{}'] : declared(name)
    }
    default:
      return [node.type.replace(/^TS(\w+)Keyword$/, '$1').toLowerCase()]
  }
}

function schemaShapes(schema: JsonSchema): Shape[] {
  const { type, enum: values, oneOf, anyOf, properties = {}, required = [] } = schema
  if (schema.const !== undefined) return [`'${schema.const}'`]
  if (values !== undefined) return values.map((value) => `'${value}'`)
  const variants = oneOf ?? anyOf
  if (variants !== undefined) return variants.flatMap(schemaShapes)
  if (type === undefined) return ['unknown']
  if (type === 'array') return [`${unionShape(schemaShapes(schema.items ?? {}))}[]`]
  if (type !== 'object') return [type].flat()
  const fields = Object.entries(properties).map(([name, property]): [string, Shape] => [
    `${name}${required.includes(name) ? '' : '?'}`,
    unionShape(schemaShapes(property)),
  ])
  return [objectShape(fields)]
}

function objectShape(fields: Iterable<[string, Shape]>): Shape {
  return JSON.stringify(Object.fromEntries([...fields].toSorted(byName)))
}

function byName([one]: [string, Shape], [other]: [string, Shape]): number {
  return one < other ? -1 : 1
}

function mergeShapes(one: Shape, other: Shape): Shape {
  const fields = [one, other].flatMap((shape) =>
    Object.entries(JSON.parse(shape) as Record<string, Shape>),
  )
  return objectShape(fields)
}

function unionShape(shapes: Shape[]): Shape {
  return [...new Set(shapes)].toSorted().join(' | ')
}

function schemaShape(schema: z.ZodType): Shape {
  return unionShape(schemaShapes(z.toJSONSchema(schema) as JsonSchema))
}

function variantsOf(schema: z.ZodType): JsonSchema[] {
  return (z.toJSONSchema(schema) as JsonSchema).oneOf ?? []
}

function tagOf(schema: JsonSchema): string {
  return schema.properties?.['type']?.const ?? ''
}

describe('docs/protocol.md', () => {
  test.each([
    ['OutputItem', outputItemSchema],
    ['Usage', usageSchema],
    ['StreamMessage', streamMessageSchema],
    ['ReducedResponse', responseSchema],
    ['ResponseEvent', responseEventSchema],
  ])('has the fields of %s', (name, schema) => {
    expect(unionShape(declared(name))).toBe(schemaShape(schema))
  })

  test('has the fields of snapshots and turn events', () => {
    const names = ['MessageSnapshot', 'Thinking', 'ToolCall']
    expect(unionShape(names.flatMap(declared))).toBe(schemaShape(contentSchema))
    const turnEvents = ['TurnStarted', 'TurnComplete', 'TurnError']
    expect(unionShape(turnEvents.flatMap(declared))).toBe(schemaShape(turnEventSchema))
  })

  test('has the envelope of a StreamEvent', () => {
    const documented = [...fieldsOf(declarations.get('StreamEvent') as Node).keys()]
    for (const event of variantsOf(streamEventSchema)) {
      expect(documented).toEqual(Object.keys(event.properties ?? {}))
      expect(documented).toEqual(event.required)
    }
  })

  const payloads = fieldsOf(declarations.get('Payloads') as Node)

  test('lists every payload', () => {
    expect([...payloads.keys()]).toEqual(STREAM_EVENT_TYPES)
  })

  test.each(variantsOf(streamEventSchema).map((event) => [tagOf(event), event] as const))(
    'has the fields of %s',
    (type, event) => {
      const { type: _type, ...properties } = event.properties?.['payload']?.properties ?? {}
      const payload = { ...event.properties?.['payload'], properties }
      expect(payloads.get(type)).toBe(unionShape(schemaShapes(payload)))
    },
  )
})
