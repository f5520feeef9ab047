import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { outputItemSchema } from '../../src/protocol/output-item.ts'
import { responseSchema } from '../../src/protocol/response.ts'
import { responseEventSchema } from '../../src/protocol/response-event.ts'
import {
  STREAM_EVENT_TYPES,
  streamEventSchema,
  usageSchema,
} from '../../src/protocol/stream-event.ts'
import {
  contentSchema,
  streamMessageSchema,
  turnEventSchema,
} from '../../src/protocol/stream-output.ts'
import { read } from './sources.ts'
import { section, tableRows } from './tables.ts'

const doc = read('docs/protocol.md')

interface JsonSchema {
  type?: string | string[]
  const?: string
  enum?: string[]
  oneOf?: JsonSchema[]
  anyOf?: JsonSchema[]
  properties?: Record<string, JsonSchema>
  required?: string[]
}

interface Shape {
  /** What it is called in docs/protocol.md. */
  title: string
  schema: JsonSchema | undefined
  /** The sections whose tables together give its fields: the one of its name, unless told. */
  sections?: string[]
  /** Fields that are described in prose, once for all shapes that have them. */
  inProse?: string[]
}

const shapes: Shape[] = [
  { title: 'StreamEvent', schema: variants(streamEventSchema)[0] },
  ...variants(streamEventSchema).map((event) => ({
    title: tagOf(event),
    schema: event.properties?.['payload'],
    inProse: ['type'],
  })),
  ...variants(outputItemSchema).map((schema) => ({
    title: `${tagOf(schema)} item`,
    schema,
    inProse: ['type', 'id', 'provider_metadata'],
  })),
  { title: 'Usage', schema: jsonSchema(usageSchema) },
  content('MessageSnapshot', 'message'),
  content('Thinking', 'thinking'),
  content('ToolCall', 'tool_call'),
  turnEvent('TurnStarted', 'turn_started'),
  turnEvent('TurnComplete', 'turn_complete'),
  turnEvent('TurnError', 'turn_error'),
  { title: 'StreamMessage', schema: jsonSchema(streamMessageSchema) },
  { title: 'ReducedResponse', schema: jsonSchema(responseSchema) },
]

describe('docs/protocol.md', () => {
  test.each(shapes)('gives the fields of $title', (shape) => {
    expect(documentedFields(shape)).toEqual(schemaFields(shape))
  })

  test.each(shapes)('gives the types of the fields of $title', (shape) => {
    expect(wrongTypes(shape)).toEqual([])
  })

  test('gives the types and fields of ResponseEvent', () => {
    const rows = tableRows(section(doc, 'ResponseEvent')).map(([type = '', fields = '']) => ({
      type: unquote(type),
      fields: [...fields.matchAll(/`(\w+)`/g)].map(([, name]) => name),
    }))
    const schemas = variants(responseEventSchema).map((schema) => ({
      type: tagOf(schema),
      fields: Object.keys(schema.properties ?? {}).filter((name) => name !== 'type'),
    }))
    expect(rows).toEqual(schemas)
  })

  test('lists every type of event', () => {
    const titles = [...doc.matchAll(/^### ([a-z_]+)$/gm)].map(([, title]) => title)
    expect(titles).toEqual(STREAM_EVENT_TYPES)
  })
})

function content(title: string, type: string): Shape {
  const schema = variants(contentSchema).find((each) => tagOf(each) === type)
  return { title, schema, sections: ['ItemSnapshot', title], inProse: ['type'] }
}

function turnEvent(title: string, type: string): Shape {
  const schema = variants(turnEventSchema).find((each) => tagOf(each) === type)
  return { title, schema, inProse: ['type'] }
}

function rowsOf({ title, sections = [title] }: Shape): string[][] {
  const rows = sections.flatMap((name) => tableRows(section(doc, name)))
  return rows.filter((cells) => cells.length === 4)
}

function documentedFields(shape: Shape): string[] {
  return rowsOf(shape)
    .map(([name = '', , required = '']) => `${unquote(name)} required: ${required}`)
    .toSorted()
}

function schemaFields({ schema, inProse = [] }: Shape): string[] {
  const names = Object.keys(schema?.properties ?? {}).filter((name) => !inProse.includes(name))
  return names
    .map((name) => `${name} required: ${schema?.required?.includes(name) ? 'yes' : 'no'}`)
    .toSorted()
}

/** The second column must name the type, or all the values where there are only a few. */
function wrongTypes(shape: Shape): string[] {
  return rowsOf(shape).flatMap(([name = '', cell = '']) => {
    const property = shape.schema?.properties?.[unquote(name)]
    const words = property?.enum?.map((value) => `\`${value}\``) ?? typesIn(property)
    return words.filter((word) => !cell.includes(word)).map((word) => `${name}: no ${word}`)
  })
}

function typesIn({ type, anyOf, oneOf }: JsonSchema = {}): string[] {
  if (type !== undefined) return [type].flat()
  return oneOf ? ['object'] : (anyOf ?? []).flatMap(typesIn)
}

function variants(schema: z.ZodType): JsonSchema[] {
  return jsonSchema(schema).oneOf ?? []
}

function jsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema) as JsonSchema
}

function tagOf(schema: JsonSchema): string {
  return schema.properties?.['type']?.const ?? ''
}

function unquote(cell: string): string {
  return cell.replaceAll('`', '')
}
