import type {
  CallEnd,
  CassetteHeader,
  CassetteRequest,
  CassetteResponse,
} from '../protocol/cassette.ts'
import { CASSETTE_FORMAT, CASSETTE_VERSION } from '../protocol/names.ts'
import type { StreamEvent } from '../protocol/stream-event.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'

/** A cassette in memory. Every `at` is in milliseconds since `header.createdAt`. */
export interface Cassette {
  readonly header: CassetteHeader
  /** Recorded provider calls, in order. Empty if none were recorded. */
  readonly calls: readonly CassetteCall[]
  /** Recorded events. Empty in a recording of provider calls: `cassetteEvents` derives them. */
  readonly events: readonly TimedEvent[]
  readonly outputs: readonly TimedOutput[]
}

export interface CassetteCall {
  /** From 1. */
  readonly number: number
  readonly at: number
  readonly request?: CassetteRequest
  readonly response?: CassetteResponse & { readonly at: number }
  readonly chunks: readonly CassetteChunk[]
  /** Missing if the recorder died. */
  readonly end?: { readonly at: number; readonly reason: CallEnd }
}

export interface CassetteChunk {
  readonly at: number
  readonly bytes: Uint8Array
}

export interface TimedEvent {
  readonly at: number
  readonly event: StreamEvent
}

export interface TimedOutput {
  readonly at: number
  readonly output: StreamOutput
}

/** What happened in a call. */
export type CallFields =
  | { readonly request: CassetteRequest }
  | { readonly response: CassetteResponse }
  | { readonly bytes: Uint8Array }
  | { readonly end: CallEnd }

export type CassetteEntry =
  | ({ readonly at: number; readonly call: number } & CallFields)
  | TimedEvent
  | TimedOutput

export type HeaderFields = Omit<CassetteHeader, 'format' | 'version'>

/** Encodes the first line. `format` comes first, so that a file is recognised by its first bytes. */
export function encodeHeader(fields: HeaderFields): string {
  const header: CassetteHeader = { format: CASSETTE_FORMAT, version: CASSETTE_VERSION, ...fields }
  return `${JSON.stringify(header)}\n`
}

export function encodeEntry(entry: CassetteEntry): string {
  if (!('bytes' in entry)) return `${JSON.stringify(entry)}\n`
  const { bytes, ...place } = entry
  return `${JSON.stringify({ ...place, ...encodeBytes(bytes) })}\n`
}

/** Encodes a whole cassette, line by line, in order of time. */
export function* encodeCassette(cassette: Cassette): Generator<string> {
  yield encodeHeader(cassette.header)
  const entries = [...cassette.calls.flatMap(entriesOf), ...cassette.events, ...cassette.outputs]
  // Stable: at the same time the bytes come first, then the events, then the snapshots.
  for (const entry of entries.toSorted((a, b) => a.at - b.at)) yield encodeEntry(entry)
}

function entriesOf(recorded: CassetteCall): CassetteEntry[] {
  const { number: call, at, request, response, chunks, end } = recorded
  const entries: CassetteEntry[] = []
  if (request !== undefined) entries.push({ at, call, request })
  if (response !== undefined) {
    const { at, ...fields } = response
    entries.push({ at, call, response: fields })
  }
  for (const { at, bytes } of chunks) entries.push({ at, call, bytes })
  if (end !== undefined) entries.push({ at: end.at, call, end: end.reason })
  return entries
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Text where the bytes are valid UTF-8. A chunk may start or end inside a character. */
function encodeBytes(bytes: Uint8Array): { text: string } | { base64: string } {
  try {
    return { text: strictUtf8.decode(bytes) }
  } catch {
    return { base64: btoa(toBinary(bytes)) }
  }
}

/** One character per byte. */
export function toBinary(bytes: Uint8Array): string {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return text
}

export function fromBinary(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length)
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at)
  return bytes
}
