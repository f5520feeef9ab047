import type { Frame } from './frame.ts'
import { MAX_WAITING_BYTES, type SseSink } from './sse-sink.ts'

/** A body for runtimes that give out no socket, and for an app that is called as a function. */
export class WebSink implements SseSink {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>
  readonly #onClose: () => void
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined
  #resume: (() => void) | undefined

  /** `onClose` is called once: after the end, and when the reader leaves before it. */
  constructor(onClose: () => void) {
    this.#onClose = onClose
    const source: UnderlyingDefaultSource<Uint8Array<ArrayBuffer>> = {
      start: (controller) => {
        this.#controller = controller
      },
      pull: () => this.#resume?.(),
      cancel: () => this.#close(),
    }
    const strategy = { highWaterMark: MAX_WAITING_BYTES, size: byteLength }
    this.body = new ReadableStream(source, strategy)
  }

  write(frame: Frame): boolean {
    this.#controller?.enqueue(frame.bytes)
    return this.#room > 0
  }

  drained(): Promise<void> {
    if (this.#controller === undefined || this.#room > 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#resume = resolve
    })
  }

  get waitingBytes(): number {
    return MAX_WAITING_BYTES - this.#room
  }

  end(): void {
    this.#controller?.close()
    this.#close()
  }

  cut(): void {
    this.#controller?.error(new Error('the stream stopped in the middle'))
    this.#close()
  }

  get #room(): number {
    return this.#controller?.desiredSize ?? 0
  }

  #close(): void {
    this.#controller = undefined
    this.#resume?.()
    this.#onClose()
  }
}

function byteLength(chunk: Uint8Array): number {
  return chunk.byteLength
}
