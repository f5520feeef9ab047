import { TurnstreamError } from '../protocol/errors.ts'
import { isRecord, parseJsonSafe } from '../protocol/json.ts'

/**
 * An event's text in the order in which we write it:
 *
 *     {"event_id":"<idPrefix><counter>","timestamp":<timestamp><before><middle><after>
 *
 * Counter, timestamp and middle differ from event to event, the other three hardly ever do.
 */
export interface EventTemplate {
  idPrefix: string
  /** Begins with the comma after the timestamp. */
  before: string
  after: string
}

/** What an event's text says of itself, and where. */
export interface Envelope {
  /** The place of the quote that ends the event id. */
  idEnd: number
  counter: number
  timestamp: number
  /** The place of the comma that ends the timestamp. */
  timestampEnd: number
}

const OPEN = '{"event_id":"'
const BETWEEN = '","timestamp":'
const COUNTER_DIGITS = 8
const PLAIN_DIGITS = 15
export const MAX_COUNTER = 0xffffffff

const TYPE = ',"type":"'
const DELTA = 'item_delta"'
const DELTA_CONTENT = '"delta_content":"'
const DELTA_END = '"}}'

const ZERO = 0x30
const NINE = 0x39
const SMALL_A = 0x61
const SMALL_F = 0x66
const COMMA = 0x2c

/**
 * The envelope of an event that begins as ours do; undefined when it begins otherwise. It accepts only
 * what `eventText` writes character for character: `01`, `1e3` or a counter in capitals are not ours.
 */
export function envelopeAt(data: string): Envelope | undefined {
  if (!hasAt(data, OPEN, 0)) return undefined
  const idEnd = data.indexOf('"', OPEN.length)
  if (!hasAt(data, BETWEEN, idEnd)) return undefined
  // With an escape in it the text of the id is not the id.
  if (data.slice(OPEN.length, idEnd).includes('\\')) return undefined
  // Of an id that is too short the quote before it would have to be a digit.
  const counter = counterAt(data, idEnd - COUNTER_DIGITS)
  if (counter === -1) return undefined
  const start = idEnd + BETWEEN.length
  const timestampEnd = digitsEnd(data, start)
  if (timestampEnd === -1) return undefined
  const timestamp = Number(data.slice(start, timestampEnd))
  return Number.isSafeInteger(timestamp) ? { idEnd, counter, timestamp, timestampEnd } : undefined
}

/** `startsWith`, which V8 compares one character at a time: for 200 of them that is ten times as slow. */
function hasAt(data: string, text: string, at: number): boolean {
  return data.slice(at, at + text.length) === text
}

/** The number that eight lower-case hexadecimal digits say, or -1. */
function counterAt(data: string, start: number): number {
  let counter = 0
  for (let at = start; at < start + COUNTER_DIGITS; at++) {
    const code = data.charCodeAt(at)
    if (code >= ZERO && code <= NINE) counter = counter * 16 + code - ZERO
    else if (code >= SMALL_A && code <= SMALL_F) counter = counter * 16 + code - SMALL_A + 10
    else return -1
  }
  return counter
}

/** The comma that ends a whole number as `String` writes one, or -1. */
function digitsEnd(data: string, start: number): number {
  let at = start
  let code = data.charCodeAt(at)
  const leadingZero = code === ZERO
  while (code >= ZERO && code <= NINE) {
    at += 1
    code = data.charCodeAt(at)
  }
  const digits = at - start
  return code === COMMA && digits > 0 && (digits === 1 || !leadingZero) ? at : -1
}

/** An event whose text has a known template, and a timestamp that is a plain number. */
export interface Following {
  timestamp: number
  middle: string
}

/**
 * An event of the template whose counter is `counter`; undefined for any other. It is what `envelopeAt` and
 * `middleOf` say together, for the token that follows the one before: with them alone an event takes twice
 * as long.
 */
export function followingAt(
  { opening, before, after }: EventTemplate & { readonly opening: string },
  data: string,
  counter: number,
): Following | undefined {
  const idEnd = opening.length + COUNTER_DIGITS
  if (!hasAt(data, opening, 0) || counterAt(data, opening.length) !== counter) return undefined
  if (!hasAt(data, BETWEEN, idEnd)) return undefined
  const start = idEnd + BETWEEN.length
  const timestampEnd = digitsEnd(data, start)
  const middleStart = timestampEnd + before.length
  const middleEnd = data.length - after.length
  const fits =
    timestampEnd !== -1 &&
    timestampEnd - start <= PLAIN_DIGITS &&
    middleStart <= middleEnd &&
    hasAt(data, before, timestampEnd) &&
    data.endsWith(after)
  if (!fits) return undefined
  return {
    timestamp: numberAt(data, start, timestampEnd),
    middle: data.slice(middleStart, middleEnd),
  }
}

/** How an event's text begins, up to its counter. */
export function openingOf({ idPrefix }: EventTemplate): string {
  return OPEN + idPrefix
}

/** Of digits so few that no sum on the way is rounded. */
function numberAt(data: string, start: number, end: number): number {
  let number = 0
  for (let at = start; at < end; at++) number = number * 10 + data.charCodeAt(at) - ZERO
  return number
}

/**
 * The template that suits an event: for a delta all but its text, for others the envelope alone. A guess
 * by plain search, which may be poor and cannot be wrong, as what it leaves over is kept verbatim.
 */
export function templateOf(
  data: string,
  { idEnd, timestampEnd }: Envelope,
): EventTemplate | undefined {
  const type = data.indexOf(TYPE, timestampEnd)
  if (type === -1) return undefined
  let end = type + TYPE.length
  let after = ''
  if (hasAt(data, DELTA, end) && data.endsWith(DELTA_END)) {
    const content = data.indexOf(DELTA_CONTENT, end)
    if (content !== -1) {
      end = content + DELTA_CONTENT.length
      after = DELTA_END
    }
  }
  return {
    idPrefix: data.slice(OPEN.length, idEnd - COUNTER_DIGITS),
    before: data.slice(timestampEnd, end),
    after,
  }
}

/**
 * What a template leaves over of an event; undefined when the event is not of this template. Nothing else
 * decides whether a template may be used: with what it answers, `eventText` gives the same text again.
 */
export function middleOf(
  { idPrefix, before, after }: EventTemplate,
  data: string,
  { idEnd, timestampEnd }: Envelope,
): string | undefined {
  const start = timestampEnd + before.length
  const end = data.length - after.length
  const fits =
    idEnd === OPEN.length + idPrefix.length + COUNTER_DIGITS &&
    start <= end &&
    hasAt(data, before, timestampEnd) &&
    hasAt(data, idPrefix, OPEN.length) &&
    data.endsWith(after)
  return fits ? data.slice(start, end) : undefined
}

export function eventIdText(idPrefix: string, counter: number): string {
  return idPrefix + counter.toString(16).padStart(COUNTER_DIGITS, '0')
}

/** The event's text again. */
export function eventText(
  { before, after }: EventTemplate,
  eventId: string,
  timestamp: number,
  middle: string,
): string {
  return `${OPEN}${eventId}${BETWEEN}${timestamp}${before}${middle}${after}`
}

/**
 * The id and the time of an event's JSON text. Text that begins as we write it is not parsed, so this
 * tells where an event belongs and not whether it is well-formed.
 */
export function envelopeOf(data: string): { eventId: string; timestamp: number } {
  const ours = envelopeAt(data)
  if (ours !== undefined) {
    return { eventId: data.slice(OPEN.length, ours.idEnd), timestamp: ours.timestamp }
  }
  const json = parseJsonSafe(data)
  if (!isRecord(json)) throw new TurnstreamError('RECORD_INVALID', 'the text is no JSON object')
  const { event_id: eventId, timestamp } = json
  if (typeof eventId !== 'string') {
    throw new TurnstreamError('RECORD_INVALID', 'event_id is not a string')
  }
  if (typeof timestamp !== 'number' || !Number.isFinite(timestamp)) {
    throw new TurnstreamError('RECORD_INVALID', 'timestamp is not a finite number')
  }
  return { eventId, timestamp }
}
