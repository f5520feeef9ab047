import * as z from 'zod'
import { ID_PATTERN } from '../../log/records.ts'
import { type Decoded, decode, parseJson } from '../../protocol/decode.ts'
import { isNestedDeeperThan, isRecord, MAX_JSON_NESTING } from '../../protocol/json.ts'
import { streamEventFault } from '../../protocol/stream-event-guard.ts'
import { isTenant } from '../../protocol/tenant.ts'

/*
 * An export has a header, then one line for each part: a thread, and of each of its turns the turn, its events,
 * the newest outputs, and `sealed`. The last line is `end`. What is not needed to import is ignored.
 */

const FORMAT = 'turnstream-export'
const VERSION = 1

/** More than the largest record in JSON: an export has longer lines only by mistake. */
const MAX_LINE_BYTES = 256 * 1024 * 1024

/** Each takes a call of the store. */
const MAX_EPOCH = 1000

const id = z.string().regex(ID_PATTERN)
const tenant = z.string().refine(isTenant, 'not the name of a tenant')
/** As it is: a schema could change the order of its fields. */
const event = z.custom<object>(
  (value) => streamEventFault(value) === undefined,
  'not a StreamEvent',
)
const output = z.custom<object>((value) => {
  return isRecord(value) && typeof value['type'] === 'string'
}, 'not a StreamOutput')

const lineSchema = z.union([
  z.strictObject({ event }),
  z.strictObject({
    output,
    key: z.string().min(1),
    eventId: z.string().min(1),
    timestamp: z.number(),
  }),
  z.strictObject({
    thread: z.object({
      tenant,
      threadId: id,
      title: z.string().optional(),
      metadata: z.record(z.string(), z.unknown()).optional(),
    }),
  }),
  z.strictObject({
    turn: z.object({
      tenant,
      turnId: id,
      runId: id,
      threadId: id,
      epoch: z.int().min(1).max(MAX_EPOCH),
      request: z.string().optional(),
      response: z.string().optional(),
    }),
  }),
  z.strictObject({ sealed: z.literal(true) }),
  z.strictObject({ end: z.object({}) }),
])

export type Line = z.infer<typeof lineSchema>
export type TurnLine = Extract<Line, { turn: unknown }>['turn']
export type ThreadLine = Extract<Line, { thread: unknown }>['thread']
export type OutputLine = Extract<Line, { output: unknown }>

const headerSchema = z.object({ format: z.literal(FORMAT), version: z.int() })

export function formatHeader(now: number): string {
  return `${JSON.stringify({ format: FORMAT, version: VERSION, exportedAt: now })}\n`
}

/** Why the first line is not that of an export that this version reads. */
export function headerFault(text: string): string | undefined {
  const json = parseJson(text)
  const header = json.ok ? decode(headerSchema, json.value) : json
  if (!header.ok) return 'not an export of turnstream'
  const { version } = header.value
  return version === VERSION ? undefined : `version ${version}; this program reads ${VERSION}`
}

export function parseLine(text: string): Decoded<Line> {
  if (isNestedDeeperThan(text, MAX_JSON_NESTING)) return { ok: false, reason: 'nested too deeply' }
  const json = parseJson(text)
  if (!json.ok) return json
  const line = decode(lineSchema, json.value)
  return line.ok ? line : { ok: false, reason: 'not a line of an export' }
}

/** The lines of a text; fails when one is too long. The last one may lack its line feed. */
export async function* readLines(
  input: AsyncIterable<Uint8Array>,
  maxBytes = MAX_LINE_BYTES,
): AsyncGenerator<string> {
  let parts: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of input) {
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      yield Buffer.concat([...parts, chunk.subarray(from, at)]).toString()
      parts = []
      bytes = 0
      from = at + 1
    }
    parts.push(chunk.subarray(from))
    bytes += chunk.length - from
    if (bytes > maxBytes) throw new RangeError(`longer than ${maxBytes} bytes`)
  }
  if (bytes > 0) yield Buffer.concat(parts).toString()
}
