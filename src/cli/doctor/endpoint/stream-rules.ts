import { isRecord, parseJsonObject } from '../../../protocol/json.ts'
import { type Check, ok, skipped } from '../check.ts'
import { type Fault, isCount, isUsage, shown } from './answer-rules.ts'
import {
  type Chunk,
  type DecodedStream,
  deltasOf,
  finishesOf,
  recordsIn,
  textsOf,
} from './recording.ts'

/** What is wrong with a stream, or nothing. */
export type StreamRule = (stream: DecodedStream) => Fault | undefined

/** `fine` is what a check says when nothing is wrong. */
type NamedRule = readonly [name: string, fine: string, rule: StreamRule]

/** What holds for every stream, whatever was asked. */
export const STREAM_RULES: readonly NamedRule[] = [
  ['stream type', 'text/event-stream', typeFault],
  ['stream framing', 'whole events without names, each a JSON object', framingFault],
  ['stream utf-8', 'no character was cut', utf8Fault],
  ['stream errors', 'none', errorFault],
  ['stream object', 'chat.completion.chunk', objectFault],
  ['stream id', 'one for all chunks', (stream) => constantFault(stream, 'id', isText)],
  ['stream created', 'one for all chunks', (stream) => constantFault(stream, 'created', isCount)],
  ['stream model', 'one for all chunks', (stream) => constantFault(stream, 'model', isText)],
  ['stream choices', 'a list in every chunk', choicesFault],
  ['stream index', '0 in every choice', indexFault],
  ['stream role', 'assistant, in the first chunk', roleFault],
  ['stream finish', 'once, and nothing after it', finishFault],
  ['stream done', '[DONE], and nothing after it', doneFault],
  ['stream close', 'closed by the server at its end', closeFault],
  ['usage unasked', 'not sent', unaskedUsageFault],
]

function typeFault({ contentType }: DecodedStream): Fault | undefined {
  if (/^text\/event-stream(;|$)/i.test(contentType.trim())) return undefined
  return { expected: 'content-type: text/event-stream', came: shown(contentType || undefined) }
}

function framingFault({ unreadable, names, isCut }: DecodedStream): Fault | undefined {
  if (unreadable !== undefined) {
    return { expected: 'data: with one JSON object', came: `data: ${shown(unreadable)}` }
  }
  const name = names.find((each) => each !== 'error')
  if (name !== undefined)
    return { expected: 'events without a name', came: `event: ${shown(name)}` }
  if (!isCut) return undefined
  return { expected: 'a blank line after every event', came: 'a last event without one' }
}

const REPLACEMENT = '\uFFFD'

function utf8Fault(stream: DecodedStream): Fault | undefined {
  const expected = 'whole characters in UTF-8'
  const decoder = new TextDecoder('utf-8', { fatal: true })
  try {
    for (const { bytes } of stream.reads) decoder.decode(bytes, { stream: true })
    decoder.decode()
  } catch {
    return { expected, came: 'bytes that are no UTF-8' }
  }
  const broken = textsOf(stream).find((text) => text.includes(REPLACEMENT))
  return broken === undefined ? undefined : { expected, came: `${shown(broken)} in a delta` }
}

/** Some answer with 200 and put the error into a chunk, where it is easily overlooked. */
function errorFault(stream: DecodedStream): Fault | undefined {
  const error = errorIn(stream)
  if (error === undefined) return undefined
  return { expected: 'an answer', came: `an error in a chunk: ${shown(error)}` }
}

function errorIn({ chunks }: DecodedStream): unknown {
  return chunks.map(({ json }) => json['error']).find((error) => error)
}

function objectFault({ chunks }: DecodedStream): Fault | undefined {
  const expected = 'object: "chat.completion.chunk" in every chunk'
  const other = answersOf(chunks).find(({ json }) => json['object'] !== 'chat.completion.chunk')
  return other && { expected, came: `object: ${shown(other.json['object'])}` }
}

/** Without what all of them have. */
function shownChunk(chunk: Chunk | undefined): string {
  if (chunk === undefined) return 'nothing'
  const { id: _id, object: _object, created: _created, model: _model, ...rest } = chunk.json
  return shown(rest)
}

/** Without those that carry an error and nothing else. */
function answersOf(chunks: DecodedStream['chunks']): DecodedStream['chunks'] {
  return chunks.filter(({ json }) => !json['error'])
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== ''

function constantFault(
  { chunks }: DecodedStream,
  field: string,
  suits: (value: unknown) => boolean,
): Fault | undefined {
  const values = [...new Set(answersOf(chunks).map(({ json }) => json[field]))]
  if (values.length <= 1 && values.every(suits)) return undefined
  const some = values.slice(0, 3).map(shown).join(', ')
  return {
    expected: `the same ${field} in every chunk`,
    came: values.length > 1 ? `${values.length} of them: ${some}` : some,
  }
}

function choicesFault({ chunks }: DecodedStream): Fault | undefined {
  const other = answersOf(chunks).find(({ json }) => !Array.isArray(json['choices']))
  if (other === undefined) return undefined
  return {
    expected: 'choices in every chunk, a list that may be empty',
    came: `a chunk whose choices are ${shown(other.json['choices'])}: ${shownChunk(other)}`,
  }
}

function indexFault({ chunks }: DecodedStream): Fault | undefined {
  const other = chunks.flatMap(({ choices }) => choices).find(({ index }) => index !== 0)
  return other && { expected: 'index: 0 in every choice', came: `index: ${shown(other['index'])}` }
}

const ROLES = new Set<unknown>([undefined, null, 'assistant'])

/** Some clients drop what comes before the role, and some all that has an empty one. */
function roleFault(stream: DecodedStream): Fault | undefined {
  const deltas = deltasOf(stream)
  const [first] = deltas
  if (first !== undefined && first['role'] !== 'assistant') {
    return { expected: 'role: "assistant" in the first delta', came: `delta: ${shown(first)}` }
  }
  const other = deltas.find(({ role }) => !ROLES.has(role))
  return other && { expected: 'no other role', came: `delta: ${shown(other)}` }
}

const REASONS: readonly unknown[] = [
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'function_call',
]

function finishFault(stream: DecodedStream): Fault | undefined {
  const expected = 'one finish_reason, in the last chunk that has a choice'
  const finishes = finishesOf(stream)
  const [first] = finishes
  // An error ends a stream as well; it is a fault of its own.
  if (first === undefined) {
    return errorIn(stream) === undefined
      ? { expected, came: `none; the stream ended with ${lastOf(stream)}` }
      : undefined
  }
  if (finishes.length > 1) return { expected, came: `${finishes.length} of them` }
  if (!REASONS.includes(first.reason)) {
    return { expected: `one of ${REASONS.join(', ')}`, came: shown(first.reason) }
  }
  const later = stream.chunks.slice(first.at + 1).find(({ choices }) => choices.length > 0)
  return later && { expected, came: `after it: ${shownChunk(later)}` }
}

function lastOf({ hasDone, chunks, ending }: DecodedStream): string {
  if (hasDone) return '[DONE]'
  const how = ending === 'closed' ? '' : ` (${ending})`
  return `${shownChunk(chunks.at(-1))}${how}`
}

function doneFault(stream: DecodedStream): Fault | undefined {
  const expected = 'data: [DONE] as the last event'
  const { hasDone, rest } = stream
  if (hasDone)
    return rest.length === 0 ? undefined : { expected, came: `after it: ${shown(rest[0])}` }
  // What was cut off before is said by the rule about its finish.
  if (finishesOf(stream).length === 0 && errorIn(stream) === undefined) return undefined
  return { expected, came: `none; the last is ${shownChunk(stream.chunks.at(-1))}` }
}

function closeFault({ ending, hasDone }: DecodedStream): Fault | undefined {
  if (ending === 'closed' || !hasDone) return undefined
  const came = ending === 'left open' ? 'the connection stayed open' : `it was ${ending}`
  return { expected: 'the end of the answer after [DONE]', came }
}

function unaskedUsageFault({ chunks, asksUsage }: DecodedStream): Fault | undefined {
  if (asksUsage) return undefined
  const told = chunks.find(({ json }) => isRecord(json['usage']))
  if (told === undefined) return undefined
  return { expected: 'no usage without stream_options.include_usage', came: shownChunk(told) }
}

/** The text of the plain stream. */
export function textFault(stream: DecodedStream): Fault | undefined {
  const texts = textsOf(stream)
  if (texts.length === 0) return { expected: 'text in delta.content', came: 'no text at all' }
  if (!isRepeating(texts)) return undefined
  const expected = 'deltas that each add to the text'
  return { expected, came: `deltas that repeat it: ${texts.slice(0, 3).map(shown).join(', ')}` }
}

/** Whether each part is the whole text so far, and not what came new. */
function isRepeating(texts: readonly string[]): boolean {
  if (texts.length < 3) return false
  return texts.every((text, at) => at === 0 || text.startsWith(texts[at - 1] ?? ''))
}

/** Whether it came to an end, as far as can be told: what was cut off is no use for the rules about the whole. */
function isWhole(stream: DecodedStream): boolean {
  return finishesOf(stream).length > 0 && errorIn(stream) === undefined
}

/** The stream for which usage was asked. */
export function usageFault(stream: DecodedStream): Fault | undefined {
  const expected = 'one chunk with usage and choices: [] between the finish and [DONE]'
  const told = stream.chunks.filter(({ json }) => isRecord(json['usage']))
  const [first] = told
  if (first === undefined)
    return isWhole(stream) ? { expected, came: 'no chunk with usage' } : undefined
  if (told.length > 1) return { expected, came: `${told.length} chunks with usage` }
  if (first.choices.length > 0) return { expected, came: `usage in ${shownChunk(first)}` }
  const { usage } = first.json
  if (!isUsage(usage)) return { expected: 'counts of tokens', came: `usage: ${shown(usage)}` }
  const [finish] = finishesOf(stream)
  const isLast = finish === undefined || stream.chunks.indexOf(first) > finish.at
  return isLast ? undefined : { expected, came: 'usage before the finish_reason' }
}

type Fragment = Readonly<Record<string, unknown>>

/** A call with the fragments that are meant for it. */
interface Call {
  readonly id: unknown
  readonly index: unknown
  readonly fragments: Fragment[]
}

function fragmentsOf(stream: DecodedStream): Fragment[] {
  return deltasOf(stream).flatMap(({ tool_calls: calls }) => recordsIn(calls))
}

/**
 * Gives each fragment to the call that its server had in mind, also where the rules are broken, so that one
 * fault is not taken for several: a new id opens a call, and what has neither id nor index is for the last.
 */
export function callsOf(stream: DecodedStream): Call[] {
  const calls: Call[] = []
  for (const fragment of fragmentsOf(stream)) {
    const call = callFor(fragment, calls)
    if (call === undefined) {
      calls.push({ id: fragment['id'], index: fragment['index'], fragments: [fragment] })
    } else {
      call.fragments.push(fragment)
    }
  }
  return calls
}

function callFor({ id, index }: Fragment, calls: readonly Call[]): Call | undefined {
  const hasId = typeof id === 'string' && id !== ''
  if (hasId) return calls.find((call) => call.id === id)
  return (
    calls.findLast((call) => call.index === index) ??
    (index === undefined ? calls.at(-1) : undefined)
  )
}

/** Each call opens with its id, its type and the name of the function. */
function openingFault(stream: DecodedStream): Fault | undefined {
  for (const { fragments } of callsOf(stream)) {
    const [first] = fragments
    const { id, type } = first ?? {}
    const isOpening = typeof id === 'string' && id !== '' && type === 'function' && nameIn(first)
    if (!isOpening) {
      const expected = 'id, type "function" and the name in the first fragment of a call'
      return { expected, came: shown(first) }
    }
  }
  return undefined
}

function nameIn(fragment: Fragment | undefined): boolean {
  const of = fragment?.['function']
  return isRecord(of) && typeof of['name'] === 'string' && of['name'] !== ''
}

function toolIndexFault(stream: DecodedStream): Fault | undefined {
  const other = fragmentsOf(stream).find(({ index }) => !Number.isSafeInteger(index))
  if (other !== undefined)
    return { expected: 'index in every fragment of a call', came: shown(other) }
  const moved = callsOf(stream).find(({ index, fragments }) =>
    fragments.some((fragment) => fragment['index'] !== index),
  )
  return (
    moved && { expected: 'one index for all fragments of a call', came: shown(moved.fragments) }
  )
}

function argumentsFault(stream: DecodedStream): Fault | undefined {
  if (!isWhole(stream)) return undefined
  for (const { fragments } of callsOf(stream)) {
    const text = fragments.map(argumentsIn).join('')
    if (parseJsonObject(text) === undefined) {
      return { expected: 'fragments that are a JSON object together', came: shown(text) }
    }
  }
  return undefined
}

function argumentsIn(fragment: Fragment): string {
  const of = fragment['function']
  return isRecord(of) && typeof of['arguments'] === 'string' ? of['arguments'] : ''
}

function toolFinishFault(stream: DecodedStream): Fault | undefined {
  const finish = finishesOf(stream).at(-1)
  if (finish === undefined || finish.reason === 'tool_calls') return undefined
  return { expected: 'finish_reason: "tool_calls"', came: shown(finish.reason) }
}

export const TOOL_RULES: readonly NamedRule[] = [
  ['tool call', 'id and name first', openingFault],
  ['tool index', 'in every fragment', toolIndexFault],
  ['tool arguments', 'a JSON object', argumentsFault],
  ['tool finish', 'tool_calls', toolFinishFault],
]

/** Several calls at once need an index each; clients put together what has the same. */
export function parallelFault(stream: DecodedStream): Fault | undefined {
  const indices = callsOf(stream).map(({ index }) => index)
  // That one is missing is a fault of its own.
  const known = indices.filter((index) => index !== undefined)
  if (new Set(known).size === known.length) return undefined
  return {
    expected: 'an index of its own for each call',
    came: `the indices ${indices.join(', ')}`,
  }
}

/** So few may well come together. */
const MANY_CHUNKS = 8

/** What a stream tells beside right and wrong. */
export function measurements(stream: DecodedStream): Check[] {
  return [firstToken(stream), speed(stream), pace(stream)]
}

/** When each chunk with text came. */
function timesOf({ chunks }: DecodedStream): number[] {
  const withText = chunks.filter((chunk) =>
    deltasOf({ chunks: [chunk] }).some(({ content, reasoning, reasoning_content: thought }) =>
      [content, reasoning, thought].some(isText),
    ),
  )
  return withText.map(({ atMs }) => atMs)
}

function firstToken(stream: DecodedStream): Check {
  const [first] = timesOf(stream)
  if (first === undefined) return skipped('first token', 'there was none')
  return ok('first token', `after ${Math.round(first)} ms`)
}

function speed(stream: DecodedStream): Check {
  const name = 'speed'
  const times = timesOf(stream)
  const ms = (times.at(-1) ?? 0) - (times[0] ?? 0)
  const usage = stream.chunks.map(({ json }) => json['usage']).findLast(isRecord)
  const tokens = usage?.['completion_tokens']
  if (typeof tokens !== 'number') return skipped(name, 'the tokens were not counted')
  if (ms === 0) return ok(name, `${tokens} tokens at once`)
  return ok(name, `${((tokens / ms) * 1000).toFixed(1)} tokens in a second`)
}

/** Whether chunks come when they are made, or something on the way keeps them back. */
function pace({ chunks, reads }: DecodedStream): Check {
  const found = `${chunks.length} chunks in ${reads.length === 1 ? 'one read' : `${reads.length} reads`}`
  if (reads.length > 1 || chunks.length < MANY_CHUNKS) return ok('pace', found)
  return ok('pace', `${found}: the server, or a proxy before it, may keep them back`)
}
