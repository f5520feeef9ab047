import * as z from 'zod'
import { ERROR_CODES, type ErrorCode } from '../../protocol/errors.ts'

const errorBodySchema = z
  .object({
    error: z.object({
      code: z.string().meta({ description: 'Stable; docs/errors.md explains each' }),
      message: z.string().meta({ description: 'For people' }),
      details: z
        .array(z.object({ path: z.string(), message: z.string() }))
        .exactOptional()
        .meta({ description: 'REQUEST_INVALID: the fields at fault' }),
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

/** What may happen to any request. */
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

/** What may happen to a read of turns and threads. */
export const READ_REFUSALS: readonly ErrorCode[] = ['READS_LIMITED', 'UNREAD_LIMITED']

/** What may happen to a request that needs a key. */
const WITHOUT_KEY: readonly ErrorCode[] = ['KEY_INVALID', 'KEY_REQUIRED']

/**
 * The refusals of a route by their status, for its OpenAPI definition. They are thrown and not returned, so
 * that the type of the route's answer does not know them.
 */
export function refusals(...codes: ErrorCode[]): object {
  return publicRefusals(...WITHOUT_KEY, ...codes)
}

/** The same for a route of OpenAI's API. */
export function openaiRefusals(...codes: ErrorCode[]): object {
  return described([...WITHOUT_KEY, ...codes], openaiErrorSchema)
}

/** The same for a route that anybody may ask. */
export function publicRefusals(...codes: ErrorCode[]): object {
  return described(codes, errorBodySchema)
}

function described(codes: readonly ErrorCode[], schema: z.ZodType): object {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of [...ALWAYS, ...codes].toSorted()) {
    const { status } = ERROR_CODES[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  const content = { 'application/json': { schema } }
  return Object.fromEntries(
    [...byStatus].map(([status, each]) => [status, { description: describe(each), content }]),
  )
}

function describe(codes: readonly ErrorCode[]): string {
  return codes.map((code) => `\`${code}\`: ${ERROR_CODES[code].summary.toLowerCase()}`).join('; ')
}
