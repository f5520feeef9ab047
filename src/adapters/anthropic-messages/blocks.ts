/** The content blocks of a message while they are open: what each makes of its deltas. */
import type { Fields } from '../fields.ts'
import { toMetadata } from '../metadata.ts'
import type { ResponseWriter } from '../response-writer.ts'
import { NAMESPACE, type WireBlock, type WireDelta } from './wire.ts'

export interface OpenBlock {
  /** False when deltas of this type have no place in the block. */
  add(delta: WireDelta): boolean
  close(): void
}

/** What the blocks of one message share. */
export interface MessageParts {
  writer: ResponseWriter
  /** What every item of the message carries. */
  common: Fields
}

function metadataOf({ common }: MessageParts, fields: Fields = {}, isExecutedByProvider = false) {
  return toMetadata(NAMESPACE, { ...common, ...fields }, isExecutedByProvider)
}

/**
 * Adjacent text blocks. To a reader they are one message, in which a web search cuts a block for each
 * citation; the vendor wants them back as they were.
 */
export class TextRun {
  readonly #parts: MessageParts
  readonly #key: string
  readonly #blocks: { length: number; citations?: readonly Fields[] }[] = []
  #length = 0
  #citations: Fields[] = []

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

export function openText(run: TextRun, onClose: () => void): OpenBlock {
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

/** Its signature makes it worth keeping even when it says nothing. */
export function openThinking(
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

export function openCall(
  parts: MessageParts,
  key: string,
  block: Extract<WireBlock, { type: 'call' }>,
): OpenBlock {
  const { writer } = parts
  const { id, name, input, isExecutedByProvider, rest } = block
  // A plain call is rebuilt from its item; anything more has to be stored.
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
export function writeResult(
  parts: MessageParts,
  key: string,
  { callId, content, isError, rest }: Extract<WireBlock, { type: 'result' }>,
): OpenBlock {
  const provider_metadata = metadataOf(parts, { block: rest }, true)
  parts.writer.openItem(key, 'function_call_output', { call_id: callId, provider_metadata })
  parts.writer.finishItem(key, { content, success: !isError })
  return IGNORED_BLOCK
}

/** Held open until its end, because a compaction has its content in a delta. */
export function openOpaque(
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

/** Blocks that are complete when they start, or unknown: their deltas are dropped. */
export const IGNORED_BLOCK: OpenBlock = { add: () => true, close() {} }
