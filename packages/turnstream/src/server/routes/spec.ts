import { createRoute, type RouteConfig } from '@hono/zod-openapi'
import { ERROR_CODES, type ErrorCode } from '@turnstream/core/internal/protocol/errors'
import { HEADERS } from '@turnstream/core/internal/protocol/names'
import { nearest } from '@turnstream/core/internal/protocol/nearest'
import { approvalSchema } from '@turnstream/core/internal/schemas/stream-output'
import * as z from 'zod'
import { ID_PATTERN } from '../../log/records.ts'
import { isOpenaiPath, isVendorPath } from '../errors.ts'

/* Shared by the route definitions: ids, bodies, pages, errors and authentication. */

interface RouteSpec extends Omit<RouteConfig, 'method' | 'path'> {
  /** Its errors besides those that any request, body or key may get; missing if it has none at all. */
  readonly refusals?: readonly ErrorCode[]
}

/** Defines a route of `ROUTES`. */
export function route<Method extends RouteConfig['method'], const Config extends RouteSpec>(
  method: Method,
  route: string,
  config: Config,
) {
  // Errors are thrown, so the type of the responses does not have them.
  const responses: Config['responses'] = { ...config.responses, ...refusalsOf(route, config) }
  return createRoute({ ...config, responses, method, path: openapiPath(route) })
}

/** A route of `ROUTES` in OpenAPI syntax: `{name}` for `:name`. */
export function openapiPath(route: string): string {
  return route.replaceAll(/:(\w+)/g, '{$1}')
}

/** The body of a request. */
export function jsonBody<Schema extends z.ZodType>(schema: Schema, required = true) {
  return { required, content: { 'application/json': { schema } } }
}

export function json<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { 'application/json': { schema } } }
}

/** A stream; the schema describes the `data` of each frame. */
export function sse<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { 'text/event-stream': { schema } } }
}

/** JSON, or a stream if the request asks for one. */
export function jsonOrSse<Schema extends z.ZodType>(
  description: string,
  schema: Schema,
  streamed: z.ZodType,
) {
  const content = { ...json('', schema).content, ...sse('', streamed).content }
  return { description, content }
}

/** The headers of a response that streams a new turn. */
export const turnHeaders = z.object({
  [HEADERS.turnId]: z.string(),
  [HEADERS.threadId]: z.string(),
})

// Zero-width characters, direction marks and variation selectors make different ids look the same, and can change how
// the rest of a line is displayed.
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u

/** An id that the stores accept, without invisible characters. */
export const id = z
  .string()
  .regex(ID_PATTERN, 'must have 1 to 200 characters, without whitespace or braces')
  .refine(isMoreThanDots, 'must not consist of dots')
  .refine((id) => !INVISIBLE.test(id), 'must not contain invisible characters')
  .describe('1 to 200 characters, without whitespace, braces, control or invisible characters')

/** An id in a header: ASCII only, because clients encode other characters differently. */
export const headerId = z
  .string()
  .regex(/^[!-z|~]{1,200}$/, 'must have 1 to 200 visible ASCII characters, without braces')
  .refine(isMoreThanDots, 'must not consist of dots')

/** `.` and `..` are path segments even when escaped, so such an id could never be requested. */
function isMoreThanDots(id: string): boolean {
  return id !== '.' && id !== '..'
}

/** An object of our own API. Unknown fields are refused: a misspelt `model` must not cost money. */
export function object<Shape extends z.ZodRawShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: ({ code, keys }) => {
      if (code !== 'unrecognized_keys') return undefined
      const key = Array.isArray(keys) ? String(keys[0]) : ''
      const near = nearest(key, Object.keys(shape))
      return `unknown field ${key}${near === undefined ? '' : `, did you mean ${near}?`}`
    },
  })
}

/** Text that is not blank. */
export function text(maxChars: number) {
  return z
    .string()
    .max(maxChars)
    .refine((text) => text.trim() !== '', 'is empty')
}

/** A field that may be missing. */
export function optional<Schema extends z.ZodType>(schema: Schema, description: string) {
  return schema.exactOptional().meta({ description })
}

/** The query of a paged list. */
export function pageQuery(defaultLimit = 50, maxLimit = 200) {
  const limit = z.coerce.number().int().min(1).max(maxLimit).default(defaultLimit)
  return z.object({
    limit: limit.describe('Maximum number of entries'),
    cursor: optional(z.string().max(300), 'The `nextCursor` of the previous page'),
  })
}

/** `?replaced=true` of lists of turns. */
export const replacedQuery = {
  replaced: z
    .enum(['true', 'false'])
    .default('false')
    .transform((text) => text === 'true')
    .describe('Whether to list replaced turns, too'),
}

const errorBodySchema = z
  .object({
    error: z.object({
      code: z.string().describe('Stable; docs/errors.md explains each'),
      message: z.string().describe('Human-readable explanation'),
      details: optional(
        z.array(z.object({ path: z.string(), message: z.string() })),
        'REQUEST_INVALID: the invalid fields',
      ),
      approval: optional(approvalSchema, 'APPROVAL_ANSWERED: the answer'),
      requestId: z.string().describe('As in `x-request-id` and in the log'),
    }),
  })
  .meta({ id: 'Error', description: 'The body of every error response' })

const openaiErrorSchema = z
  .object({
    error: z.object({
      message: z.string().describe('Human-readable explanation'),
      type: z.string(),
      param: z.string().nullable().describe('The invalid parameter'),
      code: z.string().nullable().describe("OpenAI's code, or ours if there is none"),
    }),
  })
  .meta({ id: 'OpenaiError', description: "An error in OpenAI's format" })

const anthropicErrorSchema = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string().describe('Human-readable explanation'),
    }),
    request_id: z.string().nullable(),
  })
  .meta({ id: 'AnthropicError', description: "An error in Anthropic's format" })

/** Errors that any request may get. */
const ALWAYS: readonly ErrorCode[] = [
  'CONNECTIONS_LIMITED',
  'HEADERS_TOO_LARGE',
  'HOST_REFUSED',
  'INTERNAL_ERROR',
  'ORIGIN_REFUSED',
  'REQUEST_INVALID',
  'STORE_UNAVAILABLE',
  'URL_TOO_LONG',
]

/** Errors of routes that read turns and threads. */
export const READ_REFUSALS: readonly ErrorCode[] = ['READS_LIMITED', 'UNREAD_LIMITED']

/** The same, where a turn must exist. */
export const TURN_REFUSALS: readonly ErrorCode[] = [
  ...READ_REFUSALS,
  'TURN_EXPIRED',
  'TURN_UNKNOWN',
]

/** Errors of routes with a body. */
const BODY_REFUSALS: readonly ErrorCode[] = ['BODY_TOO_LARGE', 'MEDIA_TYPE_UNSUPPORTED']

/** Errors of routes that need a key. */
const KEY_REFUSALS: readonly ErrorCode[] = ['KEY_INVALID', 'KEY_REQUIRED']

/** Describes the error responses of a route by status, in the format of its path. */
function refusalsOf(route: string, { refusals, request, security }: RouteSpec): object {
  if (refusals === undefined) return {}
  const bodyCodes = request?.body === undefined ? [] : BODY_REFUSALS
  const keyCodes = security === NO_SECURITY ? [] : KEY_REFUSALS
  const byStatus: Record<number, string[]> = {}
  for (const code of [...ALWAYS, ...keyCodes, ...bodyCodes, ...refusals].toSorted()) {
    const { status, summary } = ERROR_CODES[code]
    byStatus[status] ??= []
    byStatus[status].push(`\`${code}\`: ${summary.charAt(0).toLowerCase()}${summary.slice(1)}`)
  }
  const vendorSchema = isOpenaiPath(route) ? openaiErrorSchema : anthropicErrorSchema
  const schema = isVendorPath(route) ? vendorSchema : errorBodySchema
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, each]) => [status, json(each.join('; '), schema)]),
  )
}

/** Authentication schemes of the OpenAPI document. */
export const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key in `authorization`. Ignored by a server without keys.',
  },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: HEADERS.apiKey,
    description: 'The same key in its own header.',
  },
  streamToken: {
    type: 'apiKey',
    in: 'query',
    name: 'token',
    description: 'A stream token, for an `EventSource`. It reads one turn or one thread.',
  },
} as const

/** One of these is required. */
export type Security = { [Name in keyof typeof SECURITY_SCHEMES]?: string[] }[]

/** What a route needs by default. */
export const KEY_SECURITY: Security = [{ bearer: [] }, { apiKey: [] }]

export const STREAM_SECURITY: Security = [...KEY_SECURITY, { streamToken: [] }]

export const NO_SECURITY: Security = []
