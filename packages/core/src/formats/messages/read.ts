import { unreachable } from '../../protocol/errors.ts'
import { isRecord } from '../../protocol/json.ts'
import type { Usage } from '../../protocol/stream-event.ts'
import { asFields, asString, type Fields, isEmpty, Malformed, nameSet, toUsage } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import {
  type FinishReason,
  type ResponseWriter,
  type Translation,
  type TranslationContext,
  WriterTranslation,
} from '../translation.ts'
import {
  blockIndex,
  decodeBlock,
  decodeDelta,
  decodeError,
  decodeUsage,
  NAMESPACE,
  type WireBlock,
  type WireDelta,
  type WireUsage,
} from './decode.ts'

const FINISH_REASONS = new Map<string, FinishReason>([
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['pause_turn', 'pause'],
  ['refusal', 'refusal'],
])

/** The stream of `POST /v1/messages`. */
export function translateAnthropicMessages(context: TranslationContext): Translation {
  return new MessagesTranslation(context)
}

/** State of the current message. */
interface MessageState {
  parts: MessageParts
  blocks: Map<number, OpenBlock>
  /** The run that the next text block joins, unless another block intervenes. */
  run: { text: TextRun; hasOpenBlock: boolean } | undefined
  usage: WireUsage
  stopReason: string | undefined
  stopSequence: string | undefined
  hasCallsToAnswer: boolean
}

class MessagesTranslation extends WriterTranslation {
  #message = this.#newMessage()
  #keys = 0

  protected take(json: unknown): void {
    if (!isRecord(json)) return this.writer.reportUnknown('not an object')
    const type = eventType(json)
    if (!EVENT_TYPES.has(type)) return this.writer.reportUnknown(type)
    // After an end, events are ignored until a message starts.
    if (this.writer.hasEnded && type !== 'message_start') return
    switch (type) {
      case 'message_start':
        return this.#startMessage(asFields(json['message']))
      case 'content_block_start':
        return this.#startBlock(blockIndex(json), decodeBlock(json))
      case 'content_block_delta':
        return this.#addDelta(blockIndex(json), decodeDelta(json))
      case 'content_block_stop':
        return this.#stopBlock(blockIndex(json))
      case 'message_delta':
        return this.#changeMessage(json)
      case 'message_stop':
        return this.#stopMessage()
      case 'error':
        return this.fail(decodeError(json))
    }
  }

  protected override failMalformed(reason: string, event: unknown): void {
    super.failMalformed(`${eventType(asFields(event))}: ${reason}`, event)
  }

  #newMessage(id?: string): MessageState {
    const { writer } = this
    const common = id === undefined ? {} : { message_id: writer.uniqueResponseId(id) }
    return {
      parts: { writer, common },
      blocks: new Map(),
      run: undefined,
      usage: {},
      stopReason: undefined,
      stopSequence: undefined,
      hasCallsToAnswer: false,
    }
  }

  /** A message that starts before the previous one ended replaces it: the vendor retried. */
  #startMessage({ id, model, usage }: Fields): void {
    this.writer.cancelOpenItems('attempt_reset')
    this.writer.start(asString(model))
    this.#message = this.#newMessage(asString(id))
    this.#addUsage(usage)
    // The size of the input is known before the answer, and clients of this API want it first.
    this.writer.reportUsage()
  }

  #startBlock(index: number, block: WireBlock): void {
    // Two blocks with one index: the vendor did not end the first one.
    this.#stopBlock(index)
    this.#message.blocks.set(index, this.#openBlock(block))
  }

  #openBlock(block: WireBlock): OpenBlock {
    if (block.type === 'text') return this.#openText(block.text, block.citations)
    this.#finishRun()
    const { parts } = this.#message
    switch (block.type) {
      case 'thinking':
        return openThinking(parts, this.#nextKey(), block)
      case 'call':
        if (!block.isExecutedByProvider) this.#message.hasCallsToAnswer = true
        return openCall(parts, this.#nextKey(), block)
      case 'result':
        return writeResult(parts, this.#nextKey(), block)
      case 'opaque':
        return openOpaque(parts, this.#nextKey(), block)
      case 'unknown':
        this.writer.reportUnknown(block.name)
        return IGNORED_BLOCK
      default:
        return unreachable(block)
    }
  }

  #openText(text: string, citations: readonly Record<string, unknown>[]): OpenBlock {
    const message = this.#message
    if (message.run?.hasOpenBlock) this.#finishRun()
    message.run ??= { text: new TextRun(message.parts, this.#nextKey()), hasOpenBlock: false }
    const { run } = message
    run.hasOpenBlock = true
    run.text.append(text)
    for (const citation of citations) run.text.cite(citation)
    return openText(run.text, () => {
      run.hasOpenBlock = false
      // Another block has started since.
      if (message.run !== run) run.text.finish()
    })
  }

  /** A run with an open block continues until that block ends. */
  #finishRun(): void {
    const { run } = this.#message
    this.#message.run = undefined
    if (run?.hasOpenBlock === false) run.text.finish()
  }

  #addDelta(index: number, delta: WireDelta): void {
    if (delta.type === 'unknown') return this.writer.reportUnknown(delta.name)
    const block = this.#message.blocks.get(index) ?? this.#openUnannounced(index, delta)
    if (block?.add(delta)) return
    throw new Malformed(`block ${index} does not accept ${delta.type}`)
  }

  /** Text without an announced block opens one; other deltas need their block. */
  #openUnannounced(index: number, delta: WireDelta): OpenBlock | undefined {
    if (delta.type === 'text_delta') {
      this.#startBlock(index, { type: 'text', text: '', citations: [] })
    } else if (delta.type === 'thinking_delta') {
      this.#startBlock(index, { type: 'thinking', thinking: '', signature: '' })
    }
    return this.#message.blocks.get(index)
  }

  #stopBlock(index: number): void {
    const { blocks } = this.#message
    blocks.get(index)?.close()
    blocks.delete(index)
  }

  #changeMessage({ delta, usage }: Fields): void {
    const { stop_reason, stop_sequence } = asFields(delta)
    const stopReason = asString(stop_reason)
    this.writer.start()
    this.#addUsage(usage)
    if (stopReason === undefined) return
    this.#message.stopReason = stopReason
    this.#message.stopSequence = asString(stop_sequence)
    this.#finishRun()
  }

  #stopMessage(): void {
    const { blocks, stopReason, stopSequence, hasCallsToAnswer } = this.#message
    for (const block of blocks.values()) block.close()
    this.#finishRun()
    const reason = finishReason(stopReason, hasCallsToAnswer)
    this.writer.finish(reason, stopReason ?? null, stopSequence)
    this.#message = this.#newMessage()
  }

  #addUsage(usage: unknown): void {
    const total = { ...this.#message.usage, ...decodeUsage(usage) }
    this.#message.usage = total
    if (!isEmpty(total)) this.writer.setUsage(usageOf(total))
  }

  #nextKey(): string {
    this.#keys += 1
    return `block-${this.#keys}`
  }
}

const EVENT_TYPES = nameSet(
  'message_start content_block_start content_block_delta content_block_stop',
  'message_delta message_stop ping error',
)

/** A gateway that fails midway may send a bare error. */
function eventType({ type, error }: Fields): string {
  return asString(type) ?? (error === undefined ? 'no type' : 'error')
}

/** Some compatible servers send `end_turn` after a call that awaits its result. */
function finishReason(stopReason: string | undefined, hasCallsToAnswer: boolean): FinishReason {
  const reason = FINISH_REASONS.get(stopReason ?? '') ?? 'other'
  return reason === 'stop' && hasCallsToAnswer ? 'tool_calls' : reason
}

/** The vendor counts cache reads and writes separately from the input. */
function usageOf({ input, cacheRead, cacheWrite, output, thinking }: WireUsage): Usage {
  return toUsage({
    prompt: (input ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0),
    completion: output,
    cached: cacheRead,
    cacheWrite,
    reasoning: thinking,
  })
}

/** An open content block. */
interface OpenBlock {
  /** False when the block does not accept deltas of this type. */
  add(delta: WireDelta): boolean
  close(): void
}

/** Shared by the blocks of one message. */
interface MessageParts {
  writer: ResponseWriter
  /** Metadata of every item of the message. */
  common: Fields
}

function metadataOf({ common }: MessageParts, fields: Fields = {}, isExecutedByProvider = false) {
  return toMetadata(NAMESPACE, { ...common, ...fields }, isExecutedByProvider)
}

/**
 * Adjacent text blocks, emitted as one message. A web search splits the text at each citation; the vendor wants the
 * original blocks back.
 */
class TextRun {
  readonly #parts: MessageParts
  readonly #key: string
  readonly #blocks: { length: number; citations?: readonly Fields[] }[] = []
  #length = 0
  #citations: Fields[] = []

  constructor(parts: MessageParts, key: string) {
    this.#parts = parts
    this.#key = key
  }

  /** Drops blocks without text or citations. */
  append(text: string): void {
    if (text === '') return
    this.#open()
    this.#length += text.length
    this.#parts.writer.append(this.#key, text)
  }

  cite(citation: Fields): void {
    this.#open()
    this.#citations.push(citation)
  }

  #open(): void {
    if (this.#parts.writer.isOpenItem(this.#key)) return
    const provider_metadata = metadataOf(this.#parts)
    this.#parts.writer.openItem(this.#key, 'message', { provider_metadata })
  }

  endBlock(): void {
    const citations = this.#citations
    if (this.#length > 0 || citations.length > 0) {
      this.#blocks.push({ length: this.#length, ...(citations.length > 0 && { citations }) })
    }
    this.#length = 0
    this.#citations = []
  }

  finish(): void {
    this.endBlock()
    const blocks = this.#blocks
    const isPlain = blocks.length === 1 && blocks[0]?.citations === undefined
    const provider_metadata = metadataOf(this.#parts, isPlain ? {} : { blocks })
    this.#parts.writer.finishItem(this.#key, { provider_metadata })
  }
}

function openText(run: TextRun, onClose: () => void): OpenBlock {
  return {
    add(delta) {
      if (delta.type === 'text_delta') run.append(delta.text)
      else if (delta.type === 'citations_delta') run.cite(delta.citation)
      else return false
      return true
    },
    close() {
      run.endBlock()
      onClose()
    },
  }
}

/** Stored even without text, for its signature. */
function openThinking(
  parts: MessageParts,
  key: string,
  block: Extract<WireBlock, { type: 'thinking' }>,
): OpenBlock {
  const { writer } = parts
  let { signature } = block
  writer.openItem(key, 'reasoning', { provider_metadata: metadataOf(parts) })
  writer.append(key, block.thinking)
  return {
    add(delta) {
      if (delta.type === 'thinking_delta') writer.append(key, delta.text)
      else if (delta.type === 'signature_delta') signature = delta.text
      else return false
      return true
    },
    close() {
      const provider_metadata = metadataOf(parts, signature === '' ? {} : { signature })
      writer.finishItem(key, { provider_metadata })
    },
  }
}

function openCall(
  parts: MessageParts,
  key: string,
  block: Extract<WireBlock, { type: 'call' }>,
): OpenBlock {
  const { writer } = parts
  const { id, name, input, isExecutedByProvider, rest } = block
  // A plain call is rebuilt from its item; anything else must be stored.
  const isPlain = Object.keys(rest).length === 1 && !isExecutedByProvider
  const metadata = metadataOf(parts, isPlain ? {} : { block: rest }, isExecutedByProvider)
  const call_id = id || writer.nextCallId()
  writer.openItem(key, 'function_call', { name, call_id, provider_metadata: metadata })
  return {
    add(delta) {
      if (delta.type !== 'input_json_delta') return false
      writer.append(key, delta.text)
      return true
    },
    close() {
      writer.finishCall(key, writer.textOf(key) === '' ? { content: input } : {})
    },
  }
}

/** The vendor ran the tool and sends the result in one piece. */
function writeResult(
  parts: MessageParts,
  key: string,
  { callId, content, isError, rest }: Extract<WireBlock, { type: 'result' }>,
): OpenBlock {
  const provider_metadata = metadataOf(parts, { block: rest }, true)
  parts.writer.openItem(key, 'function_call_output', { call_id: callId, provider_metadata })
  parts.writer.finishItem(key, { content, success: !isError })
  return IGNORED_BLOCK
}

/** Stays open until its end, because a compaction has its content in a delta. */
function openOpaque(
  parts: MessageParts,
  key: string,
  { itemType, raw }: Extract<WireBlock, { type: 'opaque' }>,
): OpenBlock {
  let block = raw
  parts.writer.openItem(key, itemType, { provider_metadata: metadataOf(parts) })
  return {
    add(delta) {
      if (delta.type !== 'compaction_delta') return false
      block = { ...block, ...delta.fields }
      return true
    },
    close() {
      parts.writer.finishItem(key, { provider_metadata: metadataOf(parts, { block }) })
    },
  }
}

/** Blocks that are complete at their start, or unknown. Their deltas are dropped. */
const IGNORED_BLOCK: OpenBlock = { add: () => true, close() {} }
