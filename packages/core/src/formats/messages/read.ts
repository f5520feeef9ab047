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

export function translateAnthropicMessages(context: TranslationContext): Translation {
  return new MessagesTranslation(context)
}

interface OpenBlock {
  readonly key: string
  /** Deltas complete it. */
  readonly block: WireBlock
  /** Of a text block. */
  readonly run: TextRun | undefined
}

interface MessageState {
  /** Metadata of all its items. */
  common: Fields
  blocks: Map<number, OpenBlock>
  /** The run that the next text block joins, unless another block intervenes. */
  run: TextRun | undefined
  usage: WireUsage
  stopReason: string | undefined
  stopSequence: string | undefined
  hasCallsToAnswer: boolean
}

class MessagesTranslation extends WriterTranslation {
  #message = this.#newMessage()
  #keys = 0

  protected apply(json: unknown): void {
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
    return {
      common: id === undefined ? {} : { message_id: this.writer.uniqueResponseId(id) },
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
    const run = block.type === 'text' ? this.#reachRun() : undefined
    if (run === undefined) this.#finishRun()
    const open = { key: run?.key ?? this.#nextKey(), block, run }
    this.#message.blocks.set(index, open)
    this.#openBlock(open)
  }

  #openBlock({ key, block, run }: OpenBlock): void {
    const { writer } = this
    const provider_metadata = this.#metadata()
    switch (block.type) {
      case 'text':
        run?.append(block.text)
        for (const citation of block.citations) run?.cite(citation)
        return
      case 'thinking':
        // Stored even without text, for its signature.
        writer.openItem(key, 'reasoning', { provider_metadata })
        return writer.append(key, block.thinking)
      case 'call':
        return this.#openCall(key, block)
      case 'result': {
        // The vendor ran the tool and sends the result in one piece.
        const { callId: call_id, content, isError, rest } = block
        const result = this.#metadata({ block: rest }, true)
        writer.openItem(key, 'function_call_output', { call_id, provider_metadata: result })
        return writer.finishItem(key, { content, success: !isError })
      }
      case 'opaque':
        return writer.openItem(key, block.itemType, { provider_metadata })
      case 'unknown':
        return writer.reportUnknown(block.name)
      default:
        return unreachable(block)
    }
  }

  #openCall(
    key: string,
    { id, name, isExecutedByProvider, rest }: Extract<WireBlock, { type: 'call' }>,
  ): void {
    if (!isExecutedByProvider) this.#message.hasCallsToAnswer = true
    // A plain call is rebuilt from its item; anything else must be stored.
    const isPlain = Object.keys(rest).length === 1 && !isExecutedByProvider
    const provider_metadata = this.#metadata(isPlain ? {} : { block: rest }, isExecutedByProvider)
    const call_id = id || this.writer.nextCallId()
    this.writer.openItem(key, 'function_call', { name, call_id, provider_metadata })
  }

  #reachRun(): TextRun {
    const message = this.#message
    if (message.run?.hasOpenBlock) this.#finishRun()
    message.run ??= new TextRun(this.writer, this.#nextKey(), () => this.#metadata())
    message.run.hasOpenBlock = true
    return message.run
  }

  /** A run with an open block continues until that block ends. */
  #finishRun(): void {
    const { run } = this.#message
    this.#message.run = undefined
    if (run?.hasOpenBlock === false) this.#endRun(run)
  }

  #endRun(run: TextRun): void {
    run.endBlock()
    const { blocks } = run
    const isPlain = blocks.length === 1 && blocks[0]?.citations === undefined
    const provider_metadata = this.#metadata(isPlain ? {} : { blocks })
    this.writer.finishItem(run.key, { provider_metadata })
  }

  #metadata(fields: Fields = {}, isExecutedByProvider = false): Fields {
    return toMetadata(NAMESPACE, { ...this.#message.common, ...fields }, isExecutedByProvider)
  }

  #addDelta(index: number, delta: WireDelta): void {
    if (delta.type === 'unknown') return this.writer.reportUnknown(delta.name)
    const open = this.#message.blocks.get(index) ?? this.#openUnannounced(index, delta)
    if (open !== undefined && this.#accepts(open, delta)) return
    throw new Malformed(`block ${index} does not accept ${delta.type}`)
  }

  /** Returns false for a delta that the block cannot have. Deltas of blocks that are complete or unknown are dropped. */
  #accepts({ key, block, run }: OpenBlock, delta: WireDelta): boolean {
    if (block.type === 'result' || block.type === 'unknown') return true
    if (block.type === 'text' && delta.type === 'text_delta') run?.append(delta.text)
    else if (block.type === 'text' && delta.type === 'citations_delta') run?.cite(delta.citation)
    else if (block.type === 'thinking' && delta.type === 'signature_delta') {
      block.signature = delta.text
    } else if (
      (block.type === 'thinking' && delta.type === 'thinking_delta') ||
      (block.type === 'call' && delta.type === 'input_json_delta')
    ) {
      this.writer.append(key, delta.text)
    } else if (block.type === 'opaque' && delta.type === 'compaction_delta') {
      // A compaction has its content in a delta.
      block.raw = { ...block.raw, ...delta.fields }
    } else return false
    return true
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
    const open = blocks.get(index)
    if (open !== undefined) this.#closeBlock(open)
    blocks.delete(index)
  }

  #closeBlock({ key, block, run }: OpenBlock): void {
    const { writer } = this
    if (block.type === 'thinking') {
      const { signature } = block
      const provider_metadata = this.#metadata(signature === '' ? {} : { signature })
      writer.finishItem(key, { provider_metadata })
    } else if (block.type === 'call') {
      writer.finishCall(key, writer.textOf(key) === '' ? { content: block.input } : {})
    } else if (block.type === 'opaque') {
      writer.finishItem(key, { provider_metadata: this.#metadata({ block: block.raw }) })
    } else if (run !== undefined) {
      run.endBlock()
      run.hasOpenBlock = false
      // Another block has started since.
      if (this.#message.run !== run) this.#endRun(run)
    }
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
    for (const block of blocks.values()) this.#closeBlock(block)
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

/** Adjacent text blocks, split by citations and emitted as one message. The vendor wants the blocks back. */
class TextRun {
  readonly key: string
  readonly blocks: { length: number; citations?: readonly Fields[] }[] = []
  hasOpenBlock = false
  readonly #writer: ResponseWriter
  readonly #metadata: () => Fields
  #length = 0
  #citations: Fields[] = []

  constructor(writer: ResponseWriter, key: string, metadata: () => Fields) {
    this.#writer = writer
    this.key = key
    this.#metadata = metadata
  }

  /** Drops blocks without text or citations. */
  append(text: string): void {
    if (text === '') return
    this.#open()
    this.#length += text.length
    this.#writer.append(this.key, text)
  }

  cite(citation: Fields): void {
    this.#open()
    this.#citations.push(citation)
  }

  #open(): void {
    if (this.#writer.isOpenItem(this.key)) return
    this.#writer.openItem(this.key, 'message', { provider_metadata: this.#metadata() })
  }

  endBlock(): void {
    const citations = this.#citations
    if (this.#length > 0 || citations.length > 0) {
      this.blocks.push({ length: this.#length, ...(citations.length > 0 && { citations }) })
    }
    this.#length = 0
    this.#citations = []
  }
}
