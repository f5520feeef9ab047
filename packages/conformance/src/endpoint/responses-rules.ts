import { isDeepStrictEqual } from 'node:util'
import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { Check } from './check.ts'
import { closeRule, framingFault, typeOf, typesRule } from './event-framing.ts'
import {
  expecting,
  type Fault,
  type Finding,
  firstOf,
  isCount,
  isText,
  type Json,
  measure,
  type NamedRule,
  rule,
  shown,
  typeFault,
  utf8Rule,
} from './fault.ts'
import { recordsIn, type SseRecording } from './recording.ts'
import { itemFault, itemIdFault, membersFault, outputOf, usageFault } from './responses-object.ts'

const KEEPALIVE = 'keepalive'

const TERMINALS = ['response.completed', 'response.incomplete', 'response.failed']

/** What grows by deltas. */
const TEXTS = [
  'output_text',
  'refusal',
  'reasoning_text',
  'reasoning',
  'reasoning_summary_text',
  'function_call_arguments',
  'custom_tool_call_input',
]

const TYPES: ReadonlySet<string> = new Set([
  'error',
  KEEPALIVE,
  ...TERMINALS,
  'response.created',
  'response.queued',
  'response.in_progress',
  'response.output_text.annotation.added',
  ...['output_item', 'content_part', 'reasoning_summary_part'].flatMap((part) => [
    `response.${part}.added`,
    `response.${part}.done`,
  ]),
  ...TEXTS.flatMap((text) => [`response.${text}.delta`, `response.${text}.done`]),
])

/** Events of hosted tools, and extensions that Open Responses allows: `<vendor>:<type>`. */
const FURTHER_TYPES =
  /^response\.(apply_patch|audio|code_interpreter|file_search|image_generation|mcp|shell|web_search)|^\w+:/

function eventsOf({ events }: SseRecording): Json[] {
  return events.filter((event) => typeOf(event) !== KEEPALIVE).map(({ json }) => json)
}

function ofType(stream: SseRecording, ...types: string[]): Json[] {
  return eventsOf(stream).filter(({ type }) => types.includes(shown(type)))
}

function responsesIn(stream: SseRecording): Json[] {
  return eventsOf(stream).flatMap(({ response }) => (isRecord(response) ? [response] : []))
}

export const terminalsOf = (stream: SseRecording): Json[] => ofType(stream, ...TERMINALS)

export function finalResponse(stream: SseRecording): Json | undefined {
  const response = terminalsOf(stream).at(-1)?.['response']
  return isRecord(response) ? response : undefined
}

export function responseId(stream: SseRecording): string | undefined {
  const id = responsesIn(stream)[0]?.['id']
  return typeof id === 'string' ? id : undefined
}

/** The events that end the items of a stream, by the place of the item: parallel calls end in any order. */
function doneEvents(stream: SseRecording): Json[] {
  const events = ofType(stream, 'response.output_item.done')
  return events.toSorted((a, b) => placeOf(a) - placeOf(b))
}

const placeOf = ({ output_index: index }: Json): number => (typeof index === 'number' ? index : -1)

function doneItems(stream: SseRecording): Json[] {
  return doneEvents(stream).flatMap(({ item }) => (isRecord(item) ? [item] : []))
}

export function callsOf(stream: SseRecording): Json[] {
  return doneItems(stream).filter(({ type }) => type === 'function_call')
}

function brief(event: Json | undefined): string {
  if (event === undefined) return 'nothing'
  const { response: _response, item: _item, ...rest } = event
  return shown(rest)
}

export const RESPONSES_RULES: readonly NamedRule[] = [
  ['stream type', 'text/event-stream', typeFault],
  ['stream framing', 'complete events, named by their type', frameFault],
  utf8Rule((stream) => textsIn(eventsOf(stream))),
  rule('stream errors', 'none', 'an answer', (stream) => {
    const [error] = ofType(stream, 'error', 'response.failed')
    return error && `an error: ${shown(error['error'] ?? error['response'])}`
  }),
  // Clients treat an unknown type as a fatal error.
  typesRule((type) => isHeartbeat(type) || TYPES.has(type) || FURTHER_TYPES.test(type)),
  rule(
    'stream heartbeats',
    'comments, or keepalive after response.created',
    'comments, or keepalive events with a number after response.created',
    findHeartbeat,
  ),
  rule('stream numbers', 'from 0 without gaps', 'sequence_number 0, 1, 2 …', findGap),
  ['stream response', 'one id, resp_…', responseIdFault],
  rule(
    'stream order',
    'items and parts open before they grow, and close',
    'response.created, then each item: added, parts with their texts, done',
    findDisorder,
  ),
  rule('stream indexes', 'in order', 'output_index 0, 1, 2 … as items start', findIndex),
  ['stream item ids', 'one per item, with its prefix', itemIdsFault],
  ['stream items', 'complete', (stream) => firstOf(doneItems(stream), itemFault)],
  rule(
    'stream text',
    'deltas that add up',
    'deltas that add up to the text of the done events and of the item',
    findText,
  ),
  rule(
    'stream terminal',
    'one, and nothing after it',
    `one of ${TERMINALS.join(', ')} as the last event`,
    findTerminal,
  ),
  closeRule('the terminal event', (stream) => terminalsOf(stream).length > 0),
  ['response members', 'all', (stream) => firstOf(responsesIn(stream), membersFault)],
  ['response status', 'in_progress, then the status of the terminal event', statusFault],
  rule(
    'response output',
    'the items of the stream',
    'the items of the stream in the output of the last response',
    (stream) => {
      const response = finalResponse(stream)
      // Items that were cut have no last event.
      if (response?.['status'] !== 'completed') return undefined
      const isSame = isDeepStrictEqual(outputOf(response), doneItems(stream))
      return isSame ? undefined : `output: ${shown(response['output'])}`
    },
  ),
  [
    'usage',
    'input, output, total and details',
    (stream) => {
      const response = finalResponse(stream)
      return response?.['status'] === 'completed' ? usageFault(response) : undefined
    },
  ],
]

function frameFault(stream: SseRecording): Fault | undefined {
  const [late] = stream.rest
  if (late !== undefined) return { expected: 'nothing after [DONE]', came: shown(late) }
  return framingFault(stream)
}

function textsIn(events: readonly Json[]): string[] {
  return events.flatMap(({ delta }) => (typeof delta === 'string' ? [delta] : []))
}

function isHeartbeat(type: string): boolean {
  return type === KEEPALIVE || /^(?:response\.)?(?:heartbeat|keep_?-?alive|ping)$/.test(type)
}

function findHeartbeat({ events }: SseRecording): Finding {
  const beats = events.filter((event) => isHeartbeat(typeOf(event)))
  const other = beats.find(
    (event) => typeOf(event) !== KEEPALIVE || !isCount(event.json['sequence_number']),
  )
  if (other !== undefined) return brief(other.json)
  const [first] = events
  return first && typeOf(first) === KEEPALIVE ? 'a keepalive before response.created' : undefined
}

/** A heartbeat may repeat the last number or have its own. */
function findGap({ events }: SseRecording): Finding {
  let next = 0
  for (const event of events) {
    const number = event.json['sequence_number']
    if (isHeartbeat(typeOf(event)) && number !== next) continue
    if (number !== next) return `${shown(number)} in place of ${next}: ${brief(event.json)}`
    next += 1
  }
  return undefined
}

function responseIdFault(stream: SseRecording): Fault | undefined {
  const ids = [...new Set(responsesIn(stream).map(({ id }) => id))]
  if (ids.length > 1) return { expected: 'one response id', came: ids.map(shown).join(', ') }
  const [id] = ids
  if (typeof id === 'string' && /^resp_./.test(id)) return undefined
  return { expected: 'a response id that starts with resp_', came: shown(id) }
}

interface Place {
  isOpen: boolean
  readonly parts: Map<unknown, 'open' | 'said' | 'closed'>
}

const PART_EVENT =
  /^response\.(?:(output_text|refusal)|reasoning(?:_text|_summary_text)?|(?:content|reasoning_summary)_part)\.(added|delta|done)$/

function findDisorder(stream: SseRecording): Finding {
  const places = new Map<unknown, Place>()
  for (const [at, event] of eventsOf(stream).entries()) {
    const type = shown(event['type'])
    if ((at === 0) !== (type === 'response.created')) {
      return at === 0 ? `first ${type}` : `${type} again`
    }
    const came = misplaced(type, event, places)
    if (came !== undefined) return `${came}: ${brief(event)}`
  }
  return undefined
}

/** Why an event is out of order, if it is. Otherwise records its effect. */
function misplaced(type: string, event: Json, places: Map<unknown, Place>): Finding {
  const index = event['output_index']
  const place = places.get(index)
  if (type === 'response.output_item.added') {
    if (place !== undefined) return 'an item that was added before'
    places.set(index, { isOpen: true, parts: new Map() })
    return undefined
  }
  if (type === 'response.completed') {
    return [...places.values()].some(({ isOpen }) => isOpen) ? 'an item is still open' : undefined
  }
  if (index === undefined) return undefined
  if (place === undefined || !place.isOpen) return 'its item is not open'
  if (type === 'response.output_item.done') {
    place.isOpen = false
    const isClosed = [...place.parts.values()].every((state) => state === 'closed')
    return isClosed ? undefined : 'a part is still open'
  }
  return misplacedPart(type, event, place)
}

function misplacedPart(type: string, event: Json, { parts }: Place): Finding {
  const [, text, step] = PART_EVENT.exec(type) ?? []
  if (step === undefined) return undefined
  const key = event['content_index'] ?? `summary ${shown(event['summary_index'])}`
  const state = parts.get(key)
  const isPart = type.includes('_part.')
  // Some servers send reasoning without parts.
  if (!isPart && text === undefined && state === undefined) return undefined
  const wanted = isPart && step === 'added' ? undefined : isPart ? 'said' : 'open'
  if (state !== wanted)
    return isPart && step === 'added' ? 'a part again' : `its part is ${state ?? 'not open'}`
  const next = isPart ? (step === 'added' ? 'open' : 'closed') : step === 'done' ? 'said' : 'open'
  parts.set(key, next)
  return undefined
}

function findIndex(stream: SseRecording): Finding {
  const added = ofType(stream, 'response.output_item.added').map((event) => event['output_index'])
  return added.every((index, at) => index === at) ? undefined : added.map(shown).join(', ')
}

function itemIdsFault(stream: SseRecording): Fault | undefined {
  const ids = new Map<unknown, unknown>()
  for (const event of eventsOf(stream)) {
    const { type, output_index: index, item, item_id } = event
    if (index === undefined || !TYPES.has(shown(type))) continue
    const id = isRecord(item) ? item['id'] : item_id
    if (!ids.has(index)) {
      const isTaken = [...ids.values()].includes(id)
      if (isTaken) return { expected: 'a distinct id for each item', came: `${shown(id)} again` }
      ids.set(index, id)
      const fault = isRecord(item) ? itemIdFault(item) : undefined
      if (fault !== undefined) return fault
    }
    const first = ids.get(index)
    const expected = 'one id for all events of an item'
    if (first !== id) return { expected, came: `${shown(first)}, then ${shown(id)}` }
  }
  return undefined
}

function findText(stream: SseRecording): Finding {
  for (const { output_index: index, item } of doneEvents(stream)) {
    if (!isRecord(item)) continue
    const events = eventsOf(stream).filter((event) => event['output_index'] === index)
    const parts = item['type'] === 'message' ? recordsIn(item['content']) : [item]
    for (const [content, part] of parts.entries()) {
      const [first, ...others] = repeatedTexts(part, content, events)
      const other = others.find((text) => text !== first)
      if (other !== undefined) return `${shown(first)}, then ${shown(other)}`
    }
  }
  return undefined
}

/** The texts of a part or a call: what its deltas add up to, and every event that repeats it. */
function repeatedTexts(part: Json, at: number, events: readonly Json[]): unknown[] {
  if (part['type'] === 'output_text') {
    const own = events.filter((event) => event['content_index'] === at)
    const deltas = own.filter(({ type }) => type === 'response.output_text.delta')
    const done = own.filter(({ type }) => type === 'response.output_text.done')
    const closed = own.filter(({ type }) => type === 'response.content_part.done')
    return [
      textsIn(deltas).join(''),
      ...done.map(({ text }) => text),
      ...closed.map((event) => (isRecord(event['part']) ? event['part']['text'] : undefined)),
      part['text'],
    ]
  }
  if (part['type'] !== 'function_call') return []
  const deltas = events.filter(({ type }) => type === 'response.function_call_arguments.delta')
  const done = events.filter(({ type }) => type === 'response.function_call_arguments.done')
  const whole = [...done.map((event) => event['arguments']), part['arguments']]
  // Some servers send arguments at the end only.
  return deltas.length === 0 ? whole : [textsIn(deltas).join(''), ...whole]
}

function findTerminal(stream: SseRecording): Finding {
  const terminals = terminalsOf(stream)
  const last = eventsOf(stream).at(-1)
  if (terminals.length === 0) return `0 of them, the last is ${brief(last)}`
  if (terminals.length > 1) return `${terminals.length} of them`
  return last === terminals[0] ? undefined : `after it: ${brief(last)}`
}

function statusFault(stream: SseRecording): Fault | undefined {
  const [created] = responsesIn(stream)
  if (created !== undefined && !['queued', 'in_progress'].includes(shown(created['status']))) {
    const came = `status: ${shown(created['status'])} in the first event`
    return { expected: 'queued or in_progress at first', came }
  }
  const terminal = terminalsOf(stream).at(-1)
  const response = finalResponse(stream)
  if (terminal === undefined || response === undefined) return undefined
  const { status, completed_at, incomplete_details, error } = response
  switch (terminal['type']) {
    case 'response.completed': {
      const expected = 'status: "completed" and completed_at'
      // Another rule reports a missing member.
      const isDated = completed_at === undefined || isCount(completed_at)
      if (status === 'completed' && isDated) return undefined
      return { expected, came: shown({ status, completed_at }) }
    }
    case 'response.incomplete': {
      const expected = 'status: "incomplete" and incomplete_details'
      const isCut = status === 'incomplete' || status === 'cancelled'
      if (isCut && isRecord(incomplete_details)) return undefined
      return { expected, came: shown({ status, incomplete_details }) }
    }
    default:
      if (status === 'failed' && isRecord(error)) return undefined
      return { expected: 'status: "failed" and an error', came: shown({ status, error }) }
  }
}

export const missingTextFault = expecting<SseRecording>(
  'text in response.output_text.delta',
  (stream) =>
    ofType(stream, 'response.output_text.delta').length > 0 ? undefined : 'no text at all',
)

export const argumentsFault = expecting<SseRecording>(
  'arguments that are a JSON object',
  (stream) => {
    const other = callsOf(stream).find(
      ({ arguments: args }) => typeof args !== 'string' || parseJsonObject(args) === undefined,
    )
    return other && shown(other['arguments'])
  },
)

/** Events as a client compares them: without padding and heartbeats. */
export function comparable(stream: SseRecording): Json[] {
  return eventsOf(stream).map(({ obfuscation: _padding, ...event }) => event)
}

export function numberOf(event: Json | undefined): number {
  const number = event?.['sequence_number']
  return typeof number === 'number' ? number : -1
}

export function measurements(stream: SseRecording): Check[] {
  const usage = finalResponse(stream)?.['usage']
  const tokens = isRecord(usage) ? usage['output_tokens'] : undefined
  return measure(stream, tokens, ({ json }) => isText(json['delta']))
}
