/** The content blocks of a message while they are open: what each makes of its deltas. */
import type { ResponseWriter } from '../response-writer.ts'
import type { ToolCallAggregator, ToolCallChange } from '../tool-call-aggregator.ts'
import { metadataOf, type VendorFields } from './metadata.ts'
import type { WireBlock, WireDelta } from './wire.ts'

export interface OpenBlock {
  /** False when deltas of this type have no place in the block. */
  add(delta: WireDelta): boolean
  close(): void
}

/** What the blocks of one message share. */
export interface MessageParts {
  writer: ResponseWriter
  calls: ToolCallAggregator
  /** What every item of the message carries. */
  common: VendorFields
}

/**
 * Adjacent text blocks. To a reader they are one message, in which a web search cuts a block for each
 * citation; the vendor wants them back as they were.
 */
export class TextRun {
  readonly #parts: MessageParts
  readonly #key: string
  readonly #blocks: { length: number; citations?: readonly VendorFields[] }[] = []
  #length = 0
  #citations: VendorFields[] = []

  constructor(parts: MessageParts, key: string) {
    this.#parts = parts
    this.#key = key
  }

  /** A block without text or citation leaves no trace. */
  append(text: string): void {
    if (text === '') return
    this.#open()
    this.#length += text.length
    this.#parts.writer.append(this.#key, text)
  }

  cite(citation: VendorFields): void {
    this.#open()
    this.#citations.push(citation)
  }

  #open(): void {
    if (this.#parts.writer.isOpenItem(this.#key)) return
    const provider_metadata = metadataOf(this.#parts.common)
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
    const provider_metadata = metadataOf({ ...this.#parts.common, ...(!isPlain && { blocks }) })
    this.#parts.writer.finishItem(this.#key, { provider_metadata })
  }
}

export class TextBlock implements OpenBlock {
  readonly #run: TextRun
  readonly #onClose: () => void

  constructor(run: TextRun, onClose: () => void) {
    this.#run = run
    this.#onClose = onClose
  }

  add(delta: WireDelta): boolean {
    if (delta.type === 'text_delta') this.#run.append(delta.text)
    else if (delta.type === 'citations_delta') this.#run.cite(delta.citation)
    else return false
    return true
  }

  close(): void {
    this.#run.endBlock()
    this.#onClose()
  }
}

/** Its signature makes it worth keeping even when it says nothing. */
export class ThinkingBlock implements OpenBlock {
  readonly #parts: MessageParts
  readonly #key: string
  #signature: string

  constructor(parts: MessageParts, key: string, block: Extract<WireBlock, { type: 'thinking' }>) {
    this.#parts = parts
    this.#key = key
    this.#signature = block.signature
    const provider_metadata = metadataOf(parts.common)
    parts.writer.openItem(key, 'reasoning', { provider_metadata })
    parts.writer.append(key, block.thinking)
  }

  add(delta: WireDelta): boolean {
    if (delta.type === 'thinking_delta') this.#parts.writer.append(this.#key, delta.text)
    else if (delta.type === 'signature_delta') this.#signature = delta.text
    else return false
    return true
  }

  close(): void {
    const signature = this.#signature
    const provider_metadata = metadataOf({
      ...this.#parts.common,
      ...(signature !== '' && { signature }),
    })
    this.#parts.writer.finishItem(this.#key, { provider_metadata })
  }
}

type CallFields = Extract<WireBlock, { type: 'call' }>

export class CallBlock implements OpenBlock {
  readonly #parts: MessageParts
  readonly #alias: string
  readonly #block: CallFields
  #hasFragments = false

  constructor(parts: MessageParts, key: string, block: CallFields) {
    this.#parts = parts
    this.#alias = key
    this.#block = block
    this.#apply(parts.calls.open([key], { id: block.id, name: block.name }))
  }

  add(delta: WireDelta): boolean {
    if (delta.type !== 'input_json_delta') return false
    if (delta.text !== '') this.#hasFragments = true
    this.#apply(this.#parts.calls.append([this.#alias], delta.text))
    return true
  }

  close(): void {
    const { calls } = this.#parts
    const args = this.#hasFragments ? '' : this.#block.input
    this.#apply(calls.finish([this.#alias], { args }))
    calls.drainCompletedCalls()
  }

  #apply(changes: readonly ToolCallChange[]): void {
    const { writer } = this.#parts
    for (const change of changes) {
      const { key, call } = change
      if (change.change === 'opened')
        writer.openItem(key, 'function_call', this.#startFields(call.id))
      else if (change.change === 'grown') writer.append(key, change.fragment)
      else if (change.change === 'completed') writer.finishItem(key, { content: call.args })
      else writer.failItem(key, change.error)
    }
  }

  #startFields(call_id: string) {
    const { name, isExecutedByProvider, rest } = this.#block
    // A plain call is rebuilt from its item; anything more has to be remembered.
    const isPlain = Object.keys(rest).length === 1 && !isExecutedByProvider
    const fields = { ...this.#parts.common, ...(!isPlain && { block: rest }) }
    return { name, call_id, provider_metadata: metadataOf(fields, isExecutedByProvider) }
  }
}

/** The vendor ran the tool and tells the result in one piece. */
export function writeResult(
  { writer, common }: MessageParts,
  key: string,
  { callId, content, isError, rest }: Extract<WireBlock, { type: 'result' }>,
): void {
  const provider_metadata = metadataOf({ ...common, block: rest }, true)
  writer.openItem(key, 'function_call_output', { call_id: callId, provider_metadata })
  writer.finishItem(key, { content, success: !isError })
}

/** Held open until its end, because a compaction says its content in a delta. */
export class OpaqueBlock implements OpenBlock {
  readonly #parts: MessageParts
  readonly #key: string
  #raw: VendorFields

  constructor(parts: MessageParts, key: string, block: Extract<WireBlock, { type: 'opaque' }>) {
    this.#parts = parts
    this.#key = key
    this.#raw = block.raw
    const provider_metadata = metadataOf(parts.common)
    parts.writer.openItem(key, block.itemType, { provider_metadata })
  }

  add(delta: WireDelta): boolean {
    if (delta.type !== 'compaction_delta') return false
    this.#raw = { ...this.#raw, ...delta.fields }
    return true
  }

  close(): void {
    const provider_metadata = metadataOf({ ...this.#parts.common, block: this.#raw })
    this.#parts.writer.finishItem(this.#key, { provider_metadata })
  }
}

/** Blocks that are over as soon as they begin, or that we do not know: what follows is not for us. */
export const DEAF_BLOCK: OpenBlock = { add: () => true, close() {} }
