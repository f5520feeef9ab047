import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import type { Check } from './check.ts'
import { closeRule, framingFault, typeOf, typesRule } from './event-framing.ts'
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
  jsonIn,
  measure,
  type NamedRule,
  objectFault,
  type PlainAnswer,
  refusalRule,
  rule,
  shown,
  type Test,
  typeFault,
  utf8Rule,
} from './fault.ts'
import type { Answer } from './http.ts'
import { recordsIn, type SseRecording } from './recording.ts'

const TYPE = /^(?:(?:message|content_block)_(?:start|delta|stop)|ping|error)$/

function eventsOf({ events }: SseRecording): Json[] {
  return events.filter((event) => typeOf(event) !== 'ping').map(({ json }) => json)
}

function ofType(stream: SseRecording, type: string): Json[] {
  return eventsOf(stream).filter((event) => event['type'] === type)
}

function partOf(event: Json | undefined, name: string): Json {
  const part = event?.[name]
  return isRecord(part) ? part : {}
}

export function startedMessage(stream: SseRecording): Json {
  return partOf(ofType(stream, 'message_start')[0], 'message')
}

function isComplete(stream: SseRecording): boolean {
  return ofType(stream, 'message_stop').length > 0 && ofType(stream, 'error').length === 0
}

function startedBlocks(stream: SseRecording): Json[] {
  return ofType(stream, 'content_block_start').map((event) => partOf(event, 'content_block'))
}

export function callsOf(stream: SseRecording): Json[] {
  return startedBlocks(stream).filter(({ type }) => type === 'tool_use')
}

function deltasOf(stream: SseRecording): Json[] {
  return ofType(stream, 'content_block_delta').map((event) => partOf(event, 'delta'))
}

export function streamedText(stream: SseRecording): string {
  return deltasOf(stream)
    .map(({ text }) => text)
    .filter((text) => typeof text === 'string')
    .join('')
}

export const MESSAGES_RULES: readonly NamedRule[] = [
  ['stream type', 'text/event-stream', typeFault],
  ['stream framing', 'complete events, named by their type', framingFault],
  utf8Rule((stream) => deltasOf(stream).flatMap(Object.values).filter(isText)),
  rule('stream errors', 'none', 'an answer', (stream) => {
    const [error] = ofType(stream, 'error')
    return error && `an error: ${shown(error['error'])}`
  }),
  typesRule((type) => TYPE.test(type) || isHeartbeat(type)),
  rule(
    'stream heartbeats',
    'comments, or pings after message_start',
    'comments, or {"type":"ping"} after message_start',
    findHeartbeat,
  ),
  ['stream start', 'one message_start with an empty message', startFault],
  rule(
    'stream blocks',
    'one open at a time, with indexes in order',
    'blocks 0, 1, 2 …, each stopped before the next',
    findBlock,
  ),
  ['stream deltas', 'of the type of their block', deltaFault],
  rule(
    'stream end',
    'message_delta, then message_stop',
    'one message_delta, then one message_stop, last',
    findEnd,
  ),
  closeRule('message_stop', isComplete),
  ['stop reason', 'tool_use with a call, and only then', stopFault],
  rule('tool input', 'a JSON object', 'partial_json that is a JSON object', findInput),
  rule(
    'usage',
    'input and output tokens',
    'input_tokens in message_start, output_tokens in message_delta',
    findUsage,
  ),
]

const isHeartbeat = (type: string): boolean => /^(?:heartbeat|keep_?-?alive|ping)$/.test(type)

function findHeartbeat({ events }: SseRecording): Finding {
  const other = events.find((event) => isHeartbeat(typeOf(event)) && typeOf(event) !== 'ping')
  if (other !== undefined) return shown(other.json)
  const [first] = events
  return first && typeOf(first) === 'ping' ? 'a ping before message_start' : undefined
}

function startFault(stream: SseRecording): Fault | undefined {
  const expected = 'one message_start, first, with content: [] and stop_reason: null'
  const starts = ofType(stream, 'message_start')
  if (starts.length !== 1) return { expected, came: `${starts.length} of them` }
  const [first] = eventsOf(stream)
  if (first !== starts[0]) return { expected, came: `first ${shown(first?.['type'])}` }
  const message = startedMessage(stream)
  const { content, stop_reason: reason } = message
  const isEmpty = Array.isArray(content) && content.length === 0 && reason === null
  return isEmpty ? fieldFault(messageFields(message)) : { expected, came: shown(message) }
}

const isMessageId: Test = (value) => isText(value) && /^msg_./.test(value)

function messageFields({ id, type, role, model }: Json): readonly Field[] {
  return [
    ['id', id, 'a text that starts with msg_', isMessageId],
    ['type', type, '"message"', (value) => value === 'message'],
    ['role', role, '"assistant"', (value) => value === 'assistant'],
    ['model', model, 'a text', isWord],
  ]
}

function findBlock(stream: SseRecording): Finding {
  let open: unknown
  let next = 0
  for (const { type, index } of eventsOf(stream)) {
    if (type === 'content_block_start') {
      if (open !== undefined) return `a block inside block ${shown(open)}`
      if (index !== next) return `index: ${shown(index)} in place of ${next}`
      open = index
      next += 1
    } else if (type === 'content_block_delta' || type === 'content_block_stop') {
      if (index !== open) return `${type} of block ${shown(index)}`
      if (type === 'content_block_stop') open = undefined
    } else if (type === 'message_delta' && open !== undefined) {
      return `message_delta inside block ${shown(open)}`
    }
  }
  return undefined
}

const DELTAS: Readonly<Record<string, readonly string[]>> = {
  text: ['text_delta', 'citations_delta'],
  thinking: ['thinking_delta', 'signature_delta'],
  tool_use: ['input_json_delta'],
  server_tool_use: ['input_json_delta'],
}

const indexOf = ({ index }: Json): number => (typeof index === 'number' ? index : -1)

function deltaFault(stream: SseRecording): Fault | undefined {
  const blocks = startedBlocks(stream)
  for (const event of ofType(stream, 'content_block_delta')) {
    const type = shown(blocks[indexOf(event)]?.['type'])
    const known = Object.hasOwn(DELTAS, type) ? DELTAS[type] : undefined
    const { type: came } = partOf(event, 'delta')
    if (known !== undefined && !known.includes(shown(came))) {
      return { expected: `${known.join(' or ')} in a block of type ${type}`, came: shown(came) }
    }
  }
  // A call that arrives in one piece has no deltas.
  const grown = new Set(ofType(stream, 'content_block_delta').map(({ index }) => index))
  const call = blocks.find(
    ({ type, input }, at) => type === 'tool_use' && grown.has(at) && !isEmptyObject(input),
  )
  if (call === undefined) return undefined
  return { expected: 'tool_use that starts with input: {}', came: shown(call) }
}

const isEmptyObject = (value: unknown) => isRecord(value) && Object.keys(value).length === 0

function findEnd(stream: SseRecording): Finding {
  // An error also ends a stream; another rule reports it.
  if (ofType(stream, 'error').length > 0) return undefined
  const types = eventsOf(stream).map(({ type }) => shown(type))
  const ends = types.filter((type) => type === 'message_delta' || type === 'message_stop')
  const isRight =
    ends.join() === 'message_delta,message_stop' && types.slice(-2).join() === ends.join()
  return isRight ? undefined : `it ends with ${types.slice(-2).join(', ')}`
}

const REASONS: readonly unknown[] = [
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
]

const isTextReason: Test = (value) => value !== 'tool_use' && REASONS.includes(value)

const DONE_REASONS = new Set<unknown>(['end_turn', 'stop_sequence'])

function stopReason(stream: SseRecording): unknown {
  return partOf(ofType(stream, 'message_delta').at(-1), 'delta')['stop_reason']
}

function stopFault(stream: SseRecording): Fault | undefined {
  if (ofType(stream, 'message_delta').length === 0) return undefined
  const reason = stopReason(stream)
  if (!REASONS.includes(reason)) {
    return { expected: `one of ${REASONS.join(', ')}`, came: `stop_reason: ${shown(reason)}` }
  }
  const calls = callsOf(stream).length
  // A call may also be cut by the token limit.
  const isFine = calls > 0 ? !DONE_REASONS.has(reason) : reason !== 'tool_use'
  if (isFine) return undefined
  const expected = 'stop_reason: "tool_use" if and only if a tool is called'
  return { expected, came: `stop_reason: ${shown(reason)} with ${calls} calls` }
}

function findInput(stream: SseRecording): Finding {
  if (!isComplete(stream) || stopReason(stream) !== 'tool_use') return undefined
  for (const [at, block] of startedBlocks(stream).entries()) {
    if (block['type'] !== 'tool_use') continue
    const pieces = ofType(stream, 'content_block_delta')
      .filter(({ index }) => index === at)
      .map((event) => partOf(event, 'delta')['partial_json'])
    // A call without arguments may have no delta.
    const text = pieces.filter(isText).join('')
    if (text !== '' && parseJsonObject(text) === undefined) return shown(text)
    if (!isWord(block['id']) || !isWord(block['name'])) return shown(block)
  }
  return undefined
}

function findUsage(stream: SseRecording): Finding {
  const started = partOf(startedMessage(stream), 'usage')
  const end = ofType(stream, 'message_delta').at(-1)
  if (end === undefined) return undefined
  const { input_tokens: input } = started
  const { output_tokens: output } = partOf(end, 'usage')
  if (isCount(input) && isCount(output)) return undefined
  return shown({ input_tokens: input, output_tokens: output })
}

export const missingTextFault = expecting<SseRecording>('text in text_delta', (stream) =>
  streamedText(stream) === '' ? 'no text at all' : undefined,
)

export function measurements(stream: SseRecording): Check[] {
  const { output_tokens: tokens } = partOf(ofType(stream, 'message_delta').at(-1), 'usage')
  return measure(stream, tokens, (event) => typeOf(event) === 'content_block_delta')
}

export function textOf(message: Json | undefined): string {
  const texts = recordsIn(message?.['content']).map(({ text }) => text)
  return texts.filter(isText).join('')
}

export function messageFault(answer: PlainAnswer): Fault | undefined {
  return objectFault(answer, (message) => {
    const { content, stop_reason: reason, stop_sequence: sequence } = message
    const { input_tokens: input, output_tokens: output } = partOf(message, 'usage')
    return fieldFault([
      ...messageFields(message),
      ['content', content, 'a list with text', () => textOf(message) !== ''],
      ['stop_reason', reason, 'a reason other than tool_use', isTextReason],
      ['stop_sequence', sequence, 'null or a text', (value) => value === null || isText(value)],
      ['usage.input_tokens', input, 'a count', isCount],
      ['usage.output_tokens', output, 'a count', isCount],
    ])
  })
}

export const messagesModelsFault = expecting<PlainAnswer>(
  '{"data":[{"type":"model","id","display_name","created_at"}],"has_more","first_id","last_id"}',
  (answer) => {
    const { data, has_more: hasMore, first_id: first, last_id: last } = jsonIn(answer) ?? {}
    const models = recordsIn(data)
    const isList =
      answer.status === 200 &&
      Array.isArray(data) &&
      typeof hasMore === 'boolean' &&
      models.every(
        ({ type, id, display_name: name, created_at: createdAt }) =>
          type === 'model' && [id, name, createdAt].every(isWord),
      ) &&
      (first ?? undefined) === models[0]?.['id'] &&
      (last ?? undefined) === models.at(-1)?.['id']
    return isList ? undefined : came(answer)
  },
)

export const countFault = expecting<PlainAnswer>('{"input_tokens"}', (answer) =>
  answer.status === 200 && isCount(jsonIn(answer)?.['input_tokens']) ? undefined : came(answer),
)

/** Every response has it; support requests name it. */
export function requestIdFault(answer: Answer): Fault | undefined {
  const id = answer.headers.get('request-id')
  if (!id) return { expected: 'the header request-id', came: 'none' }
  const written = jsonIn(answer)?.['request_id']
  if (written === undefined || written === null || written === id) return undefined
  return { expected: `request_id: ${shown(id)}, as in the header`, came: shown(written) }
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'not_found_error',
}

export const refusalFault = refusalRule(
  '{"type":"error","error":{"type","message"}}',
  (json, status) => {
    const { type, message } = partOf(json, 'error')
    const isTyped = json['type'] === 'error' && type === (ERROR_TYPES[status] ?? type)
    return isTyped && isWord(type) && isWord(message)
  },
)
