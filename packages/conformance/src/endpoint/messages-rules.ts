import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { framingFault, typeOf } from './event-framing.ts'
import {
  brokenText,
  expecting,
  type Fault,
  type Finding,
  fieldFault,
  isCount,
  isWord,
  type Json,
  type NamedRule,
  type PlainAnswer,
  shown,
  typeFault,
} from './fault.ts'
import type { Answer } from './http.ts'
import { recordsIn, type SseRecording } from './recording.ts'

/** A stream of the Messages API. */
export type MessagesStream = SseRecording

const TYPES: ReadonlySet<string> = new Set([
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
  'ping',
  'error',
])

/** All events but pings. */
function eventsOf({ events }: MessagesStream): Json[] {
  return events.filter((event) => typeOf(event) !== 'ping').map(({ json }) => json)
}

function ofType(stream: MessagesStream, type: string): Json[] {
  return eventsOf(stream).filter((event) => event['type'] === type)
}

function partOf(event: Json | undefined, name: string): Json {
  const part = event?.[name]
  return isRecord(part) ? part : {}
}

/** The message that a stream starts. */
export function startedMessage(stream: MessagesStream): Json {
  return partOf(ofType(stream, 'message_start')[0], 'message')
}

function isWhole(stream: MessagesStream): boolean {
  return ofType(stream, 'message_stop').length > 0 && ofType(stream, 'error').length === 0
}

function startedBlocks(stream: MessagesStream): Json[] {
  return ofType(stream, 'content_block_start').map((event) => partOf(event, 'content_block'))
}

export function callsOf(stream: MessagesStream): Json[] {
  return startedBlocks(stream).filter(({ type }) => type === 'tool_use')
}

function deltasOf(stream: MessagesStream): Json[] {
  return ofType(stream, 'content_block_delta').map((event) => partOf(event, 'delta'))
}

/** The text of a stream. */
export function streamedText(stream: MessagesStream): string {
  return deltasOf(stream)
    .map(({ text }) => text)
    .filter((text) => typeof text === 'string')
    .join('')
}

/** Rules for every stream. */
export const MESSAGES_RULES: readonly NamedRule<MessagesStream>[] = [
  ['stream type', 'text/event-stream', typeFault],
  ['stream framing', 'complete events, named by their type', framingFault],
  [
    'stream utf-8',
    'no split characters',
    expecting('complete UTF-8 characters', (stream) =>
      brokenText(stream.reads, deltasOf(stream).flatMap(Object.values).filter(isText)),
    ),
  ],
  [
    'stream errors',
    'none',
    expecting('an answer', (stream) => {
      const [error] = ofType(stream, 'error')
      return error && `an error: ${shown(error['error'])}`
    }),
  ],
  [
    'stream types',
    'no unknown ones',
    expecting('only event types of the API', ({ events }) => {
      const other = events.map(typeOf).find((type) => !TYPES.has(type) && !isHeartbeat(type))
      return other && `type: ${shown(other)}`
    }),
  ],
  ['stream heartbeats', 'comments, or pings after message_start', heartbeatFault],
  ['stream start', 'one message_start with an empty message', startFault],
  ['stream blocks', 'one open at a time, with indexes in order', blocksFault],
  ['stream deltas', 'of the type of their block', deltaFault],
  ['stream end', 'message_delta, then message_stop', endFault],
  [
    'stream close',
    'closed by the server at the end',
    expecting('the end of the connection after message_stop', (stream) => {
      const { ending } = stream
      if (ending === 'closed' || !isWhole(stream)) return undefined
      return ending === 'broken' ? 'it was broken' : 'the connection stayed open'
    }),
  ],
  ['stop reason', 'tool_use with a call, and only then', stopFault],
  ['tool input', 'a JSON object', expecting('partial_json that is a JSON object', findInput)],
  ['usage', 'input and output tokens', streamUsageFault],
]

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function isHeartbeat(type: string): boolean {
  return /^(?:heartbeat|keep_?-?alive|ping)$/.test(type)
}

function heartbeatFault({ events }: MessagesStream): Fault | undefined {
  const expected = 'comments, or {"type":"ping"} after message_start'
  const other = events.find((event) => isHeartbeat(typeOf(event)) && typeOf(event) !== 'ping')
  if (other !== undefined) return { expected, came: shown(other.json) }
  const [first] = events
  return first && typeOf(first) === 'ping'
    ? { expected, came: 'a ping before message_start' }
    : undefined
}

function startFault(stream: MessagesStream): Fault | undefined {
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

function messageFields({ id, type, role, model }: Json) {
  return [
    [
      'id',
      id,
      'a text that starts with msg_',
      (value: unknown) => isText(value) && /^msg_./.test(value),
    ],
    ['type', type, '"message"', (value: unknown) => value === 'message'],
    ['role', role, '"assistant"', (value: unknown) => value === 'assistant'],
    ['model', model, 'a text', isWord],
  ] as const
}

function blocksFault(stream: MessagesStream): Fault | undefined {
  const expected = 'blocks 0, 1, 2 …, each stopped before the next'
  let open: unknown
  let next = 0
  for (const { type, index } of eventsOf(stream)) {
    if (type === 'content_block_start') {
      if (open !== undefined) return { expected, came: `a block inside block ${shown(open)}` }
      if (index !== next) return { expected, came: `index: ${shown(index)} in place of ${next}` }
      open = index
      next += 1
    } else if (type === 'content_block_delta' || type === 'content_block_stop') {
      if (index !== open) return { expected, came: `${type} of block ${shown(index)}` }
      if (type === 'content_block_stop') open = undefined
    } else if (type === 'message_delta' && open !== undefined) {
      return { expected, came: `message_delta inside block ${shown(open)}` }
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

function indexOf({ index }: Json): number {
  return typeof index === 'number' ? index : -1
}

function deltaFault(stream: MessagesStream): Fault | undefined {
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

function isEmptyObject(value: unknown): boolean {
  return isRecord(value) && Object.keys(value).length === 0
}

function endFault(stream: MessagesStream): Fault | undefined {
  const expected = 'one message_delta, then one message_stop, last'
  // An error also ends a stream; another rule reports it.
  if (ofType(stream, 'error').length > 0) return undefined
  const types = eventsOf(stream).map(({ type }) => shown(type))
  const ends = types.filter((type) => type === 'message_delta' || type === 'message_stop')
  const isRight =
    ends.join() === 'message_delta,message_stop' && types.slice(-2).join() === ends.join()
  return isRight ? undefined : { expected, came: `it ends with ${types.slice(-2).join(', ')}` }
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

const DONE_REASONS = new Set<unknown>(['end_turn', 'stop_sequence'])

function stopReason(stream: MessagesStream): unknown {
  return partOf(ofType(stream, 'message_delta').at(-1), 'delta')['stop_reason']
}

function stopFault(stream: MessagesStream): Fault | undefined {
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

function findInput(stream: MessagesStream): Finding {
  if (!isWhole(stream) || stopReason(stream) !== 'tool_use') return undefined
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

function streamUsageFault(stream: MessagesStream): Fault | undefined {
  const expected = 'input_tokens in message_start, output_tokens in message_delta'
  const started = partOf(startedMessage(stream), 'usage')
  const end = ofType(stream, 'message_delta').at(-1)
  if (end === undefined) return undefined
  const { input_tokens: input } = started
  const { output_tokens: output } = partOf(end, 'usage')
  if (isCount(input) && isCount(output)) return undefined
  return { expected, came: shown({ input_tokens: input, output_tokens: output }) }
}

/** For the stream of a plain text. */
export const missingTextFault = expecting<MessagesStream>('text in text_delta', (stream) =>
  streamedText(stream) === '' ? 'no text at all' : undefined,
)

/** When text arrived. */
export function textTimes({ events }: MessagesStream): number[] {
  return events.filter((event) => typeOf(event) === 'content_block_delta').map(({ atMs }) => atMs)
}

export function outputTokens(stream: MessagesStream): unknown {
  return partOf(ofType(stream, 'message_delta').at(-1), 'usage')['output_tokens']
}

/** The text of a message. */
export function textOf(message: Json | undefined): string {
  const texts = recordsIn(message?.['content']).map(({ text }) => text)
  return texts.filter(isText).join('')
}

/** Checks a message without streaming. */
export function messageFault({ status, body }: PlainAnswer): Fault | undefined {
  if (status !== 200) return { expected: 'status 200', came: `status ${status}: ${shown(body)}` }
  const message = parseJsonObject(body)
  if (message === undefined) return { expected: 'a JSON object', came: shown(body) }
  const { content, stop_reason: reason, stop_sequence: sequence, usage } = message
  const { input_tokens: input, output_tokens: output } = isRecord(usage) ? usage : {}
  return fieldFault([
    ...messageFields(message),
    ['content', content, 'a list with text', () => textOf(message) !== ''],
    [
      'stop_reason',
      reason,
      'a reason other than tool_use',
      (value) => value !== 'tool_use' && REASONS.includes(value),
    ],
    ['stop_sequence', sequence, 'null or a text', (value) => value === null || isText(value)],
    ['usage.input_tokens', input, 'a count', isCount],
    ['usage.output_tokens', output, 'a count', isCount],
  ])
}

export function messagesModelsFault({ status, body }: PlainAnswer): Fault | undefined {
  const expected =
    '{"data":[{"type":"model","id","display_name","created_at"}],"has_more","first_id","last_id"}'
  const list = parseJsonObject(body)
  const models = recordsIn(list?.['data'])
  const isList =
    status === 200 &&
    Array.isArray(list?.['data']) &&
    typeof list['has_more'] === 'boolean' &&
    models.every(
      (model) =>
        model['type'] === 'model' &&
        [model['id'], model['display_name'], model['created_at']].every(isWord),
    ) &&
    (list['first_id'] ?? undefined) === models[0]?.['id'] &&
    (list['last_id'] ?? undefined) === models.at(-1)?.['id']
  return isList ? undefined : { expected, came: `status ${status}: ${shown(body)}` }
}

export function countFault({ status, body }: PlainAnswer): Fault | undefined {
  const count = parseJsonObject(body)?.['input_tokens']
  if (status === 200 && isCount(count)) return undefined
  return { expected: '{"input_tokens"}', came: `status ${status}: ${shown(body)}` }
}

/** Every response has it; support requests name it. */
export function requestIdFault({ headers, body }: Pick<Answer, 'headers' | 'body'>) {
  const id = headers.get('request-id')
  if (!id) return { expected: 'the header request-id', came: 'none' }
  const written = parseJsonObject(body)?.['request_id']
  if (written === undefined || written === null || written === id) return undefined
  return { expected: `request_id: ${shown(id)}, as in the header`, came: shown(written) }
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  404: 'not_found_error',
}

/** Checks an error response: its status, its type and its message. */
export function refusalFault(
  { status, body }: PlainAnswer,
  statuses: readonly number[],
): Fault | undefined {
  const expected = `status ${statuses.join(' or ')} with {"type":"error","error":{"type","message"}}`
  const json = parseJsonObject(body)
  const { type, message } = partOf(json, 'error')
  const isShaped =
    json?.['type'] === 'error' && isWord(message) && type === (ERROR_TYPES[status] ?? type)
  if (statuses.includes(status) && isShaped && isWord(type)) return undefined
  return { expected, came: `status ${status}: ${shown(body)}` }
}
