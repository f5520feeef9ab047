import { isRecord } from '../../../protocol/json.ts'
import { type Fault, type Rule, shown } from './fault.ts'
import { type Chunk, type DecodedStream, deltaOf, finishesOf, textsOf } from './recording.ts'

type StreamRule = Rule<DecodedStream>

/** What holds for every stream, whatever was asked. */
export const STREAM_RULES: readonly (readonly [name: string, fine: string, rule: StreamRule])[] = [
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
const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0

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
function roleFault({ chunks }: DecodedStream): Fault | undefined {
  const deltas = chunks.flatMap(({ choices }) => choices).map(deltaOf)
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
export function isWhole(stream: DecodedStream): boolean {
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

export function isUsage(usage: unknown): boolean {
  if (!isRecord(usage)) return false
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  return [prompt, completion, total].every(isCount)
}
