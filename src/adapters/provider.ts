import type { Clock } from '../async/clock.ts'
import { ResponseStream } from '../async/response-stream.ts'
import type { OutputItem } from '../protocol/output-item.ts'
import type { StreamEventPayload } from '../protocol/stream-event.ts'
import { isTerminal } from './translation.ts'

/** A tool that the model may call; `parameters` is a JSON Schema. */
export interface ToolDefinition {
  name: string
  description?: string
  parameters: Record<string, unknown>
  /** The arguments shall follow the schema to the letter. */
  strict?: boolean
}

/**
 * One call to a model, in no vendor's form. `input` is the thread so far, oldest first: messages of the
 * user, the agent and the system, reasoning, calls and their outputs. What an item carries in
 * `provider_metadata` goes back to the provider that it came from.
 */
export interface ProviderRequest {
  model: string
  input: readonly OutputItem[]
  tools?: readonly ToolDefinition[]
  toolChoice?: 'auto' | 'none' | 'required' | { name: string }
  reasoningEffort?: 'none' | 'minimal' | 'low' | 'medium' | 'high'
  /** Tokens that the model may think for, with providers that count them. */
  thinkingBudget?: number
  maxOutputTokens?: number
  temperature?: number
  topP?: number
  stop?: readonly string[]
  responseFormat?: { type: 'text' } | { type: 'json_object' } | JsonSchemaFormat
  parallelToolCalls?: boolean
}

export interface JsonSchemaFormat {
  type: 'json_schema'
  name: string
  schema: Record<string, unknown>
  strict?: boolean
}

/** Whose response it will be. */
export interface RunContext {
  runId: string
  turnId: string
  threadId: string
  /** Called each time that a call is retried. */
  onRetry?: () => void
}

/** A source of responses, as payloads; `stamp` makes StreamEvents of them. */
export interface Provider {
  readonly id: string
  /**
   * Calls the model. Whatever happens, the stream holds one response with its truthful end: a failure
   * is a `response_error` in it, never an exception. Aborting stops the call, and the stream with it.
   */
  stream(
    request: ProviderRequest,
    run: RunContext,
    signal?: AbortSignal,
  ): ResponseStream<StreamEventPayload>
}

// Enough to keep the socket busy while the reader is, and little enough that a slow reader is felt.
const MAX_BUFFERED_EVENTS = 256

/** The payloads of one call. Its `signal` stops the producer, whichever side aborts. */
export class ProviderStream extends ResponseStream<StreamEventPayload> {
  readonly #controller = new AbortController()

  constructor(signal: AbortSignal | undefined, clock: Clock) {
    // The producer keeps the time limits: it can end the response truthfully.
    super(signal, { maxBufferSize: MAX_BUFFERED_EVENTS, eventTimeout: Infinity, clock })
    if (signal?.aborted) this.#controller.abort()
    else signal?.addEventListener('abort', this.#stop, { once: true })
    this.signal.addEventListener('abort', () => signal?.removeEventListener('abort', this.#stop))
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  readonly #stop = (): void => this.#controller.abort()

  /** Adds payloads up to the end of a response and returns whether it came. A promise only if the buffer is full. */
  addUntilEnd(payloads: readonly StreamEventPayload[]): boolean | Promise<boolean> {
    for (const [at, payload] of payloads.entries()) {
      if (this.getBufferSize() >= MAX_BUFFERED_EVENTS) return this.#sendUntilEnd(payloads.slice(at))
      this.addEvent(payload)
      if (isTerminal(payload)) return true
    }
    return false
  }

  async #sendUntilEnd(payloads: readonly StreamEventPayload[]): Promise<boolean> {
    for (const payload of payloads) {
      await this.send(payload)
      if (isTerminal(payload)) return true
    }
    return false
  }

  override abort(): void {
    this.#controller.abort()
    super.abort()
  }

  override complete(): void {
    super.complete()
    this.#controller.abort()
  }

  override error(cause: unknown): void {
    super.error(cause)
    this.#controller.abort()
  }
}

/** The vendor APIs that a provider can be configured to speak. */
export const PROVIDER_KINDS = ['openai', 'anthropic', 'gemini', 'openai-compatible'] as const
export type ProviderKind = (typeof PROVIDER_KINDS)[number]

/** The id of the provider that plays recorded turns. `serve` always has it. */
export const SCRIPTED_ID = 'scripted'
