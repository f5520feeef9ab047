/**
 * Encodes StreamEvents as text and decodes them. On the wire an event is JSON. In a store it is a line, because a token
 * of four letters makes an event of some 300 characters. A line holds what is new; the rest is a template, included in
 * the first line that uses it. A chunk is a sequence of lines, and every prefix of it can be decoded. A line is one of
 *
 *     +<number>,<counter>,<timestamp>,<shared>,<idPrefix>,<before>,<after>;<template><middle>
 *     <number><time step><middle>
 *     !<number>,<counter step>,<time step>;<middle>
 *     {…
 *     "…
 *
 * and the first three decode to
 *
 *     {"event_id":"<idPrefix><counter>","timestamp":<timestamp><before><middle><after>
 *
 * The first kind defines or redefines a template and gives counter and timestamp in full, so a writer may start over at
 * any line. `idPrefix`, `before` and `after` are the lengths of the template's parts; its first `shared` characters
 * equal the template with the previous number. The second kind is the common case, an event with the next counter a few
 * milliseconds later: one character for the template, one or two for the milliseconds. The third kind is the same for
 * any numbers. The fourth is the JSON of an event that fits no template. The last is the same as a JSON string, which
 * older versions wrote. These two do not change counter and timestamp.
 */
import { TurnstreamError } from './errors.ts'
import { isRecord, parseJsonSafe } from './json.ts'
import { jsonLength, jsonPieces } from './json-pieces.ts'
import type { StreamEvent, StreamEventPayload } from './stream-event.ts'

const ID = '{"event_id":"'
const TIMESTAMP = '","timestamp":'
const COUNTER_DIGITS = 8
const MAX_COUNTER = 0xffffffff

const ENVELOPE_FIELDS = ['event_id', 'timestamp', 'trace_context', 'run_id', 'type', 'payload']
const DELTA_FIELDS = ['type', 'item_id', 'delta_content']
const DELTA_END = '"}}'

/** A chunk never needs more templates than it has records. Past this number the encoder starts over. */
const MAX_TEMPLATES = 256
/** Bounds the memory for a turn's templates. An event with a longer envelope is stored as JSON. */
const MAX_TEMPLATE_CHARS = 4096

// Numbers are written as characters from '0' upwards, none of which starts another kind of line. Steps below
// 48 take one character; larger ones start with one of the 31 characters from '`' to '~'.
const FIRST_CODE = 0x30
const TEMPLATE_CODES = 64
const ONE_CHAR_STEPS = 48
const STEP_CODES = 79
const SHORT_STEPS = ONE_CHAR_STEPS + (STEP_CODES - ONE_CHAR_STEPS) * STEP_CODES

const DEFINITION = /^\+(\d{1,3}),(\d{1,10}),(\d{1,16}),(\d{1,4}),(\d{1,4}),(\d{1,4}),(\d{1,4});/
const LONG = /^!(\d{1,3}),(-?\d{1,10}),(-?\d{1,16});/
/** Characters that JSON escapes. */
const ESCAPED = /["\\\p{Cc}]/u

interface Template {
  readonly idPrefix: string
  /** Starts with the comma after the timestamp. */
  readonly before: string
  /** Empty except for deltas. */
  readonly after: string
}

export function eventText(event: StreamEvent): string {
  return hasAttachments(event) ? joinPieces(event) : JSON.stringify(event)
}

/** Returns about the length of the JSON of an event. Does not encode attachments. */
export function eventLength(event: StreamEvent): number {
  return hasAttachments(event) ? jsonLength(event) : eventText(event).length
}

function joinPieces(value: object): string {
  return [...jsonPieces(value)].join('')
}

/** Texts of `encodeAhead`, until their lines are encoded. */
const textsAhead = new WeakMap<object, string>()

function payloadText({ payload }: StreamEvent): string {
  const text = textsAhead.get(payload)
  if (text !== undefined) textsAhead.delete(payload)
  return text ?? (hasAttachments({ payload }) ? joinPieces(payload) : JSON.stringify(payload))
}

/** Encodes an event with attachments in steps, so that `EventEncoder` does not have to do it at once. */
export function* encodeAhead({ payload }: StreamEvent): Generator<void> {
  const pieces: string[] = []
  for (const piece of jsonPieces(payload)) {
    pieces.push(piece)
    yield
  }
  textsAhead.set(payload, pieces.join(''))
  yield
}

/** Attachments may have tens of megabytes. Takes events of any shape. */
export function hasAttachments({ payload }: { readonly payload?: unknown }): boolean {
  if (!isRecord(payload) || payload['type'] !== 'item_done') return false
  const { final_item: item } = payload
  return isRecord(item) && item['attachments'] !== undefined
}

/** Returns whether a delta has only the fields that every delta has. */
export function isPlainDelta(payload: StreamEventPayload<'item_delta'>): boolean {
  return hasExactly(payload, DELTA_FIELDS)
}

/** Throws RECORD_INVALID for an event without id or timestamp, which no log can store. */
export function checkEnvelope(event: unknown): void {
  if (!isRecord(event)) throw invalid('an event is not an object')
  if (typeof event['event_id'] !== 'string') throw invalid('event_id is not a string')
  if (!Number.isFinite(event['timestamp'])) throw invalid('timestamp is not a finite number')
}

interface NumberedTemplate extends Template {
  readonly number: number
  /** The character for the number in a short line; empty if the number has none. */
  readonly code: string
  readonly runId: string
  readonly trace: object
  readonly itemId: string | undefined
}

/**
 * Encodes events as lines. Use one encoder per log and writer. `startChunk()` resets the templates, so that
 * the next line can be decoded on its own; also call it when it is unknown whether a line was stored.
 */
export class EventEncoder {
  readonly #templates = new Map<string, NumberedTemplate>()
  /** The template of the latest delta. Deltas of an item usually follow each other. */
  #latest: NumberedTemplate | undefined
  #lastDefined = ''
  #counter = 0
  #timestamp = 0

  startChunk(): void {
    this.#templates.clear()
    this.#latest = undefined
    this.#lastDefined = ''
  }

  /** Throws RECORD_INVALID for an event without id or timestamp and leaves the encoder unchanged. */
  encode(event: StreamEvent): string {
    checkEnvelope(event)
    const { event_id: id, timestamp, payload } = event
    const counter = counterOf(id)
    const isRegular = counter !== -1 && Number.isSafeInteger(timestamp) && timestamp >= 0
    if (!isRegular || !hasExactly(event, ENVELOPE_FIELDS)) return eventText(event)
    const isDelta = event.type === 'item_delta' && isTextDelta(payload)
    const middle = isDelta
      ? JSON.stringify(payload.delta_content).slice(1, -1)
      : `${JSON.stringify(event.type).slice(1)},"payload":${payloadText(event)}}`
    const latest = this.#latest
    if (isDelta && latest !== undefined && isOf(latest, event, payload.item_id)) {
      return this.#use(latest, counter, timestamp, middle)
    }
    const before = textBefore(event, isDelta ? payload.item_id : undefined)
    const idPrefix = id.slice(0, -COUNTER_DIGITS)
    const key = `${idPrefix}"${before}`
    const known = this.#templates.get(key)
    if (known !== undefined) return this.#use(known, counter, timestamp, middle)
    const after = isDelta ? DELTA_END : ''
    const chars = idPrefix.length + before.length + after.length
    // An id that JSON escapes would not be found in the text.
    if (chars > MAX_TEMPLATE_CHARS || JSON.stringify(idPrefix) !== `"${idPrefix}"`) {
      return eventText(event)
    }
    if (this.#templates.size === MAX_TEMPLATES) this.startChunk()
    const number = this.#templates.size
    const template = {
      idPrefix,
      before,
      after,
      number,
      code: number < TEMPLATE_CODES ? String.fromCharCode(FIRST_CODE + number) : '',
      runId: event.run_id,
      trace: event.trace_context,
      itemId: isDelta ? payload.item_id : undefined,
    }
    this.#templates.set(key, template)
    return this.#define(template, counter, timestamp, middle)
  }

  #use(template: NumberedTemplate, counter: number, timestamp: number, middle: string): string {
    const counterStep = counter - this.#counter
    const timeStep = timestamp - this.#timestamp
    this.#moveTo(template, counter, timestamp)
    if (counterStep === 1 && timeStep >= 0 && timeStep < SHORT_STEPS && template.code !== '') {
      return template.code + stepCode(timeStep) + middle
    }
    return `!${template.number},${counterStep},${timeStep};${middle}`
  }

  #define(template: NumberedTemplate, counter: number, timestamp: number, middle: string): string {
    const { idPrefix, before, after, number } = template
    const text = idPrefix + before + after
    const shared = sharedLength(this.#lastDefined, text)
    this.#lastDefined = text
    this.#moveTo(template, counter, timestamp)
    const lengths = `${shared},${idPrefix.length},${before.length},${after.length}`
    return `+${number},${counter},${timestamp},${lengths};${text.slice(shared)}${middle}`
  }

  #moveTo(template: NumberedTemplate, counter: number, timestamp: number): void {
    this.#counter = counter
    this.#timestamp = timestamp
    if (template.after !== '') this.#latest = template
  }
}

/** Returns whether a delta matches the template. Compares by identity: the events of a turn share one trace context. */
function isOf(template: NumberedTemplate, event: StreamEvent, itemId: string): boolean {
  return (
    itemId === template.itemId &&
    event.run_id === template.runId &&
    event.trace_context === template.trace &&
    event.event_id.length === template.idPrefix.length + COUNTER_DIGITS &&
    event.event_id.startsWith(template.idPrefix)
  )
}

/** Returns the text between the timestamp and the variable part of an event. */
function textBefore({ trace_context, run_id }: StreamEvent, itemId: string | undefined): string {
  const trace = JSON.stringify(trace_context)
  const envelope = `,"trace_context":${trace},"run_id":${JSON.stringify(run_id)},"type":"`
  if (itemId === undefined) return envelope
  const item = JSON.stringify(itemId)
  return `${envelope}item_delta","payload":{"type":"item_delta","item_id":${item},"delta_content":"`
}

/** A template as the decoder stores it, with the parts that its deltas share. */
interface ReadTemplate extends Template {
  readonly delta:
    | {
        readonly runId: string
        readonly trace: StreamEvent['trace_context']
        readonly itemId: string
      }
    | undefined
}

/** Decodes the lines of one chunk, in order from its start. */
export class EventDecoder {
  readonly #templates: ReadTemplate[] = []
  #counter = 0
  #timestamp = 0

  /** Throws STORE_CORRUPT for an unreadable line. No later line can be trusted after that. */
  decode(line: string): StreamEvent {
    const first = line.charCodeAt(0)
    if (first >= FIRST_CODE && first < FIRST_CODE + TEMPLATE_CODES) {
      const step = stepAt(line, 1)
      if (step === undefined) throw corrupt('a line has no time step')
      return this.#read(first - FIRST_CODE, 1, step, line.slice(step < ONE_CHAR_STEPS ? 2 : 3))
    }
    switch (line[0]) {
      case '{':
        return parseEvent(line)
      case '"':
        return parseEvent(parseJsonSafe(line))
      case '+':
        return this.#readDefinition(line)
      case '!': {
        const [head, number, counterStep, timeStep] = LONG.exec(line) ?? []
        if (head === undefined) throw corrupt('the numbers of a line are malformed')
        const middle = line.slice(head.length)
        return this.#read(Number(number), Number(counterStep), Number(timeStep), middle)
      }
      default:
        throw corrupt('unknown kind of line')
    }
  }

  #read(number: number, counterStep: number, timeStep: number, middle: string): StreamEvent {
    const template = this.#templates[number]
    if (template === undefined) throw corrupt(`template ${number} is not defined`)
    const eventId = this.#moveTo(template, this.#counter + counterStep, this.#timestamp + timeStep)
    const { delta } = template
    const delta_content = delta === undefined ? undefined : textBehind(middle)
    // Older versions also wrote deltas with more fields after their text in this form.
    if (delta === undefined || delta_content === undefined) {
      return parseEvent(jsonText(template, eventId, this.#timestamp, middle))
    }
    return {
      event_id: eventId,
      timestamp: this.#timestamp,
      trace_context: delta.trace,
      run_id: delta.runId,
      type: 'item_delta',
      payload: { type: 'item_delta', item_id: delta.itemId, delta_content },
    }
  }

  #readDefinition(line: string): StreamEvent {
    const [head, ...digits] = DEFINITION.exec(line) ?? []
    if (head === undefined) throw corrupt('the numbers of a template are malformed')
    const [number = 0, counter = 0, timestamp = 0, shared = 0, ...lengths] = digits.map(Number)
    const [idLength = 0, beforeLength = 0, afterLength = 0] = lengths
    const below = this.#templates[number - 1]
    if (number > 0 && below === undefined) throw corrupt(`template ${number - 1} is not defined`)
    const length = idLength + beforeLength + afterLength
    const end = head.length + length - shared
    const sharedText = below === undefined ? '' : below.idPrefix + below.before + below.after
    const text = sharedText.slice(0, shared) + line.slice(head.length, end)
    if (text.length !== length) throw corrupt(`the text of template ${number} is too short`)
    const template = {
      idPrefix: text.slice(0, idLength),
      before: text.slice(idLength, idLength + beforeLength),
      after: text.slice(idLength + beforeLength),
    }
    const eventId = this.#moveTo(template, counter, timestamp)
    const event = parseEvent(jsonText(template, eventId, timestamp, line.slice(end)))
    if (event.event_id !== eventId || event.timestamp !== timestamp) {
      throw corrupt(`template ${number} does not decode to an event`)
    }
    this.#templates[number] = { ...template, delta: sharedByDeltas(template, event) }
    return event
  }

  #moveTo({ idPrefix }: Template, counter: number, timestamp: number): string {
    if (counter < 0 || counter > MAX_COUNTER) throw corrupt(`the counter would be ${counter}`)
    if (timestamp < 0 || !Number.isSafeInteger(timestamp)) {
      throw corrupt(`the timestamp would be ${timestamp}`)
    }
    this.#counter = counter
    this.#timestamp = timestamp
    return idPrefix + counter.toString(16).padStart(COUNTER_DIGITS, '0')
  }
}

/** Returns all events of a chunk. Lines are never empty, so an empty text is an empty chunk. */
export function decodeChunk(text: string): StreamEvent[] {
  if (text === '') return []
  const decoder = new EventDecoder()
  return text.split('\n').map((line) => decoder.decode(line))
}

function jsonText(
  { before, after }: Template,
  eventId: string,
  timestamp: number,
  middle: string,
): string {
  return `${ID}${eventId}${TIMESTAMP}${timestamp}${before}${middle}${after}`
}

/** Returns what the deltas of a template share; undefined when its events must be parsed. */
function sharedByDeltas(template: Template, event: StreamEvent): ReadTemplate['delta'] {
  if (event.type !== 'item_delta' || !isTextDelta(event.payload)) return undefined
  const { item_id: itemId } = event.payload
  const isExact = template.after === DELTA_END && template.before === textBefore(event, itemId)
  return isExact ? { runId: event.run_id, trace: event.trace_context, itemId } : undefined
}

/** Returns the text between the quotes of a JSON string; undefined if there is more than text. */
function textBehind(escaped: string): string | undefined {
  if (!ESCAPED.test(escaped)) return escaped
  const text = parseJsonSafe(`"${escaped}"`)
  // `parseJsonSafe` returns text that is not JSON unchanged.
  return text === `"${escaped}"` ? undefined : (text as string)
}

function parseEvent(text: unknown): StreamEvent {
  const event = typeof text === 'string' ? parseJsonSafe(text) : undefined
  try {
    checkEnvelope(event)
  } catch (error) {
    throw corrupt('a record has no envelope', error)
  }
  return event as StreamEvent
}

/** Returns whether the text is the only variable part of a delta. */
function isTextDelta(payload: StreamEventPayload): payload is StreamEventPayload<'item_delta'> {
  return (
    hasExactly(payload, DELTA_FIELDS) &&
    payload.type === 'item_delta' &&
    typeof payload.item_id === 'string' &&
    typeof payload.delta_content === 'string'
  )
}

/** Returns whether an object has exactly these fields, in this order. */
function hasExactly(object: object, names: readonly string[]): boolean {
  let at = 0
  for (const name in object) if (name !== names[at++]) return false
  return at === names.length
}

/** Returns the number in the last eight characters of an id, in lower-case hexadecimal; -1 if there is none. */
function counterOf(id: string): number {
  let counter = 0
  for (let at = id.length - COUNTER_DIGITS; at < id.length; at++) {
    const code = id.charCodeAt(at)
    if (code >= 0x30 && code <= 0x39) counter = counter * 16 + code - 0x30
    else if (code >= 0x61 && code <= 0x66) counter = counter * 16 + code - 0x57
    else return -1
  }
  return counter
}

/** Encodes a step below `SHORT_STEPS` as one or two characters. */
function stepCode(step: number): string {
  if (step < ONE_CHAR_STEPS) return String.fromCharCode(FIRST_CODE + step)
  const rest = step - ONE_CHAR_STEPS
  const lead = ONE_CHAR_STEPS + Math.floor(rest / STEP_CODES)
  return String.fromCharCode(FIRST_CODE + lead, FIRST_CODE + (rest % STEP_CODES))
}

/** Returns the step at a position of a text; undefined when there is none. */
function stepAt(text: string, at: number): number | undefined {
  const lead = text.charCodeAt(at) - FIRST_CODE
  if (lead >= 0 && lead < ONE_CHAR_STEPS) return lead
  const second = text.charCodeAt(at + 1) - FIRST_CODE
  const isPair = lead >= ONE_CHAR_STEPS && lead < STEP_CODES && second >= 0 && second < STEP_CODES
  return isPair ? ONE_CHAR_STEPS + (lead - ONE_CHAR_STEPS) * STEP_CODES + second : undefined
}

/** Returns the length of the common prefix. Never splits a surrogate pair. */
function sharedLength(a: string, b: string): number {
  let length = 0
  while (length < a.length && a.charCodeAt(length) === b.charCodeAt(length)) length += 1
  const last = b.charCodeAt(length - 1)
  return last >= 0xd800 && last < 0xdc00 ? length - 1 : length
}

function invalid(detail: string): TurnstreamError {
  return new TurnstreamError('RECORD_INVALID', detail)
}

function corrupt(detail: string, cause?: unknown): TurnstreamError {
  return new TurnstreamError('STORE_CORRUPT', `line of an event log: ${detail}`, { cause })
}
