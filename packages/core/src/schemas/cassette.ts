import * as z from 'zod'
import type {
  CallEnd,
  CassetteHeader,
  CassetteRequest,
  CassetteResponse,
} from '../protocol/cassette.ts'
import { CASSETTE_FORMAT, CASSETTE_VERSION, MAX_CASSETTE_CALLS } from '../protocol/names.ts'
import { idSchema, openObject, schemaOf } from './shape.ts'
import { streamEventSchema } from './stream-event.ts'
import { streamOutputSchema } from './stream-output.ts'

const headerSchema = schemaOf<CassetteHeader>()(
  openObject({
    format: z.literal(CASSETTE_FORMAT),
    version: z.literal(CASSETTE_VERSION),
    createdAt: z.number(),
    turnId: idSchema.exactOptional(),
    threadId: idSchema.exactOptional(),
    tenant: idSchema.exactOptional(),
  }),
)

/** Milliseconds since `createdAt`. */
const at = z.number().nonnegative()
/** Number of the provider call, from 1. A turn with server tools has several. */
const call = z.int().min(1).max(MAX_CASSETTE_CALLS)
const headers = z.record(z.string(), z.string())

const requestSchema = schemaOf<CassetteRequest>()(
  openObject({
    vendor: z.string().exactOptional(),
    method: z.string(),
    url: z.string(),
    headers,
    body: z.unknown().exactOptional(),
    truncated: z.boolean().exactOptional(),
  }),
)

const responseSchema = schemaOf<CassetteResponse>()(
  openObject({ status: z.int().min(100).max(599), headers }),
)

const endSchema = schemaOf<CallEnd>()(z.enum(['complete', 'aborted', 'failed', 'limit']))

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
