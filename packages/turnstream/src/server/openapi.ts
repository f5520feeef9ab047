import type { RouteConfig } from '@hono/zod-openapi'
import { ROUTES } from '@turnstream/core/internal/protocol/names'
import * as z from 'zod'
import type { GatewayApp } from './context.ts'
import * as spec from './routes/spec.ts'

/** JSON Schema 2020-12, the dialect of OpenAPI 3.1. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly oneOf?: readonly JsonSchema[]
  readonly anyOf?: readonly JsonSchema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly minimum?: number
  readonly maximum?: number
  readonly maxLength?: number
}

export type Content = Readonly<Record<string, { readonly schema: JsonSchema }>>

export type Operation = ReturnType<DocumentWriter['operation']>
export type OpenApiDocument = ReturnType<typeof openapiDocument>

/** Builds the OpenAPI document. Zod writes the schemas: `@hono/zod-openapi` marks optional fields as required. */
export function openapiDocument(app: GatewayApp) {
  const writer = new DocumentWriter()
  const paths: Record<string, Record<string, Operation>> = {}
  for (const definition of app.openAPIRegistry.definitions) {
    if (definition.type !== 'route') continue
    const { route } = definition
    paths[route.path] = { ...paths[route.path], [route.method]: writer.operation(route) }
  }
  const description =
    'Runs LLM turns as durable logs that any number of clients can stream and resume.'
  return {
    openapi: '3.1.0' as const,
    info: { title: 'turnstream', version: '2', description },
    paths,
    components: { schemas: writer.schemas, securitySchemes: spec.SECURITY_SCHEMES },
  }
}

const OPERATION_NAMES = new Map(
  Object.entries(ROUTES).map(([name, path]) => [
    spec.openapiPath(path),
    `${name.charAt(0).toUpperCase()}${name.slice(1)}`,
  ]),
)

type RouteContent = Readonly<Record<string, { readonly schema?: unknown }>>

/** The subset in use. None of our routes has a reference in place of a response. */
interface RouteResponse {
  readonly $ref?: unknown
  readonly description?: string
  readonly headers?: unknown
  readonly content?: object
}

class DocumentWriter {
  readonly schemas: Record<string, JsonSchema> = {}

  operation(route: RouteConfig) {
    const { method, path, summary = '', description, tags = [], request } = route
    const { security = spec.KEY_SECURITY } = route
    return {
      operationId: `${method}${OPERATION_NAMES.get(path) ?? path}`,
      summary,
      description,
      tags,
      /** One of these is required on a server with keys; empty for public routes. */
      security,
      parameters: [
        ...this.#parameters('path', request?.params),
        ...this.#parameters('query', request?.query),
        ...[request?.headers ?? []].flat().flatMap((each) => this.#parameters('header', each)),
      ],
      requestBody: request?.body && {
        required: request.body.required ?? false,
        content: this.#content(request.body.content),
      },
      responses: mapValues(route.responses, (response) => this.#response(response)),
    }
  }

  #parameters(where: 'path' | 'query' | 'header', schema: z.ZodType | undefined) {
    const { properties = {}, required = [] } = schema === undefined ? {} : this.#schema(schema)
    return Object.entries(properties).map(([name, { description, ...property }]) => ({
      name,
      in: where,
      required: required.includes(name),
      description,
      schema: property,
    }))
  }

  #response({ description = '', headers, content }: RouteResponse) {
    const fields = headers instanceof z.ZodType ? this.#schema(headers).properties : undefined
    return {
      description,
      headers: fields && mapValues(fields, (schema) => ({ schema })),
      content: content && this.#content(content),
    }
  }

  #content(content: object): Content {
    return mapValues(content as RouteContent, ({ schema }) => ({
      schema: schema instanceof z.ZodType ? this.#schema(schema) : {},
    }))
  }

  /** Named schemas become references. */
  #schema(schema: z.ZodType): JsonSchema {
    const { $schema: _, $defs = {}, ...written } = z.toJSONSchema(schema, { io: 'input' })
    Object.assign(this.schemas, inComponents($defs))
    return inComponents(written)
  }
}

function mapValues<In, Out>(fields: Readonly<Record<string, In>>, map: (value: In) => Out) {
  return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, map(value)]))
}

function inComponents(schema: object): object {
  const text = JSON.stringify(schema)
  return JSON.parse(text.replaceAll('"#/$defs/', '"#/components/schemas/')) as object
}
