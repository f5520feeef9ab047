import * as z from 'zod'
import { CASSETTE_FORMAT, CASSETTE_VERSION, MAX_CASSETTE_CALLS } from './names.ts'
import { idSchema, openObject } from './shape.ts'
import { streamEventSchema } from './stream-event.ts'
import { streamOutputSchema } from './stream-output.ts'

/** The first line. `createdAt` is in milliseconds since the epoch, and every `at` counts from it. */
const headerSchema = openObject({
  format: z.literal(CASSETTE_FORMAT),
  version: z.literal(CASSETTE_VERSION),
  createdAt: z.number(),
  turnId: idSchema.exactOptional(),
  threadId: idSchema.exactOptional(),
  /** Of the turn, in recordings of a gateway. */
  tenant: idSchema.exactOptional(),
})
export type CassetteHeader = z.infer<typeof headerSchema>

/** Milliseconds since `createdAt`. */
const at = z.number().nonnegative()
/** Number of the provider call, from 1. A turn with server tools has several. */
const call = z.int().min(1).max(MAX_CASSETTE_CALLS)
const headers = z.record(z.string(), z.string())

const requestSchema = openObject({
  /** Name of the adapter that reads the response. */
  vendor: z.string().exactOptional(),
  method: z.string(),
  url: z.string(),
  headers,
  /** The JSON value, or the text of a body that is not JSON. */
  body: z.unknown().exactOptional(),
  /** The body was too large to record. */
  truncated: z.boolean().exactOptional(),
})
export type CassetteRequest = z.infer<typeof requestSchema>

const responseSchema = openObject({ status: z.int().min(100).max(599), headers })
export type CassetteResponse = z.infer<typeof responseSchema>

/** How a call ended: as the provider meant it, by its client, by a failure, or at the size limit of the recording. */
const endSchema = z.enum(['complete', 'aborted', 'failed', 'limit'])
export type CallEnd = z.infer<typeof endSchema>

/** One line of a cassette. */
export const cassetteLineSchema = z.union([
  headerSchema,
  openObject({ at, call, request: requestSchema }),
  openObject({ at, call, response: responseSchema }),
  /** Response bytes, as they arrived together. `base64` where they are not valid UTF-8. */
  openObject({ at, call, text: z.string() }),
  openObject({ at, call, base64: z.base64() }),
  openObject({ at, call, end: endSchema }),
  openObject({ at, event: streamEventSchema }),
  openObject({ at, output: streamOutputSchema }),
])
