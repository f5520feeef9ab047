/** Recognises a conversation by its content, for clients that name no thread. */

import { createHash, type Hash } from 'node:crypto'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { HistoryItem } from '@turnstream/core/internal/formats/submission'
import { isExecutedByProvider } from '@turnstream/core/internal/items/marks'
import { clientCallId, shortCallId } from '@turnstream/core/internal/protocol/ids'
import { parseJsonObject, stableJson } from '@turnstream/core/internal/protocol/json'
import type { Attachment } from '@turnstream/core/internal/protocol/output-item'
import type { ResponseItem } from '@turnstream/core/internal/protocol/response'

export const MAX_KEYS = 64

/** How much text is hashed at a time. */
const CHUNK_CHARS = 65_536

/** Larger arguments are not parsed, which would block other work. The call is known by its id. */
const MAX_ARGUMENTS_CHARS = 262_144

/** In UTF-8, a surrogate pair that two chunks share would be lost. */
const ENCODING = 'utf16le'

const WHITE_SPACE = /\s+/g

type Label = 'user' | 'output' | 'attachment' | 'agent' | 'call'
type HistoryCall = Extract<HistoryItem, { type: 'function_call' }> & { readonly id?: string }

/**
 * A hash of a conversation, taken after each run of the agent: its texts and calls between two inputs. It covers only
 * what every vendor's client sends back of an answer: no system messages, reasoning or white space, and no text after the
 * first call. The texts of a run are one. Call ids are shortened as for the Responses API.
 */
export class ThreadChain {
  readonly #hash: Hash = createHash('sha256')
  #label: Label | undefined
  /** Hashes of the images and files of an input. APIs differ in the order of text and files. */
  #attachments: string[] = []
  #keys: string[] = []

  /** Reads the items of a request. Conversations of different end users are never the same. */
  static async read(items: readonly HistoryItem[], user?: string): Promise<ThreadChain> {
    const chain = new ThreadChain()
    if (user !== undefined) chain.#hash.update(`user ${user}`, ENCODING)
    await chain.#addAll(items)
    return chain
  }

  /** The keys of the turns that the request may continue, newest first. */
  get keys(): string[] {
    const open = this.#isOfAgent ? [this.#key()] : []
    return [...this.#keys, ...open].slice(-MAX_KEYS).toReversed()
  }

  /** Adds the items of the answer. Returns the key of its turn; undefined if the client sees nothing of it. */
  readonly answerKey = async (items: readonly ResponseItem[]): Promise<string | undefined> => {
    await this.#addAll(visibleItems(items))
    return this.#isOfAgent ? this.#key() : undefined
  }

  get #isOfAgent(): boolean {
    return this.#label === 'agent' || this.#label === 'call'
  }

  #key(): string {
    return `chain:${this.#hash.copy().digest('base64url')}`
  }

  async #addAll(items: readonly (HistoryItem | ResponseItem)[]): Promise<void> {
    for (const item of items) {
      if (isSliceOver()) await nextSlice()
      await this.#add(item)
    }
  }

  async #add(item: HistoryItem | ResponseItem): Promise<void> {
    switch (item.type) {
      case 'message': {
        const { origin, content } = item
        if (origin === 'user') await this.#addText('user', content)
        // Clients of Chat Completions never see text after a call.
        else if (origin === 'agent' && this.#label !== 'call') await this.#addText('agent', content)
        for (const each of 'attachments' in item ? (item.attachments ?? []) : []) {
          await this.#attach(each)
        }
        return
      }
      case 'function_call':
        this.#begin('call')
        await update(this.#hash, callOf(item))
        return
      case 'function_call_output':
        this.#begin('output')
        await update(this.#hash, `${shortCallId(item.call_id)}=${item.output}`)
        return
      default:
    }
  }

  /** Consecutive texts of one author are one text. */
  async #addText(label: 'user' | 'agent', text: string): Promise<void> {
    if (text.trim() === '') return
    if (this.#label !== label) this.#begin(label)
    await update(this.#hash, text)
  }

  async #attach({ data }: Attachment): Promise<void> {
    const hash = createHash('sha256')
    await update(hash, data)
    if (this.#label === undefined || this.#isOfAgent) this.#begin('user')
    this.#attachments.push(hash.digest('base64url'))
  }

  #begin(label: Label): void {
    const isOfAgent = label === 'agent' || label === 'call'
    if (isOfAgent && !this.#isOfAgent) this.#endInput()
    if (!isOfAgent && this.#isOfAgent) this.#keys = [...this.#keys, this.#key()].slice(-MAX_KEYS)
    this.#label = label
    this.#separate(label)
  }

  #endInput(): void {
    for (const attachment of this.#attachments) {
      this.#separate('attachment')
      this.#hash.update(attachment, ENCODING)
    }
    this.#attachments = []
  }

  /** What is hashed has no white space, so this is unambiguous. */
  #separate(label: Label): void {
    this.#hash.update(`\n${label} `, ENCODING)
  }
}

async function update(hash: Hash, text: string): Promise<void> {
  for (let at = 0; at < text.length; at += CHUNK_CHARS) {
    if (at > 0 && isSliceOver()) await nextSlice()
    const chunk = text.slice(at, at + CHUNK_CHARS).replaceAll(WHITE_SPACE, '')
    hash.update(chunk, ENCODING)
  }
}

/** Other clients parse the arguments and write them again. */
function callOf({ name, arguments: text, ...call }: HistoryCall): string {
  const parsed = text.length <= MAX_ARGUMENTS_CHARS ? parseJsonObject(text) : undefined
  return `${clientCallId(call)}=${name}${stableJson(parsed ?? {})}`
}

/** Returns the items that clients of vendors' APIs see: without calls that this server or the provider has run. */
function visibleItems(items: readonly ResponseItem[]): ResponseItem[] {
  const answered = new Set<string>()
  for (const item of items) if (item.type === 'function_call_output') answered.add(item.call_id)
  return items.filter((item) => {
    if (item.cancelled !== undefined) return false
    if (item.type === 'message') return item.origin === 'agent'
    if (item.type !== 'function_call') return false
    return !isExecutedByProvider(item.provider_metadata) && !answered.has(item.call_id)
  })
}
