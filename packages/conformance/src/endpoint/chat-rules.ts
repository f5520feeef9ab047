import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { Check } from './check.ts'
import { frameFault } from './event-framing.ts'
import {
  came,
  expecting,
  type Fault,
  type Field,
  type Finding,
  fieldFault,
  isCount,
  isText,
  isWord,
  type Json,
  measure,
  type NamedRule,
  objectFault,
  type PlainAnswer,
  refusalRule,
  rule,
  shown,
  typeFault,
  utf8Rule,
} from './fault.ts'
import { type NamedEvent, recordsIn, type SseRecording } from './recording.ts'

const choicesOf = ({ json }: NamedEvent): Record<string, unknown>[] => recordsIn(json['choices'])

function deltasOf(events: readonly NamedEvent[]): Json[] {
  return events.flatMap(choicesOf).map(({ delta }) => (isRecord(delta) ? delta : {}))
}

function finishesOf({ events }: SseRecording) {
  return events.flatMap((event, at) =>
    choicesOf(event).flatMap(({ finish_reason: reason = null }) =>
      reason === null ? [] : [{ reason, at }],
    ),
  )
}

function textsOf({ events }: SseRecording): string[] {
  const contents = deltasOf(events).map(({ content }) => content)
  return contents.filter(isText).filter((content) => content !== '')
}

export const modelsFault = expecting<PlainAnswer>(
  '{"object":"list","data":[{"id":"…","object":"model"}]}',
  (answer) => {
    if (answer.status !== 200) return came(answer)
    const isList = parseJsonObject(answer.body)?.['object'] === 'list'
    return isList && modelsOf(answer.body) !== undefined ? undefined : shown(answer.body)
  },
)

export function modelsOf(body: string): string[] | undefined {
  const data = parseJsonObject(body)?.['data']
  if (!Array.isArray(data)) return undefined
  const ids = data.map((each: unknown) => (isRecord(each) ? each['id'] : undefined))
  return ids.every((id) => typeof id === 'string') ? ids : undefined
}

function isUsage(usage: unknown): boolean {
  if (!isRecord(usage)) return false
  const { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total } = usage
  return [prompt, completion, total].every(isCount)
}

function fieldsOf(json: Json): readonly Field[] {
  const { id, object, created, model, choices, usage } = json
  const list: readonly unknown[] = Array.isArray(choices) ? choices : []
  const { index, message, finish_reason: finish } = isRecord(list[0]) ? list[0] : {}
  const { role, content } = isRecord(message) ? message : {}
  return [
    ['id', id, 'a text', isWord],
    ['object', object, '"chat.completion"', (value) => value === 'chat.completion'],
    ['created', created, 'whole seconds', Number.isSafeInteger],
    ['model', model, 'a text', isWord],
    ['choices', choices, 'a list of one', () => list.length === 1],
    ['choices[0].index', index, '0', (value) => value === 0],
    ['choices[0].message.role', role, '"assistant"', (value) => value === 'assistant'],
    ['choices[0].message.content', content, 'a text', (value) => typeof value === 'string'],
    ['choices[0].finish_reason', finish, 'a text', isWord],
    ['usage', usage, 'counts of tokens', isUsage],
  ]
}

export function answerFault(answer: PlainAnswer): Fault | undefined {
  return objectFault(answer, (json) => fieldFault(fieldsOf(json)))
}

export const refusalFault = refusalRule(
  '{"error":{"message":"…"}}',
  ({ error }) => isRecord(error) && isWord(error['message']),
)

const OBJECT = 'chat.completion.chunk'

export const STREAM_RULES: readonly NamedRule[] = [
  ['stream type', 'text/event-stream', typeFault],
  ['stream framing', 'complete events without names, each a JSON object', framingFault],
  utf8Rule(textsOf),
  // Some servers return 200 and put the error into a chunk, where clients overlook it.
  rule('stream errors', 'none', 'an answer', (stream) => {
    const error = errorIn(stream)
    return error === undefined ? undefined : `an error in a chunk: ${shown(error)}`
  }),
  rule('stream object', OBJECT, `object: "${OBJECT}" in every chunk`, (stream) => {
    const other = answersOf(stream).find(({ json }) => json['object'] !== OBJECT)
    return other && `object: ${shown(other.json['object'])}`
  }),
  ...(['id', 'created', 'model'] as const).map(constant),
  rule(
    'stream choices',
    'a list in every chunk',
    'choices in every chunk, a list that may be empty',
    (stream) => {
      const other = answersOf(stream).find(({ json }) => !Array.isArray(json['choices']))
      return (
        other && `a chunk whose choices are ${shown(other.json['choices'])}: ${shownChunk(other)}`
      )
    },
  ),
  rule('stream index', '0 in every choice', 'index: 0 in every choice', ({ events }) => {
    const other = events.flatMap(choicesOf).find(({ index }) => index !== 0)
    return other && `index: ${shown(other['index'])}`
  }),
  ['stream role', 'assistant, in the first chunk', roleFault],
  ['stream finish', 'once, and nothing after it', finishFault],
  rule('stream done', '[DONE], and nothing after it', 'data: [DONE] as the last event', findEnd),
  rule(
    'stream close',
    'closed by the server at the end',
    'the end of the response after [DONE]',
    ({ ending, hasDone }) => {
      if (ending === 'closed' || !hasDone) return undefined
      return ending === 'left open' ? 'the connection stayed open' : `it was ${ending}`
    },
  ),
  rule(
    'usage unasked',
    'not sent',
    'no usage without stream_options.include_usage',
    ({ events, asksUsage }) => {
      const usage = events.find(({ json }) => isRecord(json['usage']))
      return asksUsage || usage === undefined ? undefined : shownChunk(usage)
    },
  ),
]

function framingFault(stream: SseRecording): Fault | undefined {
  const name = stream.names.find((each) => each !== 'error')
  const fault = { expected: 'events without a name', came: `event: ${shown(name)}` }
  return frameFault(stream, name === undefined ? undefined : fault)
}

function errorIn({ events }: SseRecording): unknown {
  return events.map(({ json }) => json['error']).find((error) => error)
}

const answersOf = ({ events }: SseRecording) => events.filter(({ json }) => !json['error'])

/** Without what all of them have. */
function shownChunk(chunk: NamedEvent | undefined): string {
  if (chunk === undefined) return 'nothing'
  const { id: _id, object: _object, created: _created, model: _model, ...rest } = chunk.json
  return shown(rest)
}

function constant(field: 'id' | 'created' | 'model'): NamedRule {
  const expected = `the same ${field} in every chunk`
  return rule(`stream ${field}`, 'the same in all chunks', expected, (stream) => {
    const values = [...new Set(answersOf(stream).map(({ json }) => json[field]))]
    if (values.length <= 1 && values.every(field === 'created' ? isCount : isWord)) return undefined
    const some = values.slice(0, 3).map(shown).join(', ')
    return values.length > 1 ? `${values.length} of them: ${some}` : some
  })
}

const ROLES = new Set<unknown>([undefined, null, 'assistant'])

/** Some clients drop content before the role, others chunks with an empty role. */
function roleFault(stream: SseRecording): Fault | undefined {
  const deltas = deltasOf(stream.events)
  const [first] = deltas
  if (first !== undefined && first['role'] !== 'assistant') {
    return { expected: 'role: "assistant" in the first delta', came: `delta: ${shown(first)}` }
  }
  const other = deltas.find(({ role }) => !ROLES.has(role))
  return other && { expected: 'no other role', came: `delta: ${shown(other)}` }
}

const REASONS: unknown[] = ['stop', 'length', 'tool_calls', 'content_filter', 'function_call']

function finishFault(stream: SseRecording): Fault | undefined {
  const expected = 'one finish_reason, in the last chunk that has a choice'
  const { events: chunks, hasDone, ending } = stream
  const finishes = finishesOf(stream)
  const [first] = finishes
  if (first === undefined) {
    // An error also ends a stream; another rule reports it.
    if (errorIn(stream) !== undefined) return undefined
    const how = ending === 'closed' ? '' : ` (${ending})`
    const last = hasDone ? '[DONE]' : `${shownChunk(chunks.at(-1))}${how}`
    return { expected, came: `none; the stream ended with ${last}` }
  }
  if (finishes.length > 1) return { expected, came: `${finishes.length} of them` }
  if (!REASONS.includes(first.reason)) {
    return { expected: `one of ${REASONS.join(', ')}`, came: shown(first.reason) }
  }
  const later = chunks.slice(first.at + 1).find((chunk) => choicesOf(chunk).length > 0)
  return later && { expected, came: `after it: ${shownChunk(later)}` }
}

function findEnd(stream: SseRecording): Finding {
  const { hasDone, rest, events } = stream
  if (hasDone) return rest.length === 0 ? undefined : `after it: ${shown(rest[0])}`
  // The finish rule reports a truncated stream.
  if (finishesOf(stream).length === 0 && errorIn(stream) === undefined) return undefined
  return `none; the last is ${shownChunk(events.at(-1))}`
}

export function textFault(stream: SseRecording): Fault | undefined {
  const texts = textsOf(stream)
  if (texts.length === 0) return { expected: 'text in delta.content', came: 'no text at all' }
  // Whether each part is the accumulated text rather than a delta.
  const isRepeating =
    texts.length >= 3 && texts.every((text, at) => at === 0 || text.startsWith(texts[at - 1] ?? ''))
  if (!isRepeating) return undefined
  const expected = 'deltas that each add to the text'
  return { expected, came: `deltas that repeat it: ${texts.slice(0, 3).map(shown).join(', ')}` }
}

function isWhole(stream: SseRecording): boolean {
  return finishesOf(stream).length > 0 && errorIn(stream) === undefined
}

export function usageFault(stream: SseRecording): Fault | undefined {
  const expected = 'one chunk with usage and choices: [] between the finish and [DONE]'
  const chunks = stream.events.filter(({ json }) => isRecord(json['usage']))
  const [first] = chunks
  if (first === undefined) {
    return isWhole(stream) ? { expected, came: 'no chunk with usage' } : undefined
  }
  if (chunks.length > 1) return { expected, came: `${chunks.length} chunks with usage` }
  if (choicesOf(first).length > 0) return { expected, came: `usage in ${shownChunk(first)}` }
  const { usage } = first.json
  if (!isUsage(usage)) return { expected: 'counts of tokens', came: `usage: ${shown(usage)}` }
  const [finish] = finishesOf(stream)
  const isLast = finish === undefined || stream.events.indexOf(first) > finish.at
  return isLast ? undefined : { expected, came: 'usage before the finish_reason' }
}

type Fragment = Readonly<Record<string, unknown>>

interface ToolCall {
  readonly id: unknown
  readonly index: unknown
  readonly fragments: Fragment[]
}

function fragmentsOf(stream: SseRecording): Fragment[] {
  return deltasOf(stream.events).flatMap(({ tool_calls: calls }) => recordsIn(calls))
}

/**
 * Assigns each fragment to the call that the server meant, even when it breaks the rules, so that one fault is
 * reported once: a new id opens a call, and a fragment without id and index belongs to the last one.
 */
export function callsOf(stream: SseRecording): ToolCall[] {
  const calls: ToolCall[] = []
  for (const fragment of fragmentsOf(stream)) {
    const { id, index } = fragment
    const call = isWord(id)
      ? calls.find((each) => each.id === id)
      : (calls.findLast((each) => each.index === index) ??
        (index === undefined ? calls.at(-1) : undefined))
    if (call === undefined) calls.push({ id, index, fragments: [fragment] })
    else call.fragments.push(fragment)
  }
  return calls
}

function functionIn(fragment: Fragment | undefined): Record<string, unknown> {
  const of = fragment?.['function']
  return isRecord(of) ? of : {}
}

export const TOOL_RULES: readonly NamedRule[] = [
  rule(
    'tool call',
    'id and name first',
    'id, type "function" and the name in the first fragment of a call',
    (stream) => {
      const openings = callsOf(stream).map(({ fragments }) => fragments[0])
      const other = openings.find((first) => {
        const { id, type } = first ?? {}
        return !isWord(id) || type !== 'function' || !isWord(functionIn(first)['name'])
      })
      return other && shown(other)
    },
  ),
  ['tool index', 'in every fragment', toolIndexFault],
  rule('tool arguments', 'a JSON object', 'fragments that add up to a JSON object', findArguments),
  rule('tool finish', 'tool_calls', 'finish_reason: "tool_calls"', (stream) => {
    const finish = finishesOf(stream).at(-1)
    return finish && finish.reason !== 'tool_calls' ? shown(finish.reason) : undefined
  }),
]

function toolIndexFault(stream: SseRecording): Fault | undefined {
  const other = fragmentsOf(stream).find(({ index }) => !Number.isSafeInteger(index))
  if (other) return { expected: 'index in every fragment of a call', came: shown(other) }
  const moved = callsOf(stream).find(({ index, fragments }) =>
    fragments.some((fragment) => fragment['index'] !== index),
  )
  return (
    moved && { expected: 'one index for all fragments of a call', came: shown(moved.fragments) }
  )
}

function findArguments(stream: SseRecording): Finding {
  if (!isWhole(stream)) return undefined
  const texts = callsOf(stream).map(({ fragments }) => {
    const parts = fragments.map((fragment) => functionIn(fragment)['arguments'])
    return parts.filter((part) => typeof part === 'string').join('')
  })
  const other = texts.find((text) => parseJsonObject(text) === undefined)
  return other === undefined ? undefined : shown(other)
}

/** Parallel calls need distinct indexes; clients merge fragments with the same index. */
export const parallelFault = expecting<SseRecording>('a distinct index for each call', (stream) => {
  const indices = callsOf(stream).map(({ index }) => index)
  // Another rule reports a missing index.
  const known = indices.filter((index) => index !== undefined)
  return new Set(known).size === known.length ? undefined : `the indices ${indices.join(', ')}`
})

export function measurements(stream: SseRecording): Check[] {
  const usage = stream.events.map(({ json }) => json['usage']).findLast(isRecord)
  const tokens = usage?.['completion_tokens']
  return measure(stream, tokens, hasText, 'chunks')
}

function hasText(chunk: NamedEvent): boolean {
  return deltasOf([chunk]).some(({ content, reasoning, reasoning_content: thought }) =>
    [content, reasoning, thought].some(isWord),
  )
}
