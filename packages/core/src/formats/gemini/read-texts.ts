/** The texts and attachments of one response. Parts have no ids, so consecutive parts of a kind form one item. */

import { type Fields, isEmpty } from '../fields.ts'
import type { ResponseWriter } from '../translation.ts'
import type { ItemMetadata, WirePart } from './decode.ts'

type TextKind = 'message' | 'reasoning' | 'attachment'

interface OpenText {
  kind: TextKind
  key: string
  signature: string | undefined
  /** Lengths in the text. The vendor's rule: never merge a signed part with others. */
  parts: { length: number; thoughtSignature?: string }[]
  attachments: Fields[]
}

export class GeminiTexts {
  readonly #writer: ResponseWriter
  readonly #metadata: ItemMetadata
  #open: OpenText | undefined
  #sources: Fields = {}
  #count = 0

  constructor(writer: ResponseWriter, metadata: ItemMetadata) {
    this.#writer = writer
    this.#metadata = metadata
  }

  add({ isThought, text, signature }: Extract<WirePart, { kind: 'text' }>): void {
    if (text === '' && signature === undefined) return
    const open = this.#reach(isThought ? 'reasoning' : 'message', signature)
    open.signature ??= signature
    const last = open.parts.at(-1)
    const { length } = text
    if (signature !== undefined) open.parts.push({ length, thoughtSignature: signature })
    else if (last === undefined || last.thoughtSignature !== undefined) open.parts.push({ length })
    else last.length += length
    this.#writer.append(open.key, text)
  }

  addAttachment(part: Fields): void {
    this.#reach('attachment').attachments.push(part)
  }

  addSources(sources: Fields): void {
    this.#sources = { ...this.#sources, ...sources }
  }

  close(): void {
    if (this.#open === undefined) return
    const { kind, key, signature, parts, attachments } = this.#open
    this.#open = undefined
    const provider_metadata = this.#metadata(signature, {
      ...(signature !== undefined && parts.length > 1 && { parts }),
      ...(attachments.length > 0 && { attachments }),
      ...(kind === 'message' && this.#sources),
    })
    if (kind === 'message') this.#sources = {}
    this.#writer.finishItem(key, { provider_metadata })
  }

  /** Sources usually come last; after a call there is no open message for them. */
  finish(): void {
    if (!isEmpty(this.#sources) && this.#open?.kind !== 'message') this.#reach('message')
    this.close()
  }

  /** The open item of this kind. Ends an item of another kind or with another signature. */
  #reach(kind: TextKind, signature?: string): OpenText {
    const open = this.#open
    const isSigned = open?.signature !== undefined && signature !== undefined
    if (open?.kind === kind && !(isSigned && open.signature !== signature)) return open
    this.close()
    this.#count += 1
    const key = `text-${this.#count}`
    this.#writer.openItem(key, kind === 'reasoning' ? 'reasoning' : 'message', {
      provider_metadata: this.#metadata(undefined),
    })
    this.#open = { kind, key, signature: undefined, parts: [], attachments: [] }
    return this.#open
  }
}
