import { TurnstreamError } from '../protocol/errors.ts'
import { parseJsonSafe } from '../protocol/json.ts'
import {
  type Envelope,
  type EventTemplate,
  envelopeAt,
  envelopeOf,
  eventIdText,
  eventText,
  followingAt,
  MAX_COUNTER,
  middleOf,
  openingOf,
  templateOf,
} from './event-template.ts'
import { FIRST_CODE, SHORT_STEPS, stepAt, stepCode } from './step-code.ts'

export { envelopeOf }

/*
 * A token of four letters makes an event of some 300 characters. A line keeps what is new in it; the
 * rest is a template, which the first line that needs it brings along. A chunk is its lines, so that any
 * of its beginnings can be read on its own. A line is one of
 *
 *     +<number>,<counter>,<timestamp>,<shared>,<idPrefix>,<before>,<after>;<template><middle>
 *     <number><time step><middle>
 *     !<number>,<counter step>,<time step>;<middle>
 *     {…
 *     "…
 *
 * The first defines a template, anew if there was one of this number, and says counter and timestamp in
 * full, so that a writer may begin again at any line. `idPrefix`, `before` and `after` are the lengths of
 * the parts of the template; its first `shared` characters are those of the template one number below.
 * The second is the common case, an event with the next counter and a few milliseconds later: one
 * character for the template, one or two for the milliseconds. The third says the same of any numbers.
 * The fourth is an event as it came, the last an event as a JSON string: text that does not begin as
 * JSON objects do or that a line of UTF-8 could not hold. These two leave counter and timestamp alone.
 */

/** A record as it was before it became a line. */
export interface EventLine {
  data: string
  eventId: string
  timestamp: number
}

interface NumberedTemplate extends EventTemplate {
  number: number
  opening: string
  /** The character that stands for the number in a short line; empty when there is none. */
  code: string
}

/** Line breaks and lone surrogates: with `u` a surrogate that is one of a pair does not match. */
const UNSAFE = /[\n\ud800-\udfff]/u

const DEFINITION = /^\+(\d{1,3}),(\d{1,10}),(\d{1,16}),(\d{1,4}),(\d{1,4}),(\d{1,4}),(\d{1,4});/
const LONG = /^!(\d{1,3}),(-?\d{1,10}),(-?\d{1,16});/

/** More templates than records of a chunk are not needed; past it the encoder begins again. */
const MAX_TEMPLATES = 256
/** What a turn may keep in memory for its templates is bounded: an event with more around it stays raw. */
const MAX_TEMPLATE_CHARS = 4096

const TEMPLATE_CODES = 64

/**
 * Turns records into lines. One per log of a turn and writer; `startChunk()` forgets the templates so
 * that the next line stands on its own. A writer that does not know whether a line was kept calls it too.
 */
export class EventLineEncoder {
  readonly #templates = new Map<string, NumberedTemplate>()
  /** The template of the latest delta: the tokens of an item mostly follow each other. */
  #latest: NumberedTemplate | undefined
  #lastDefined = ''
  #counter = 0
  #timestamp = 0

  startChunk(): void {
    this.#templates.clear()
    this.#latest = undefined
    this.#lastDefined = ''
  }

  /** Throws `RECORD_INVALID` for text that says no event id or no timestamp; nothing has changed then. */
  encode(data: string): string {
    const following = this.#following(data)
    if (following !== undefined) return following
    const envelope = envelopeAt(data)
    const line = envelope === undefined ? undefined : this.#templated(data, envelope)
    return line ?? rawLine(data)
  }

  /** The next token of the same item, a little later: nearly every record. */
  #following(data: string): string | undefined {
    const template = this.#latest
    if (template === undefined || template.code === '') return undefined
    const following = followingAt(template, data, this.#counter + 1)
    if (following === undefined || UNSAFE.test(following.middle)) return undefined
    const timeStep = following.timestamp - this.#timestamp
    if (timeStep < 0 || timeStep >= SHORT_STEPS) return undefined
    this.#counter += 1
    this.#timestamp = following.timestamp
    return template.code + stepCode(timeStep) + following.middle
  }

  #templated(data: string, envelope: Envelope): string | undefined {
    if (this.#latest !== undefined) {
      const middle = middleOf(this.#latest, data, envelope)
      if (middle !== undefined) return this.#use(this.#latest, middle, envelope)
    }
    const wanted = templateOf(data, envelope)
    const middle = wanted === undefined ? undefined : middleOf(wanted, data, envelope)
    if (wanted === undefined || middle === undefined) return undefined
    // An id of ours has no quote in it, and what `before` ends with decides `after`: no two templates
    // have the same key.
    const key = `${wanted.idPrefix}"${wanted.before}`
    const known = this.#templates.get(key)
    return known === undefined
      ? this.#define(key, wanted, middle, envelope)
      : this.#use(known, middle, envelope)
  }

  #use(template: NumberedTemplate, middle: string, envelope: Envelope): string | undefined {
    if (UNSAFE.test(middle)) return undefined
    const counterStep = envelope.counter - this.#counter
    const timeStep = envelope.timestamp - this.#timestamp
    this.#moveTo(template, envelope)
    if (counterStep === 1 && timeStep >= 0 && timeStep < SHORT_STEPS && template.code !== '') {
      return template.code + stepCode(timeStep) + middle
    }
    return `!${template.number},${counterStep},${timeStep};${middle}`
  }

  #define(
    key: string,
    template: EventTemplate,
    middle: string,
    envelope: Envelope,
  ): string | undefined {
    const { idPrefix, before, after } = template
    const text = idPrefix + before + after
    if (text.length > MAX_TEMPLATE_CHARS || UNSAFE.test(text) || UNSAFE.test(middle))
      return undefined
    if (this.#templates.size === MAX_TEMPLATES) this.startChunk()
    const number = this.#templates.size
    const code = number < TEMPLATE_CODES ? String.fromCharCode(FIRST_CODE + number) : ''
    const opening = openingOf(template)
    const numbered = { idPrefix, before, after, number, code, opening }
    const shared = sharedLength(this.#lastDefined, text)
    this.#templates.set(key, numbered)
    this.#lastDefined = text
    this.#moveTo(numbered, envelope)
    const lengths = `${shared},${idPrefix.length},${before.length},${after.length}`
    const place = `${number},${envelope.counter},${envelope.timestamp}`
    return `+${place},${lengths};${text.slice(shared)}${middle}`
  }

  #moveTo(template: NumberedTemplate, { counter, timestamp }: Envelope): void {
    this.#counter = counter
    this.#timestamp = timestamp
    if (template.after !== '') this.#latest = template
  }
}

/** Turns the lines of one chunk, in order from its start, back. */
export class EventLineDecoder {
  readonly #templates: EventTemplate[] = []
  #counter = 0
  #timestamp = 0

  /** Throws `STORE_CORRUPT` for a line that cannot be read; no later line can be trusted then. */
  decode(line: string): EventLine {
    const first = line.charCodeAt(0)
    if (first >= FIRST_CODE && first < FIRST_CODE + TEMPLATE_CODES) {
      return this.#readShort(line, first - FIRST_CODE)
    }
    switch (line[0]) {
      case '{':
        return readRaw(line)
      case '"':
        return readRaw(parseJsonSafe(line))
      case '+':
        return this.#readDefinition(line)
      case '!':
        return this.#readLong(line)
      default:
        throw corrupt('a line begins like none')
    }
  }

  #readShort(line: string, number: number): EventLine {
    const step = stepAt(line, 1)
    if (step !== undefined) {
      return this.#read(number, 1, step, line.slice(1 + stepCode(step).length))
    }
    throw corrupt('a line has no time step')
  }

  #readLong(line: string): EventLine {
    const [head, number, counterStep, timeStep] = LONG.exec(line) ?? []
    if (head === undefined) throw corrupt('the numbers of a line cannot be read')
    const middle = line.slice(head.length)
    return this.#read(Number(number), Number(counterStep), Number(timeStep), middle)
  }

  #read(number: number, counterStep: number, timeStep: number, middle: string): EventLine {
    const template = this.#templates[number]
    if (template === undefined) throw corrupt(`template ${number} is not defined`)
    const place = { counter: this.#counter + counterStep, timestamp: this.#timestamp + timeStep }
    return this.#event(template, place, middle)
  }

  #readDefinition(line: string): EventLine {
    const [head, ...digits] = DEFINITION.exec(line) ?? []
    if (head === undefined) throw corrupt('the numbers of a definition cannot be read')
    const [number = 0, counter = 0, timestamp = 0, shared = 0, ...lengths] = digits.map(Number)
    const [idLength = 0, beforeLength = 0, afterLength = 0] = lengths
    const below = this.#templates[number - 1]
    if (number > 0 && below === undefined) throw corrupt(`template ${number - 1} is not defined`)
    const length = idLength + beforeLength + afterLength
    const end = head.length + length - shared
    const text = textOf(below).slice(0, shared) + line.slice(head.length, end)
    if (text.length !== length) throw corrupt(`the text of template ${number} is too short`)
    const template = {
      idPrefix: text.slice(0, idLength),
      before: text.slice(idLength, idLength + beforeLength),
      after: text.slice(idLength + beforeLength),
    }
    const middle = line.slice(end)
    const event = this.#event(template, { counter, timestamp }, middle)
    const envelope = envelopeAt(event.data)
    if (envelope === undefined || middleOf(template, event.data, envelope) !== middle) {
      throw corrupt(`template ${number} gives no event`)
    }
    this.#templates[number] = template
    return event
  }

  #event(
    template: EventTemplate,
    { counter, timestamp }: { counter: number; timestamp: number },
    middle: string,
  ): EventLine {
    if (counter < 0 || counter > MAX_COUNTER) throw corrupt(`the counter would be ${counter}`)
    if (timestamp < 0 || !Number.isSafeInteger(timestamp)) {
      throw corrupt(`the timestamp would be ${timestamp}`)
    }
    this.#counter = counter
    this.#timestamp = timestamp
    const eventId = eventIdText(template.idPrefix, counter)
    return { data: eventText(template, eventId, timestamp, middle), eventId, timestamp }
  }
}

/** All lines of a chunk. No line is empty, so that an empty text is a chunk without any. */
export function decodeChunk(text: string): EventLine[] {
  if (text === '') return []
  const decoder = new EventLineDecoder()
  return text.split('\n').map((line) => decoder.decode(line))
}

function textOf(template: EventTemplate | undefined): string {
  return template === undefined ? '' : template.idPrefix + template.before + template.after
}

/** How many characters both begin with; a pair of surrogates counts as one. */
function sharedLength(a: string, b: string): number {
  let length = 0
  while (length < a.length && a.charCodeAt(length) === b.charCodeAt(length)) length += 1
  return UNSAFE.test(b.slice(0, length)) ? length - 1 : length
}

/** Reads the envelope although a line does not need it: what has none is refused before it is kept. */
function rawLine(data: string): string {
  envelopeOf(data)
  return data.startsWith('{') && !UNSAFE.test(data) ? data : JSON.stringify(data)
}

function readRaw(data: unknown): EventLine {
  if (typeof data !== 'string') throw corrupt('an escaped record is no string')
  try {
    return { data, ...envelopeOf(data) }
  } catch (error) {
    throw corrupt('a record has no envelope', error)
  }
}

function corrupt(detail: string, cause?: unknown): TurnstreamError {
  return new TurnstreamError('STORE_CORRUPT', `line of an event log: ${detail}`, { cause })
}
