import { GrowingText } from '../async/growing-text.ts'
import { parseJsonObject } from '../protocol/json.ts'
import type { MessageOrigin } from '../protocol/output-item.ts'
import type { Approval, ContentType } from '../protocol/stream-output.ts'
import { estimateTokensOfLength } from './options.ts'

export interface BufferOptions {
  initialContent?: string | undefined
  origin?: MessageOrigin | undefined
  providerId?: string
  toolName?: string | undefined
  callId?: string | undefined
  isHeld?: boolean
  estimateTokens?: (totalLength: number) => number
}

export interface BufferInfo {
  itemId: string
  contentType: ContentType
  tokenCount: number
  contentLength: number
  batchIndex: number
  isHeld: boolean
  isComplete: boolean
}

/** The complete state of an item, for debugging and tests. */
export interface BufferState extends Omit<BufferInfo, 'contentLength'> {
  content: string
  emittedTokenCount: number
  hasEmittedCreate: boolean
  origin?: MessageOrigin
  providerId?: string
  toolName?: string
  callId?: string
  toolArguments?: Record<string, unknown>
}

/**
 * The state of one item. Three lengths, which only grow:
 *
 *     emitted (the sink accepted it)  ≤  offered (in flight)   ≤  length of the content
 *
 * except that a failed offer falls back to what was accepted.
 */
export class ContentBuffer {
  readonly itemId: string
  readonly contentType: ContentType
  readonly origin: MessageOrigin | undefined
  readonly providerId: string | undefined
  toolName: string | undefined
  callId: string | undefined
  toolArguments: Record<string, unknown> | undefined
  approval: Approval | undefined
  /** Whether the client must run the call. */
  isForClient = false
  /** The number of tokens to exceed before the next snapshot. Set from the gradient. */
  threshold = Infinity
  /** Counts final emissions of this item. Only the newest is worth retrying. */
  revision = 0

  readonly #estimateTokens: (totalLength: number) => number
  #text: GrowingText
  #emittedLength = 0
  #offeredLength = 0
  #batchIndex = 0
  #isComplete = false
  #isHeld: boolean
  #hasEmittedCreate = false
  #hasOffered = false
  #lastDeltaAt = 0
  /** When the oldest delta arrived that is not yet offered; Infinity when there is none. */
  #unshownSince = Infinity

  constructor(itemId: string, contentType: ContentType, options: BufferOptions = {}) {
    this.itemId = itemId
    this.contentType = contentType
    this.origin = options.origin
    this.providerId = options.providerId
    this.toolName = options.toolName
    this.callId = options.callId
    this.#text = new GrowingText(options.initialContent)
    this.#isHeld = options.isHeld ?? false
    this.#estimateTokens = options.estimateTokens ?? estimateTokensOfLength
  }

  appendContent(delta: string): void {
    this.#text.append(delta)
  }

  getContent(): string {
    return this.#text.toString()
  }

  getContentLength(): number {
    return this.#text.length
  }

  getTokenCount(): number {
    return this.#estimateTokens(this.#text.length)
  }

  getUnemittedTokenCount(): number {
    return this.getTokenCount() - this.#estimateTokens(this.#emittedLength)
  }

  /** Records that the sink accepted the content up to `length`, by default all of it. */
  markEmitted(length: number = this.#text.length): void {
    this.#emittedLength = Math.max(this.#emittedLength, length)
    this.#offeredLength = Math.max(this.#offeredLength, length)
  }

  advanceBatchIndex(): void {
    this.#batchIndex++
  }

  getBatchIndex(): number {
    return this.#batchIndex
  }

  markComplete(): void {
    this.#isComplete = true
  }

  isComplete(): boolean {
    return this.#isComplete
  }

  isHeld(): boolean {
    return this.#isHeld
  }

  setHeld(held: boolean): void {
    this.#isHeld = held
  }

  hasEmittedCreate(): boolean {
    return this.#hasEmittedCreate
  }

  markCreateEmitted(): void {
    this.#hasEmittedCreate = true
  }

  /** Completes the call. Its content is empty unless the arguments could not be parsed. */
  finishCall(toolName: string, callId: string, argumentsText: string): void {
    const toolArguments = parseJsonObject(argumentsText)
    this.#isComplete = true
    this.#isHeld = true
    this.#unshownSince = Infinity
    this.toolName = toolName
    this.callId = callId
    this.toolArguments = toolArguments ?? {}
    this.#text = new GrowingText(toolArguments === undefined ? argumentsText : '')
  }

  /** Compares lengths, not tokens: a tail of one character counts. */
  hasUnshownContent(): boolean {
    return this.#text.length > this.#offeredLength
  }

  /** Returns whether anything of this item was accepted or is in flight. */
  wasOffered(): boolean {
    return this.#hasOffered || this.#hasEmittedCreate || this.#isComplete
  }

  /** Returns the complete content. Until the sink responds it counts as neither emitted nor pending. */
  offer(): string {
    this.#hasOffered = true
    this.#offeredLength = this.#text.length
    this.#unshownSince = Infinity
    return this.getContent()
  }

  /** The offer that ended at `length` failed. Its content is pending again unless a longer offer follows. */
  withdrawOffer(length: number): void {
    if (this.#offeredLength !== length) return
    this.#offeredLength = this.#emittedLength
    this.#hasOffered = false
  }

  /** Records that content arrived. The deadline counts from then. */
  touch(now: number): void {
    this.#lastDeltaAt = now
    if (this.#unshownSince === Infinity) this.#unshownSince = now
  }

  /** When pending content is due; Infinity when nothing is pending. */
  deadline(batchTimeoutMs: number, maxLatencyMs: number): number {
    if (this.#unshownSince === Infinity) return Infinity
    return Math.min(this.#lastDeltaAt + batchTimeoutMs, this.#unshownSince + maxLatencyMs)
  }

  getState(): BufferState {
    const { contentLength: _, ...info } = this.toBufferInfo()
    return {
      ...info,
      content: this.getContent(),
      emittedTokenCount: this.#estimateTokens(this.#emittedLength),
      hasEmittedCreate: this.#hasEmittedCreate,
      ...(this.origin !== undefined && { origin: this.origin }),
      ...(this.providerId !== undefined && { providerId: this.providerId }),
      ...(this.toolName !== undefined && { toolName: this.toolName }),
      ...(this.callId !== undefined && { callId: this.callId }),
      ...(this.toolArguments !== undefined && { toolArguments: this.toolArguments }),
    }
  }

  toBufferInfo(): BufferInfo {
    return {
      itemId: this.itemId,
      contentType: this.contentType,
      tokenCount: this.getTokenCount(),
      contentLength: this.#text.length,
      batchIndex: this.#batchIndex,
      isHeld: this.#isHeld,
      isComplete: this.#isComplete,
    }
  }
}
