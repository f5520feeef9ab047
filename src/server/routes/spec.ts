import { createRoute, type RouteConfig } from '@hono/zod-openapi'
import * as z from 'zod'
import { ID_PATTERN } from '../../log/records.ts'
import { ERROR_CODES, type ErrorCode } from '../../protocol/errors.ts'
import { HEADERS } from '../../protocol/names.ts'
import { nearest } from '../../protocol/nearest.ts'

/*
 * What the definitions of the routes share: ids, bodies, pages, refusals and the ways to authenticate.
 */

/** Defines a route of `ROUTES`. */
export function route<
  Method extends RouteConfig['method'],
  const Config extends Omit<RouteConfig, 'method' | 'path'>,
>(method: Method, route: string, config: Config) {
  return createRoute({ ...config, method, path: openapiPath(route) })
}

/** A route of `ROUTES` as OpenAPI writes it: `{name}` for `:name`. */
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

/** A stream; the schema is that of each frame's `data`. */
export function sse<Schema extends z.ZodType>(description: string, schema: Schema) {
  return { description, content: { 'text/event-stream': { schema } } }
}

/** The headers of a response that streams a new turn. */
export const turnHeaders = z.object({
  [HEADERS.turnId]: z.string(),
  [HEADERS.threadId]: z.string(),
})

// Zero-width characters, direction marks and variant selectors make two ids look like one, and can change how the
// rest of a line is displayed.
const INVISIBLE = /[\p{Cf}\p{Default_Ignorable_Code_Point}]/u

/** An id as the stores accept it, without characters that cannot be seen. */
export const id = z
  .string()
  .regex(ID_PATTERN, 'must have 1 to 200 characters, without white space and braces')
  .refine(isMoreThanDots, 'must be more than dots')
  .refine((id) => !INVISIBLE.test(id), 'must have no characters that cannot be seen')
  .meta({
    description:
      '1 to 200 characters, without white space, braces, control characters and invisible ones',
  })

/** An id in a header: ASCII only, because clients disagree on how to encode the rest. */
export const headerId = z
  .string()
  .regex(/^[!-z|~]{1,200}$/, 'must have 1 to 200 visible ASCII characters, without braces')
  .refine(isMoreThanDots, 'must be more than dots')

/** `.` and `..` are path segments even when escaped: such an id could never be requested. */
function isMoreThanDots(id: string): boolean {
  return id !== '.' && id !== '..'
}

/** An object of our own API: an unknown field is refused, because a misspelt `model` must not cost money. */
export function object<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? unknownField(issue, names) : undefined),
  })
}

function unknownField(issue: { readonly keys?: unknown }, names: readonly string[]): string {
  const key = Array.isArray(issue.keys) ? String(issue.keys[0]) : ''
  const near = nearest(key, names)
  return `unknown field ${key}${near === undefined ? '' : `, did you mean ${near}?`}`
}

/** Text that is not blank. */
export function text(maxChars: number) {
  return z
    .string()
    .max(maxChars)
    .refine((text) => text.trim() !== '', 'is empty')
}

/** Any JSON object up to a size; stored as it is. */
export function jsonObject(maxChars: number) {
  return z
    .record(z.string(), z.unknown())
    .refine((value) => JSON.stringify(value).length <= maxChars, `is larger than ${maxChars}`)
}

/** A field that may be missing. */
export function optional<Schema extends z.ZodType>(schema: Schema, description: string) {
  return schema.exactOptional().meta({ description })
}

/** The query of a paged list. */
export function pageQuery(defaultLimit = 50, maxLimit = 200) {
  const limit = z.coerce.number().int().min(1).max(maxLimit).default(defaultLimit)
  return z.object({
    limit: limit.meta({ description: 'How many at most' }),
    cursor: optional(z.string().max(300), 'The `nextCursor` of the page before'),
  })
}

const errorBodySchema = z
  .object({
    error: z.object({
      code: z.string().meta({ description: 'Stable; docs/errors.md explains each' }),
      message: z.string().meta({ description: 'For people' }),
      details: optional(
        z.array(z.object({ path: z.string(), message: z.string() })),
        'REQUEST_INVALID: the fields at fault',
      ),
      requestId: z.string().meta({ description: 'As in `x-request-id`; the log has it, too' }),
    }),
  })
  .meta({ id: 'Error', description: 'What is answered instead when a request is refused' })

const openaiErrorSchema = z
  .object({
    error: z.object({
      message: z.string().meta({ description: 'For people' }),
      type: z.string(),
      param: z.string().nullable().meta({ description: 'The parameter at fault' }),
      code: z.string().nullable().meta({ description: 'In the words of OpenAI, or else ours' }),
    }),
  })
  .meta({ id: 'OpenaiError', description: 'The same in the form that clients of OpenAI read' })

/** What any request may be refused with. */
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

/** Refusals of routes that read turns and threads. */
export const READ_REFUSALS: readonly ErrorCode[] = ['READS_LIMITED', 'UNREAD_LIMITED']

/** Refusals of routes that need a key. */
const WITHOUT_KEY: readonly ErrorCode[] = ['KEY_INVALID', 'KEY_REQUIRED']

/**
 * The refusals of a route by status, for its OpenAPI definition. They are thrown, so the route's response type must
 * not include them.
 */
export function refusals(...codes: ErrorCode[]): object {
  return publicRefusals(...WITHOUT_KEY, ...codes)
}

/** The same for a route of OpenAI's API. */
export function openaiRefusals(...codes: ErrorCode[]): object {
  return describeRefusals([...WITHOUT_KEY, ...codes], openaiErrorSchema)
}

/** The same for a route that needs no key. */
export function publicRefusals(...codes: ErrorCode[]): object {
  return describeRefusals(codes, errorBodySchema)
}

function describeRefusals(codes: readonly ErrorCode[], schema: z.ZodType): object {
  const byStatus: Record<number, string[]> = {}
  for (const code of [...ALWAYS, ...codes].toSorted()) {
    const { status, summary } = ERROR_CODES[code]
    byStatus[status] ??= []
    byStatus[status].push(`\`${code}\`: ${summary.toLowerCase()}`)
  }
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, each]) => [status, json(each.join('; '), schema)]),
  )
}

/** The ways to authenticate, for the OpenAPI document. */
export const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'A key, in `authorization`. Only where the server has keys; ignored elsewhere.',
  },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: HEADERS.apiKey,
    description: 'The same key in a header of its own.',
  },
  streamToken: {
    type: 'apiKey',
    in: 'query',
    name: 'token',
    description: 'A stream token, for an `EventSource`: it reads one turn or one thread.',
  },
} as const

/** One of these is needed. */
export type Security = { [Name in keyof typeof SECURITY_SCHEMES]?: string[] }[]

/** What a route needs by default. */
export const KEY_SECURITY: Security = [{ bearer: [] }, { apiKey: [] }]

export const STREAM_SECURITY: Security = [...KEY_SECURITY, { streamToken: [] }]

export const NO_SECURITY: Security = []
