import {
  isNestedDeeperThan,
  isRecord,
  jsonLine,
  MAX_JSON_NESTING,
  parseJson,
} from '@turnstream/core/internal/protocol/json'
import { isTenant } from '@turnstream/core/internal/protocol/names'
import { streamEventFault } from '@turnstream/core/internal/protocol/stream-event-guard'
import { decode, decodeText } from '@turnstream/core/internal/schemas/decode'
import { SseLimitError } from '@turnstream/core/internal/sse/decode'
import { LineDecoder } from '@turnstream/core/internal/sse/lines'
import * as z from 'zod'
import { ID_PATTERN } from '../../log/records.ts'
import { UsageError } from '../command.ts'

/** A header, then a line per thread and per turn with its events, outputs and `sealed`, then `end`. Other fields are ignored. */

const FORMAT = 'turnstream-export'
const VERSION = 1

/** More than the largest record in JSON: no valid export has longer lines. */
const MAX_LINE_CHARS = 256 * 1024 * 1024

/** Each needs a call of the store. */
const MAX_EPOCH = 1000

const id = z.string().regex(ID_PATTERN)
const tenant = z.string().refine(isTenant, 'not a tenant name')
/** Unparsed: a schema could reorder the fields. */
const event = z.custom<object>((value) => streamEventFault(value) === undefined)
const output = z.custom<object>((value) => isRecord(value) && typeof value['type'] === 'string')

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
      title: z.string().exactOptional(),
      metadata: z.record(z.string(), z.unknown()).exactOptional(),
    }),
  }),
  z.strictObject({
    turn: z.object({
      tenant,
      turnId: id,
      runId: id,
      threadId: id,
      epoch: z.int().min(1).max(MAX_EPOCH),
      request: z.string().exactOptional(),
      replaces: id.exactOptional(),
      replacedBy: id.exactOptional(),
      response: z.string().exactOptional(),
    }),
  }),
  z.strictObject({ sealed: z.literal(true) }),
  z.strictObject({ end: z.object({}) }),
])

export type Line = z.infer<typeof lineSchema>
export type TurnLine = Extract<Line, { turn: unknown }>['turn']
/** A part of a turn. The field order matches `turnLines`. */
export type PartLine = Extract<Line, { event: unknown } | { output: unknown } | { sealed: unknown }>

const headerSchema = z.object({ format: z.literal(FORMAT), version: z.int() })

export const formatHeader = (exportedAt: number) =>
  jsonLine({ format: FORMAT, version: VERSION, exportedAt })

/** Reads the lines after the header. UsageError names the first unreadable line. */
export async function* readExport(input: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  let number = 0
  for await (const text of readLines(input)) {
    number += 1
    const line = number === 1 ? parseHeader(text) : parseLine(text)
    if (typeof line === 'string') throw lineError(number, line)
    if (line !== undefined) yield line
  }
  if (number === 0) throw new UsageError('the input is empty')
}

function lineError(number: number, reason: string): UsageError {
  return new UsageError(`line ${number} of the input: ${reason}`)
}

function parseHeader(text: string): string | undefined {
  const header = decodeText(headerSchema, text)
  if (!header.ok) return 'not an export of turnstream'
  const { version } = header.value
  if (version === VERSION) return undefined
  return `version ${version}; this version of turnstream reads ${VERSION}`
}

function parseLine(text: string): Line | string {
  if (isNestedDeeperThan(text, MAX_JSON_NESTING)) return 'nested too deeply'
  const json = parseJson(text)
  if (!json.ok) return json.reason
  const line = decode(lineSchema, json.value)
  return line.ok ? line.value : 'not a line of an export'
}

/** The lines of a text. UsageError when one is too long. The last one may lack a newline. */
export async function* readLines(input: AsyncIterable<Uint8Array>, maxLineChars = MAX_LINE_CHARS) {
  const decoder = new LineDecoder({ maxLineChars })
  let number = 1
  try {
    for await (const chunk of input) {
      const lines = decoder.feed(chunk)
      yield* lines
      number += lines.length
    }
    yield* decoder.end()
  } catch (error) {
    if (!(error instanceof SseLimitError)) throw error
    throw lineError(number, `longer than ${maxLineChars} characters`)
  }
}
