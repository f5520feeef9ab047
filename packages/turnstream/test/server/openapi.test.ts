import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { chatBodySchema } from '../../../core/src/formats/chat-completions/schemas.ts'
import { isRecord } from '../../../core/src/protocol/json.ts'
import { type JsonSchema, type OpenApiDocument, openapiDocument } from '../../src/server/openapi.ts'
import { cancelBodySchema } from '../../src/server/routes/runs.ts'
import { SECURITY_SCHEMES } from '../../src/server/routes/spec.ts'
import { streamTokenBodySchema } from '../../src/server/routes/stream-tokens.ts'
import { submitBodySchema } from '../../src/server/routes/submit.ts'
import { newThreadSchema, threadChangesSchema } from '../../src/server/routes/threads.ts'
import { createGateway, MemoryLog, Providers } from '../../src/server.ts'
import { HeldProvider } from './held-provider.ts'
import { faultsOf, KEYWORDS, resolve } from './json-schema.ts'

const held = { provider: new HeldProvider(), models: [], defaultModel: 'm' }
const gateway = createGateway({
  log: new MemoryLog(),
  instance: 'test',
  providers: new Providers([held]),
})
const document: OpenApiDocument = openapiDocument(gateway.app)

/** Every object of the document that is a schema, with the way that leads to it. */
function* schemasIn(value: unknown, path = '$'): Generator<[string, JsonSchema]> {
  if (Array.isArray(value)) {
    for (const [index, each] of value.entries()) yield* schemasIn(each, `${path}[${index}]`)
  } else if (isRecord(value)) {
    for (const [name, each] of Object.entries(value)) {
      const at = `${path}.${name}`
      if (name === 'schema' || path === '$.components.schemas') yield* schemaAndParts(each, at)
      else yield* schemasIn(each, at)
    }
  }
}

function* schemaAndParts(value: unknown, path: string): Generator<[string, JsonSchema]> {
  if (!isRecord(value)) return
  const schema = value as JsonSchema & { additionalProperties?: JsonSchema }
  yield [path, schema]
  const { properties = {}, oneOf = [], anyOf = [], items, additionalProperties } = schema
  for (const [name, each] of Object.entries(properties))
    yield* schemaAndParts(each, `${path}.${name}`)
  for (const each of [...oneOf, ...anyOf, items, additionalProperties]) {
    yield* schemaAndParts(each, `${path}[]`)
  }
}

const schemas = [...schemasIn(document)]
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
)

/** Two in one object would both be needed. */
function isOne(schemes: object): boolean {
  return Object.keys(schemes).length === 1
}

/** What OpenAPI 3.1 asks of a document, as far as ours has it. */
const operationShape = z.strictObject({
  operationId: z.string().regex(/^[a-z][A-Za-z]+$/),
  summary: z.string().regex(/^[A-Z][^.]+$/),
  description: z.string().min(1).optional(),
  tags: z.array(z.string()).min(1),
  security: z.array(
    z.partialRecord(z.enum(Object.keys(SECURITY_SCHEMES)), z.tuple([])).refine(isOne),
  ),
  parameters: z.array(
    z.strictObject({
      name: z.string(),
      in: z.enum(['path', 'query', 'header']),
      required: z.boolean(),
      description: z.string().optional(),
      schema: z.looseObject({}),
    }),
  ),
  requestBody: z
    .strictObject({ required: z.boolean(), content: z.record(z.string(), z.looseObject({})) })
    .optional(),
  responses: z.record(
    z.string().regex(/^[2-5]\d\d$/),
    z.strictObject({
      description: z.string().min(1),
      headers: z.record(z.string(), z.looseObject({})).optional(),
      content: z.record(z.string(), z.strictObject({ schema: z.looseObject({}) })).optional(),
    }),
  ),
})

describe('the OpenAPI document', () => {
  test('is valid OpenAPI 3.1', () => {
    const shape = z.strictObject({
      openapi: z.literal('3.1.0'),
      info: z.strictObject({ title: z.string(), version: z.string(), description: z.string() }),
      paths: z.record(z.string().startsWith('/'), z.record(z.string(), operationShape)),
      components: z.strictObject({
        schemas: z.record(z.string(), z.looseObject({})),
        securitySchemes: z.record(z.string(), z.looseObject({ type: z.enum(['http', 'apiKey']) })),
      }),
    })
    expect(shape.safeParse(document).error?.issues ?? []).toEqual([])
  })

  test('has unique operation ids', () => {
    const names = operations.map(({ operation }) => operation.operationId)
    expect(new Set(names).size).toBe(names.length)
  })

  test.each(operations)('$method $path declares the parameters of its path', (each) => {
    const named = [...each.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    const declared = each.operation.parameters.filter((parameter) => parameter.in === 'path')
    expect(declared.map(({ name }) => name)).toEqual(named)
    expect(declared.every(({ required }) => required)).toBe(true)
  })

  test.each(operations)('$method $path documents its responses', ({ path, operation }) => {
    const vendor = path.startsWith('/v1/messages') ? 'AnthropicError' : 'OpenaiError'
    const error = path.startsWith('/v1/') ? vendor : 'Error'
    const codes = Object.keys(operation.responses)
    expect(codes.some((code) => code.startsWith('2'))).toBe(true)
    for (const code of codes.filter((each) => !each.startsWith('2'))) {
      const { schema } = operation.responses[code]?.content?.['application/json'] ?? {}
      expect(schema).toEqual({ $ref: `#/components/schemas/${error}` })
    }
  })
})

describe('authentication', () => {
  const ways = ({ security }: (typeof operations)[number]['operation']) =>
    security.flatMap((each) => Object.keys(each))

  test('is documented for every operation: key, token for streams, or none', () => {
    const names = (key: string) =>
      operations
        .filter(({ operation }) => ways(operation).join(' ') === key)
        .map(({ operation }) => operation.operationId)
        .toSorted()
    const all = new Set(operations.map(({ operation }) => ways(operation).join(' ')))
    expect([...all].toSorted()).toEqual(['', 'bearer apiKey', 'bearer apiKey streamToken'])
    expect(names('')).toEqual(['getDocs', 'getHealth', 'getHello', 'getOpenapi', 'getReady'])
    expect(names('bearer apiKey streamToken')).toEqual([
      'getOutputStreams',
      'getRunStream',
      'getThreadOutputStream',
      'getTurnOutputStream',
    ])
  })

  test.each(operations)('$method $path documents its errors', ({ operation }) => {
    const { description = '' } = operation.responses['401'] ?? {}
    const codes = [...description.matchAll(/`(\w+)`/g)].map(([, code]) => code)
    const keys = ways(operation).includes('bearer') ? ['KEY_INVALID', 'KEY_REQUIRED'] : []
    const tokens = ways(operation).includes('streamToken') ? ['TOKEN_EXPIRED', 'TOKEN_INVALID'] : []
    expect(codes).toEqual([...keys, ...tokens])
    expect(operation.parameters.some(({ name }) => name === 'token')).toBe(tokens.length > 0)
  })
})

describe('its schemas', () => {
  test('are found', () => {
    expect(schemas.length).toBeGreaterThan(100)
  })

  test('only use keywords that are checked here', () => {
    const unknown = schemas.flatMap(([path, schema]) =>
      Object.keys(schema).flatMap((word) => (KEYWORDS.has(word) ? [] : [`${path}: ${word}`])),
    )
    expect(unknown).toEqual([])
  })

  test('have no dangling references', () => {
    for (const [, { $ref }] of schemas) if ($ref !== undefined) resolve($ref, document)
    expect(() => resolve('#/components/schemas/Nothing', document)).toThrow('leads nowhere')
  })

  test('only require fields they have', () => {
    for (const [path, { required = [], properties = {} }] of schemas) {
      expect([path, required.filter((name) => !(name in properties))]).toEqual([path, []])
    }
  })

  test('have valid patterns', () => {
    const patterns = schemas.flatMap(([, schema]) => (schema as { pattern?: string }).pattern ?? [])
    expect(patterns.length).toBeGreaterThan(0)
    for (const pattern of patterns) expect(new RegExp(pattern, 'u').test('turn-1')).toBe(true)
  })

  test('do not require optional fields', () => {
    const { Response } = document.components.schemas
    expect(Response?.required).not.toContain('usage')
    expect(Response?.required).toContain('output_items')
  })

  test('have examples that the server accepts', () => {
    const bodies: Record<string, z.ZodType> = {
      Submit: submitBodySchema,
      NewThread: newThreadSchema,
      ThreadChanges: threadChangesSchema,
      Cancel: cancelBodySchema,
      NewStreamToken: streamTokenBodySchema,
      ChatCompletionRequest: chatBodySchema,
    }
    for (const [name, zod] of Object.entries(bodies)) {
      const [example] = document.components.schemas[name]?.examples ?? []
      expect([name, zod.safeParse(example).success]).toEqual([name, true])
      expect(faultsOf({ $ref: `#/components/schemas/${name}` }, example, document)).toEqual([])
    }
  })
})

describe('the schema validator', () => {
  const ROWS: [schema: object, value: unknown, faults: string[]][] = [
    [{ type: 'string' }, 1, ['$ is no string']],
    [{ type: ['string', 'null'] }, null, []],
    [{ type: 'object', required: ['a'] }, {}, ['$ lacks a']],
    [{ properties: { a: { type: 'number' } } }, { a: '1' }, ['$.a is no number']],
    [{ type: 'array', items: { const: 1 } }, [1, 2], ['$[1] is not the value']],
    [{ oneOf: [{ type: 'string' }, { type: 'number' }] }, true, ['$ fits 0 of 2 variants']],
    [{ oneOf: [{}, { type: 'number' }] }, 1, ['$ fits 2 of 2 variants']],
    [{ anyOf: [{}, { type: 'number' }] }, 1, []],
    [{ enum: ['a'] }, 'b', ['$ is none of the values']],
    [{ pattern: '^a$' }, 'b', ['$ does not match']],
    [{ minLength: 2, maxLength: 1 }, 'a', ['$ is too short']],
    [{ maximum: 1 }, 2, ['$ is too large']],
    [{ maxItems: 1 }, [1, 2], ['$ has too many items']],
    [{ additionalProperties: false }, { a: 1 }, ['$.a is not allowed']],
  ]

  test.each(ROWS)('%j says of %j: %j', (schema, value, faults) => {
    expect(faultsOf(schema, value, document)).toEqual(faults)
  })
})
