import { parseJsonObject } from '../../protocol/json.ts'
import type { ErrorObject, StreamEventPayload, Usage } from '../../protocol/stream-event.ts'
import {
  type AnswerEnd,
  type AnswerItem,
  type AnswerItemEnd,
  abortError,
  CHARS_PER_TOKEN,
  changedArguments,
  codedError,
  isJson,
} from '../answer.ts'
import { type AnswerWriter, eventSse } from '../answer-encoder.ts'
import { asFields, asString } from '../fields.ts'
import { messagesError } from './errors.ts'
import {
  type MessagesBlock,
  type MessagesDelta,
  type MessagesEvent,
  type MessagesObject,
  type MessagesStopReason,
  type MessagesUsage,
  messagesUsage,
} from './wire.ts'

/** Ids of a message whose log does not start with `response_start`. */
export interface MessagesHead {
  readonly turnId: string
  readonly model: string
}

const NOT_STOPPED = { stop_reason: null, stop_sequence: null }

interface Block {
  readonly kind: 'text' | 'thinking' | 'tool_use' | 'redacted_thinking'
  readonly callId: string
  readonly name: string
  /** Its place in the content; undefined until it starts. */
  index: number | undefined
  /** What the client has received. The data of a `redacted_thinking` block. */
  sent: string
  /** What the client has not received yet. */
  waiting: string
  signature: string
  end: AnswerItemEnd | undefined
  /** The SSE frame of its deltas before their text, once needed. */
  frame: string | undefined
}

/** The same after the text. */
const FRAME_END = '}}\n\n'

/**
 * Writes one response as the events of Anthropic's Messages API. Of overlapping items, the later one waits until the
 * earlier one ends. A block starts with its first content, because the API refuses empty text.
 */
export class MessagesWriter implements AnswerWriter<MessagesEvent> {
  readonly frames: MessagesEvent[] = []
  #head: MessagesHead
  readonly #blocks = new Map<AnswerItem, Block>()
  /** Not ended for the client yet, in order. The first one may be open. */
  readonly #queue: Block[] = []
  readonly #content: Block[] = []
  /** Whether `message_start` was written. */
  isStarted = false
  /** Why there is no whole message. */
  failure: ErrorObject | undefined
  #hasRefusal = false
  #usage: MessagesUsage | undefined
  #stop: Pick<MessagesObject, 'stop_reason' | 'stop_sequence'> = NOT_STOPPED
  /** Set when sent text was withdrawn: the client would store what follows as part of the same answer. */
  #withdrawn: ErrorObject | undefined
  /** The input as the provider had counted it before the answer. */
  #startUsage: Omit<MessagesUsage, 'output_tokens'> | undefined
  #ending: MessagesEvent[] = []

  #inputChars = 0

  constructor(head: MessagesHead) {
    this.#head = head
  }

  get isOver(): boolean {
    return this.failure !== undefined
  }

  toSse(events: readonly MessagesEvent[]): string {
    return events.map(eventSse).join('')
  }

  /** The message so far. */
  get message(): MessagesObject {
    return {
      id: `msg_${this.#head.turnId}`,
      type: 'message',
      role: 'assistant',
      model: this.#head.model,
      content: this.#content.map((block) => toContent(block)),
      ...this.#stop,
      usage: this.#usage ?? this.#estimate(),
    }
  }

  /** The events that give a new client the message so far: each block with one delta. */
  joinEvents(): MessagesEvent[] {
    if (!this.isStarted) return this.#ending
    return [
      { type: 'message_start', message: this.#startMessage() },
      ...this.#content.flatMap((block, index) => joinBlock(block, index)),
      ...this.#ending,
    ]
  }

  start({ model_id, parameters }: StreamEventPayload<'response_start'>): void {
    const model = parameters?.['model']
    this.#head = { ...this.#head, model: asString(model) ?? model_id }
  }

  input(chars: number): void {
    this.#inputChars += chars
  }

  open(item: AnswerItem): void {
    if (item.kind === 'refusal') this.#hasRefusal = true
    const block = newBlock(kindOf(item), item)
    this.#blocks.set(item, block)
    this.#queue.push(block)
    this.#advance()
  }

  grow(item: AnswerItem, piece: string): void {
    const block = this.#blocks.get(item)
    if (block === undefined) return
    block.waiting += piece
    this.#advance()
  }

  /** Undefined if the item is not the open block. */
  encodeDelta(item: AnswerItem, piece: string): string | undefined {
    const block = this.#blocks.get(item)
    if (block?.index === undefined || block !== this.#queue[0]) return undefined
    block.sent += piece
    block.frame ??= newFrame(block.index, block.kind)
    return block.frame + JSON.stringify(piece) + FRAME_END
  }

  close(item: AnswerItem, how: AnswerItemEnd): void {
    const block = this.#blocks.get(item)
    if (block === undefined) return
    this.#blocks.delete(item)
    block.end = how
    block.signature = signatureOf(item)
    const isSent = block.index !== undefined && block.sent !== ''
    if (how === 'withdrawn') {
      block.waiting = ''
      const detail = 'text that was sent is withdrawn'
      if (isSent && block.kind === 'text') this.#withdrawn ??= codedError('ITEM_CANCELLED', detail)
    }
    if (item.isRewritten && item.kind === 'call') this.#withdrawn ??= changedArguments(item)
    this.#advance()
  }

  opaque({ anthropic }: Record<string, unknown>): void {
    const { type, data } = asFields(asFields(anthropic)['block'])
    if (type !== 'redacted_thinking' || typeof data !== 'string') return
    const redacted = newBlock('redacted_thinking', { callId: '', name: '' })
    redacted.sent = data
    redacted.end = 'done'
    this.#queue.push(redacted)
    this.#advance()
  }

  usage(usage: Usage): void {
    const { output_tokens: _, ...input } = messagesUsage(usage)
    // Some servers count the input only at the end.
    if (!this.isStarted && usage.prompt_tokens > 0) this.#startUsage = input
  }

  end(end: AnswerEnd): void {
    if (this.isOver) return
    if (end.usage !== undefined) this.#usage = messagesUsage(end.usage)
    if (end.kind === 'failed') return this.#fail(end.error)
    if (end.kind === 'cancelled') return this.#fail(abortError(end.reason))
    if (this.#withdrawn !== undefined) return this.#fail(this.#withdrawn)
    this.#begin()
    const stop_reason = this.#stopReasonOf(end.finishReason, end.providerReason)
    const stop_sequence = stop_reason === 'stop_sequence' ? end.stopSequence : null
    const delta = { stop_reason, stop_sequence }
    this.#stop = delta
    const usage = this.#usage ?? this.#estimate()
    this.#finish({ type: 'message_delta', delta, usage }, { type: 'message_stop' })
  }

  #fail(error: ErrorObject): void {
    this.failure = error
    this.#finish(messagesError(error))
  }

  #finish(...events: MessagesEvent[]): void {
    this.#ending = events
    this.frames.push(...events)
  }

  /** Sends what can be sent of the first block, and of the next ones if it has ended. */
  #advance(): void {
    for (let block = this.#queue[0]; block !== undefined; block = this.#queue[0]) {
      if (this.isOver) return
      this.#send(block)
      if (block.end === undefined) return
      if (block.index !== undefined) this.frames.push(...stopEvents(block, block.index))
      this.#queue.shift()
    }
  }

  #send(block: Block): void {
    const hasContent = block.waiting !== '' || (block.end === 'done' && block.signature !== '')
    const isBare = block.kind === 'tool_use' || block.kind === 'redacted_thinking'
    if (block.index === undefined && (hasContent || isBare)) this.#startBlock(block)
    if (block.index === undefined || block.waiting === '') return
    this.frames.push(deltaEvent(block.index, toDelta(block.kind, block.waiting)))
    block.sent += block.waiting
    block.waiting = ''
  }

  #startBlock(block: Block): void {
    if (this.#withdrawn !== undefined) return this.#fail(this.#withdrawn)
    this.#begin()
    block.index = this.#content.push(block) - 1
    this.frames.push(startEvent(block, block.index))
  }

  #begin(): void {
    if (this.isStarted) return
    this.isStarted = true
    this.frames.push({ type: 'message_start', message: this.#startMessage() })
  }

  #startMessage(): MessagesObject {
    const start = { content: [], ...NOT_STOPPED }
    return { ...this.message, ...start, usage: { ...this.#estimate(), ...this.#startUsage } }
  }

  /** An estimate: most providers send their figures at the end. */
  #estimate(): MessagesUsage {
    const sent = this.#content.reduce((sum, block) => sum + block.sent.length, 0)
    return {
      input_tokens: Math.ceil(this.#inputChars / CHARS_PER_TOKEN),
      output_tokens: Math.ceil(sent / CHARS_PER_TOKEN),
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
    }
  }

  /** With a call it is `tool_use`, or clients would not run it, unless the arguments were cut off. */
  #stopReasonOf(finishReason: string, providerReason: string): MessagesStopReason {
    const reason = this.#reasonWithoutCalls(finishReason, providerReason)
    const calls = this.#content.filter(({ kind }) => kind === 'tool_use')
    if (calls.length === 0) return reason
    return reason !== 'max_tokens' || calls.every(({ sent }) => isJson(sent)) ? 'tool_use' : reason
  }

  #reasonWithoutCalls(finishReason: string, providerReason: string): MessagesStopReason {
    const known = STOP_REASONS.get(finishReason)
    if (known !== undefined) return known
    if (this.#hasRefusal) return 'refusal'
    return providerReason === 'stop_sequence' ? 'stop_sequence' : 'end_turn'
  }
}

const STOP_REASONS = new Map<string, MessagesStopReason>([
  ['length', 'max_tokens'],
  ['content_filter', 'refusal'],
  ['refusal', 'refusal'],
  ['pause', 'pause_turn'],
])

function newBlock(
  kind: Block['kind'],
  { callId, name }: Pick<AnswerItem, 'callId' | 'name'>,
): Block {
  const state = { index: undefined, sent: '', waiting: '', signature: '', end: undefined }
  return { kind, callId, name, ...state, frame: undefined }
}

function newFrame(index: number, kind: Block['kind']): string {
  const event = deltaEvent(index, toDelta(kind, ''))
  return `event: ${event.type}\ndata: ${JSON.stringify(event).slice(0, -'""}}'.length)}`
}

function kindOf({ kind }: AnswerItem): Block['kind'] {
  if (kind === 'call') return 'tool_use'
  return kind === 'reasoning' ? 'thinking' : 'text'
}

/** Only Anthropic signs its reasoning. A signature is sent byte for byte, and none is invented. */
function signatureOf({ metadata }: AnswerItem): string {
  return asString(asFields(metadata?.['anthropic'])['signature']) ?? ''
}

function toDelta(kind: Block['kind'], text: string): MessagesDelta {
  switch (kind) {
    case 'thinking':
      return { type: 'thinking_delta', thinking: text }
    case 'tool_use':
      return { type: 'input_json_delta', partial_json: text }
    case 'text':
    case 'redacted_thinking': // complete when it starts
      return { type: 'text_delta', text }
  }
}

/** A block as the client has it, or as it starts. */
function toContent(block: Block, isStart = false): MessagesBlock {
  const { kind: type, callId: id, name, sent } = block
  const text = isStart ? '' : sent
  switch (type) {
    case 'text':
      return { type, text }
    case 'thinking':
      return { type, thinking: text, signature: isStart ? '' : block.signature }
    case 'redacted_thinking':
      return { type, data: sent }
    case 'tool_use':
      // `maxArgumentChars` bounds them.
      return { type, id, name, input: parseJsonObject(text, Infinity) ?? {} }
  }
}

function joinBlock(block: Block, index: number): MessagesEvent[] {
  const { kind, sent, end } = block
  const hasDelta = sent !== '' && kind !== 'redacted_thinking'
  return [
    startEvent(block, index),
    ...(hasDelta ? [deltaEvent(index, toDelta(kind, sent))] : []),
    ...(end === undefined ? [] : stopEvents(block, index)),
  ]
}

function startEvent(block: Block, index: number): MessagesEvent {
  return { type: 'content_block_start', index, content_block: toContent(block, true) }
}

function deltaEvent(index: number, delta: MessagesDelta): MessagesEvent {
  return { type: 'content_block_delta', index, delta }
}

function stopEvents({ signature }: Block, index: number): MessagesEvent[] {
  const stop = { type: 'content_block_stop', index } as const
  if (signature === '') return [stop]
  return [deltaEvent(index, { type: 'signature_delta', signature }), stop]
}
