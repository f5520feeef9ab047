import { parseJsonObject } from '../../protocol/json.ts'
import type { ErrorObject, StreamEventPayload, Usage } from '../../protocol/stream-event.ts'
import {
  type AnswerEnd,
  type AnswerItem,
  type AnswerItemEnd,
  CHARS_PER_TOKEN,
  codedError,
  isJson,
} from '../answer.ts'
import { type AnswerWriter, eventSse } from '../answer-encoder.ts'
import { asFields, asString } from '../fields.ts'
import { messagesError } from './errors.ts'
import {
  type MessagesBlock,
  type MessagesDelta,
  type MessagesError,
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

/** An item as a content block. */
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
 * Writes one response as the events of Anthropic's Messages API. Only one block is open at a time: of overlapping items,
 * the later one waits until the earlier one ends. A block starts with its first content, because the API refuses empty
 * text.
 */
export class MessagesWriter implements AnswerWriter<MessagesEvent> {
  readonly #head: MessagesHead
  readonly #inputChars: () => number
  readonly #blocks = new Map<AnswerItem, Block>()
  /** Not ended for the client yet, in order. The first one may be open. */
  readonly #queue: Block[] = []
  readonly #content: Block[] = []
  #model: string
  #isStarted = false
  #hasRefusal = false
  #usage: MessagesUsage | undefined
  #stopReason: MessagesStopReason | null = null
  #stopSequence: string | null = null
  #failure: ErrorObject | undefined
  #error: MessagesError | undefined
  /** Set when sent text was withdrawn: the client would store what follows as part of the same answer. */
  #withdrawn: ErrorObject | undefined
  /** The input as the provider had counted it before the answer. */
  #startUsage: Omit<MessagesUsage, 'output_tokens'> | undefined
  /** The last events. */
  #ending: MessagesEvent[] = []
  #events: MessagesEvent[] = []

  constructor(head: MessagesHead, inputChars: () => number) {
    this.#head = head
    this.#model = head.model
    this.#inputChars = inputChars
  }

  get isOver(): boolean {
    return this.#error !== undefined
  }

  drain(): MessagesEvent[] {
    const events = this.#events
    this.#events = []
    return events
  }

  toSse(events: readonly MessagesEvent[]): string {
    return events.map(eventSse).join('')
  }

  /** Whether `message_start` was written. */
  get isStarted(): boolean {
    return this.#isStarted
  }

  /** Why there is no whole message. */
  get error(): MessagesError | undefined {
    return this.#error
  }

  /** The same with the code that it came from. */
  get failure(): ErrorObject | undefined {
    return this.#failure
  }

  /** The message so far. */
  get message(): MessagesObject {
    return {
      id: `msg_${this.#head.turnId}`,
      type: 'message',
      role: 'assistant',
      model: this.#model,
      content: this.#content.map(toContent),
      stop_reason: this.#stopReason,
      stop_sequence: this.#stopSequence,
      usage: this.#usage ?? this.#estimate(),
    }
  }

  /** The events that give a new client the message so far: each block with one delta. */
  joinEvents(): MessagesEvent[] {
    if (!this.#isStarted) return this.#ending
    return [
      { type: 'message_start', message: this.#startMessage() },
      ...this.#content.flatMap((block, index) => joinBlock(block, index)),
      ...this.#ending,
    ]
  }

  start({ model_id, parameters }: StreamEventPayload<'response_start'>): void {
    const model = parameters?.['model']
    this.#model = typeof model === 'string' ? model : model_id
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
    if (item.isRewritten && item.kind === 'call') {
      const detail = `the arguments of call "${item.callId}" changed after they were sent`
      this.#withdrawn ??= codedError('STREAM_ERROR', detail)
    }
    this.#advance()
  }

  /** Thinking that the vendor encrypted. */
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
    if (!this.#isStarted && usage.prompt_tokens > 0) this.#startUsage = input
  }

  end(end: AnswerEnd): void {
    if (this.#error !== undefined) return
    if (end.usage !== undefined) this.#usage = messagesUsage(end.usage)
    if (end.kind === 'failed') return this.#fail(end.error)
    if (end.kind === 'cancelled') {
      const why = end.reason === '' ? '' : `: ${end.reason}`
      return this.#fail({ code: 'ABORTED', message: `The turn was stopped${why}` })
    }
    if (this.#withdrawn !== undefined) return this.#fail(this.#withdrawn)
    this.#begin()
    const stop_reason = this.#stopReasonOf(end.finishReason, end.providerReason)
    const stop_sequence = stop_reason === 'stop_sequence' ? end.stopSequence : null
    this.#stopReason = stop_reason
    this.#stopSequence = stop_sequence
    const usage = this.#usage ?? this.#estimate()
    const delta = { stop_reason, stop_sequence }
    this.#finish({ type: 'message_delta', delta, usage }, { type: 'message_stop' })
  }

  #fail(error: ErrorObject): void {
    this.#failure = error
    this.#error = messagesError(error)
    this.#finish(this.#error)
  }

  #finish(...events: MessagesEvent[]): void {
    this.#ending = events
    this.#events.push(...events)
  }

  /** Sends what can be sent of the first block, and of the next ones if it has ended. */
  #advance(): void {
    for (let block = this.#queue[0]; block !== undefined; block = this.#queue[0]) {
      if (this.#error !== undefined) return
      this.#send(block)
      if (block.end === undefined) return
      this.#stop(block)
      this.#queue.shift()
    }
  }

  #send(block: Block): void {
    const hasContent = block.waiting !== '' || (block.end === 'done' && block.signature !== '')
    const isBare = block.kind === 'tool_use' || block.kind === 'redacted_thinking'
    if (block.index === undefined && (hasContent || isBare)) this.#startBlock(block)
    if (block.index === undefined || block.waiting === '') return
    this.#delta(block.index, toDelta(block.kind, block.waiting))
    block.sent += block.waiting
    block.waiting = ''
  }

  #startBlock(block: Block): void {
    if (this.#withdrawn !== undefined) return this.#fail(this.#withdrawn)
    this.#begin()
    block.index = this.#content.push(block) - 1
    const content_block = emptyContent(block)
    this.#events.push({ type: 'content_block_start', index: block.index, content_block })
  }

  #stop({ index, signature }: Block): void {
    if (index === undefined) return
    if (signature !== '') this.#delta(index, { type: 'signature_delta', signature })
    this.#events.push({ type: 'content_block_stop', index })
  }

  #delta(index: number, delta: MessagesDelta): void {
    this.#events.push({ type: 'content_block_delta', index, delta })
  }

  #begin(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    this.#events.push({ type: 'message_start', message: this.#startMessage() })
  }

  /** The message before its content. */
  #startMessage(): MessagesObject {
    const start = { content: [], stop_reason: null, stop_sequence: null }
    return { ...this.message, ...start, usage: { ...this.#estimate(), ...this.#startUsage } }
  }

  /** An estimate: most providers send their figures at the end. */
  #estimate(): MessagesUsage {
    const sent = this.#content.reduce((sum, block) => sum + block.sent.length, 0)
    return {
      input_tokens: Math.ceil(this.#inputChars() / CHARS_PER_TOKEN),
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
    switch (finishReason) {
      case 'length':
        return 'max_tokens'
      case 'content_filter':
      case 'refusal':
        return 'refusal'
      case 'pause':
        return 'pause_turn'
      default:
        if (this.#hasRefusal) return 'refusal'
        return providerReason === 'stop_sequence' ? 'stop_sequence' : 'end_turn'
    }
  }
}

function newBlock(
  kind: Block['kind'],
  { callId, name }: Pick<AnswerItem, 'callId' | 'name'>,
): Block {
  const state = { index: undefined, sent: '', waiting: '', signature: '', end: undefined }
  return { kind, callId, name, ...state, frame: undefined }
}

function newFrame(index: number, kind: Block['kind']): string {
  const type = 'content_block_delta'
  const data = JSON.stringify({ type, index, delta: toDelta(kind, '') })
  return `event: ${type}\ndata: ${data.slice(0, -'""}}'.length)}`
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

/** A block as it starts. */
function emptyContent({ kind, callId, name, sent }: Block): MessagesBlock {
  switch (kind) {
    case 'text':
      return { type: 'text', text: '' }
    case 'thinking':
      return { type: 'thinking', thinking: '', signature: '' }
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: sent }
    case 'tool_use':
      return { type: 'tool_use', id: callId, name, input: {} }
  }
}

/** A block as the client has it. */
function toContent(block: Block): MessagesBlock {
  const { sent, end, signature } = block
  const content = emptyContent(block)
  switch (content.type) {
    case 'text':
      return { ...content, text: sent }
    case 'thinking':
      return { ...content, thinking: sent, ...(end !== undefined && { signature }) }
    case 'redacted_thinking':
      return content
    case 'tool_use':
      // `maxArgumentChars` bounds them.
      return { ...content, input: parseJsonObject(sent, Infinity) ?? {} }
  }
}

function joinBlock(block: Block, index: number): MessagesEvent[] {
  const { kind, sent, signature, end } = block
  const events: MessagesEvent[] = [
    { type: 'content_block_start', index, content_block: emptyContent(block) },
  ]
  const add = (delta: MessagesDelta) => events.push({ type: 'content_block_delta', index, delta })
  if (sent !== '' && kind !== 'redacted_thinking') add(toDelta(kind, sent))
  if (end === undefined) return events
  if (signature !== '') add({ type: 'signature_delta', signature })
  events.push({ type: 'content_block_stop', index })
  return events
}
