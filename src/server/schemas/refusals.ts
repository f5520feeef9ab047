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
    }),
  })
  .meta({ id: 'Error', description: 'What is answered instead when a request is refused' })

/** What may happen to any request. */
const ALWAYS: readonly ErrorCode[] = ['INTERNAL_ERROR', 'REQUEST_INVALID', 'STORE_UNAVAILABLE']

/**
 * The refusals of a route by their status, for its OpenAPI definition. They are thrown and not returned, so
 * that the type of the route's answer does not know them.
 */
export function refusals(...codes: ErrorCode[]): object {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of [...ALWAYS, ...codes].toSorted()) {
    const { status } = ERROR_CODES[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  const content = { 'application/json': { schema: errorBodySchema } }
  return Object.fromEntries(
    [...byStatus].map(([status, each]) => [status, { description: describe(each), content }]),
  )
}

function describe(codes: readonly ErrorCode[]): string {
  return codes.map((code) => `\`${code}\`: ${ERROR_CODES[code].summary.toLowerCase()}`).join('; ')
}
