import { OpenItems } from '../items/open-items.ts'
import type { CallEnd, CassetteHeader, CassetteRequest } from '../protocol/cassette.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { isNestedDeeperThan, isRecord, MAX_JSON_NESTING, parseJson } from '../protocol/json.ts'
import { CASSETTE_FORMAT, CASSETTE_VERSION, MAX_CASSETTE_CALLS } from '../protocol/names.ts'
import { isStreamEvent, normalizeEvent, streamEventFault } from '../protocol/stream-event-guard.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'
import { SseLimitError } from '../sse/decode.ts'
import { LineDecoder } from '../sse/lines.ts'
import {
  type Cassette,
  type CassetteCall,
  fromBinary,
  type TimedEvent,
  type TimedOutput,
} from './cassette.ts'

/** What a cassette may make its reader hold. */
export interface CassetteLimits {
  /** 256 MiB by default. */
  maxBytes?: number
  /** 1,000,000 by default. */
  maxLines?: number
  /** 32 Mi characters by default. */
  maxLineChars?: number
}

export const CASSETTE_LIMITS: Required<CassetteLimits> = {
  maxBytes: 256 * 1024 * 1024,
  maxLines: 1_000_000,
  maxLineChars: 32 * 1024 * 1024,
}

/**
 * Reads a cassette. Throws CASSETTE_INVALID with the line that is malformed, and CASSETTE_TOO_LARGE. A last line that is
 * cut off is ignored: a recorder may die while it writes. So are unknown fields and lines of unknown kinds.
 */
export async function readCassette(
  input: AsyncIterable<Uint8Array>,
  limits: CassetteLimits = {},
): Promise<Cassette> {
  const decoder = new CassetteDecoder(limits)
  for await (const chunk of input) decoder.feed(chunk)
  return decoder.end()
}

/** Reads a cassette from chunks that may be split anywhere. */
export class CassetteDecoder {
  readonly #limits: Required<CassetteLimits>
  readonly #lines: LineDecoder
  readonly #calls = new Map<number, OpenCall>()
  readonly #events: TimedEvent[] = []
  readonly #outputs: TimedOutput[] = []
  /** Types of the items, which their last event may lack. */
  readonly #items = new OpenItems()
  #header: CassetteHeader | undefined
  #bytes = 0
  #number = 0

  constructor(limits: CassetteLimits = {}) {
    this.#limits = { ...CASSETTE_LIMITS, ...limits }
    this.#lines = new LineDecoder({ maxLineChars: this.#limits.maxLineChars })
  }

  feed(chunk: Uint8Array): void {
    const { maxBytes } = this.#limits
    this.#bytes += chunk.length
    if (this.#bytes > maxBytes) throw tooLarge(`more than ${maxBytes} bytes`)
    for (const line of this.#split(() => this.#lines.feed(chunk))) this.#apply(line)
  }

  end(): Cassette {
    for (const line of this.#split(() => this.#lines.end())) {
      const isCut = this.#header !== undefined && !parseJson(line).ok
      if (!isCut) this.#apply(line)
    }
    if (this.#header === undefined) throw invalid('it is empty')
    const calls = [...this.#calls.values()].toSorted((a, b) => a.number - b.number)
    return { header: this.#header, calls, events: this.#events, outputs: this.#outputs }
  }

  #split(read: () => string[]): string[] {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof SseLimitError)) throw error
      const { maxLineChars } = this.#limits
      throw tooLarge(`line ${this.#number + 1} has more than ${maxLineChars} characters`)
    }
  }

  #apply(text: string): void {
    this.#number += 1
    if (this.#number > this.#limits.maxLines) throw tooLarge(`more than ${this.#number - 1} lines`)
    if (text.trim() === '') return
    try {
      this.#applyLine(parseLine(text))
    } catch (error) {
      if (!(error instanceof LineFault)) throw error
      throw invalid(`line ${this.#number}: ${error.message}`)
    }
  }

  #applyLine(line: Fields): void {
    if (this.#header === undefined) {
      this.#header = checkHeader(line)
      return
    }
    const at = line['at']
    if (typeof at !== 'number' || !(at >= 0)) throw new LineFault('at is not a number ≥ 0')
    if ('event' in line) this.#applyEvent(at, line['event'])
    else if ('output' in line) this.#outputs.push({ at, output: checkOutput(line['output']) })
    else if ('call' in line) this.#applyCall(at, line['call'], line)
  }

  #applyEvent(at: number, given: unknown): void {
    const event = normalizeEvent(given, { started: this.#items.soFar })
    const fault = streamEventFault(event)
    if (fault !== undefined) throw new LineFault(`event: ${fault}`)
    if (!isStreamEvent(event)) return
    this.#items.apply(event.payload)
    this.#events.push({ at, event })
  }

  #applyCall(at: number, number: unknown, line: Fields): void {
    if (!isCallNumber(number)) {
      throw new LineFault(`call is not an integer from 1 to ${MAX_CASSETTE_CALLS}`)
    }
    const call = this.#calls.get(number) ?? { number, at, chunks: [] }
    this.#calls.set(number, call)
    if ('request' in line) call.request = checkRequest(line['request'])
    else if ('response' in line) call.response = { ...checkResponse(line['response']), at }
    else if ('end' in line) call.end = { at, reason: checkEnd(line['end']) }
    else {
      const bytes = bytesOf(line)
      if (bytes !== undefined) call.chunks.push({ at, bytes })
    }
  }
}

/** Decodes the first line alone. Throws CASSETTE_INVALID. */
export function decodeHeader(line: string): CassetteHeader {
  const decoder = new CassetteDecoder()
  decoder.feed(encoder.encode(`${line}\n`))
  return decoder.end().header
}

type Fields = Record<string, unknown>
type Writable<T> = { -readonly [Name in keyof T]: T[Name] }
type OpenCall = Writable<CassetteCall> & { chunks: CassetteCall['chunks'][number][] }

class LineFault extends Error {}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('CASSETTE_INVALID', detail)
}

function tooLarge(detail: string): TurnstreamError {
  return new TurnstreamError('CASSETTE_TOO_LARGE', detail)
}

function parseLine(text: string): Fields {
  if (isNestedDeeperThan(text, MAX_JSON_NESTING)) {
    throw new LineFault(`nested more than ${MAX_JSON_NESTING} levels deep`)
  }
  const json = parseJson(text)
  if (!json.ok) throw new LineFault(json.reason)
  if (!isRecord(json.value)) throw new LineFault('not an object')
  return json.value
}

function checkHeader(line: Fields): CassetteHeader {
  const { format, version, createdAt, turnId, threadId, tenant } = line
  if (format !== CASSETTE_FORMAT) throw new LineFault(`not a ${CASSETTE_FORMAT} header`)
  if (version !== CASSETTE_VERSION) {
    const written = typeof version === 'number' ? version : 'missing'
    throw new LineFault(`version is ${written}; this version reads ${CASSETTE_VERSION}`)
  }
  if (!Number.isFinite(createdAt)) throw new LineFault('createdAt is not a number')
  for (const [name, id] of Object.entries({ turnId, threadId, tenant })) {
    if (name in line && !isId(id)) throw new LineFault(`${name} is not a non-empty string`)
  }
  return line as unknown as CassetteHeader
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function isCallNumber(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= MAX_CASSETTE_CALLS
}

function checkRequest(value: unknown): CassetteRequest {
  if (!isRecord(value)) throw new LineFault('request is not an object')
  for (const name of ['method', 'url']) {
    if (typeof value[name] !== 'string') throw new LineFault(`request.${name} is not a string`)
  }
  if ('vendor' in value && typeof value['vendor'] !== 'string') {
    throw new LineFault('request.vendor is not a string')
  }
  if ('truncated' in value && typeof value['truncated'] !== 'boolean') {
    throw new LineFault('request.truncated is not true or false')
  }
  checkHeaders('request', value['headers'])
  return value as unknown as CassetteRequest
}

function checkResponse(value: unknown) {
  if (!isRecord(value)) throw new LineFault('response is not an object')
  const { status, headers } = value
  if (!Number.isInteger(status) || Number(status) < 100 || Number(status) > 599) {
    throw new LineFault('response.status is not an HTTP status')
  }
  return { ...value, status: Number(status), headers: checkHeaders('response', headers) }
}

function checkHeaders(owner: string, value: unknown): Record<string, string> {
  if (isRecord(value) && Object.values(value).every((each) => typeof each === 'string')) {
    return value as Record<string, string>
  }
  throw new LineFault(`${owner}.headers is not an object of strings`)
}

const ENDS: Record<CallEnd, true> = { complete: true, aborted: true, failed: true, limit: true }

function checkEnd(value: unknown): CallEnd {
  if (typeof value === 'string' && Object.hasOwn(ENDS, value)) return value as CallEnd
  throw new LineFault(`end is not one of ${Object.keys(ENDS).join(', ')}`)
}

const encoder = new TextEncoder()
// `atob` accepts spaces and missing padding; the schema does not.
// Without a group that repeats, which overflows the stack of the engine in a long text.
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

/** Undefined for a line of an unknown kind. */
function bytesOf({ text, base64 }: Fields): Uint8Array | undefined {
  if (text !== undefined) {
    if (typeof text !== 'string') throw new LineFault('text is not a string')
    return encoder.encode(text)
  }
  if (base64 === undefined) return undefined
  if (typeof base64 !== 'string' || base64.length % 4 !== 0 || !BASE64.test(base64)) {
    throw new LineFault('base64 is malformed')
  }
  return fromBinary(atob(base64))
}

const ITEM_OUTPUTS: ReadonlySet<unknown> = new Set(['message', 'thinking', 'tool_call'])
const TURN_OUTPUTS: ReadonlySet<unknown> = new Set(['turn_started', 'turn_complete', 'turn_error'])

/** The fields that identify a snapshot. Renderers must not trust the others. */
function checkOutput(value: unknown): StreamOutput {
  if (!isRecord(value)) throw new LineFault('output is not an object')
  const { type, turnId, threadId, itemId, content, status } = value
  if (!isId(turnId) || !isId(threadId)) throw new LineFault('output has no turnId or no threadId')
  if (ITEM_OUTPUTS.has(type)) {
    if (!isId(itemId)) throw new LineFault('output.itemId is not a non-empty string')
    if (typeof content !== 'string') throw new LineFault('output.content is not a string')
    if (typeof status !== 'string') throw new LineFault('output.status is not a string')
  } else if (!TURN_OUTPUTS.has(type)) throw new LineFault('output.type is not known')
  return value as unknown as StreamOutput
}
