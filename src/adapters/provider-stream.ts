import type { Clock } from '../async/clock.ts'
import { ResponseStream } from '../async/response-stream.ts'
import type { StreamEventPayload } from '../protocol/stream-event.ts'

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
