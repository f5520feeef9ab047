import type { Clock } from '@turnstream/core/internal/async/clock'
import { ResponseStream } from '@turnstream/core/internal/async/response-stream'
import type {
  FittedSettings,
  ModelSettings,
  ProviderRequest,
  RunContext,
} from '@turnstream/core/internal/formats/provider-request'
import { isTerminal } from '@turnstream/core/internal/formats/translation'
import type { StreamEventPayload } from '@turnstream/core/internal/protocol/stream-event'

/** The process that a provider runs for its calls. */
export interface ProcessHealth {
  /** `idle`: not started yet. `failing`: the last start failed, and the next one waits. */
  readonly state: 'idle' | 'running' | 'failing'
  readonly pid?: number
  /** Threads that this process has served. */
  readonly threads: number
  /** Turns that run now, also on replaced processes. */
  readonly turns: number
  /** Processes that died. */
  readonly restarts: number
  /** Processes that were replaced because of their threads or memory. */
  readonly recycles: number
  readonly residentBytes?: number
  readonly lastError?: string
}

/** A source of response payloads; `stamp` converts them to StreamEvents. */
export interface Provider {
  readonly id: string
  /**
   * Calls the model. The stream always holds one response with a truthful end: a failure is a `response_error`, never
   * an exception. Aborting stops the call and the stream.
   */
  stream(
    request: ProviderRequest,
    run: RunContext,
    signal?: AbortSignal,
  ): ResponseStream<StreamEventPayload>
  /** Maximum characters of one tool call's arguments, if the request has no limit. 1,000,000 by default. */
  readonly maxArgumentChars?: number
  /** Returns what the provider takes of a request's settings. Missing: all of them. */
  fit?(request: ModelSettings): FittedSettings
  /** Missing for providers without a process. */
  readonly health?: ProcessHealth
  /** Releases what the provider holds between calls, such as a process. Running calls fail. */
  stop?(): Promise<void>
}

// Enough to keep the socket busy, and small enough for backpressure from a slow reader.
export const MAX_BUFFERED_EVENTS = 256

/** What one call yields. Its `signal` aborts when either side aborts. */
export class CallStream<T> extends ResponseStream<T> {
  readonly #controller = new AbortController()

  constructor(signal: AbortSignal | undefined, clock: Clock) {
    // The producer enforces time limits: it can end the response truthfully.
    super(signal, { maxBufferSize: MAX_BUFFERED_EVENTS, eventTimeout: Infinity, clock })
    if (signal?.aborted) this.#controller.abort()
    else signal?.addEventListener('abort', this.#stop, { once: true })
    this.signal.addEventListener('abort', () => signal?.removeEventListener('abort', this.#stop))
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  readonly #stop = (): void => this.#controller.abort()

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

/** The payloads of one call. */
export class ProviderStream extends CallStream<StreamEventPayload> {
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
}

/** Vendor APIs that a provider can be configured for. */
export const PROVIDER_KINDS = ['openai', 'anthropic', 'gemini', 'openai-compatible'] as const
export type ProviderKind = (typeof PROVIDER_KINDS)[number]

/** Id of the provider that runs a codex app-server. */
export const CODEX_ID = 'codex'

/** Id of the provider that plays recorded turns. `serve` always has it. */
export const SCRIPTED_ID = 'scripted'
