import type { ServerResponse } from 'node:http'
import { onResponseClose } from '../client-close.ts'
import { type Frame, LAST_CHUNK } from './frame.ts'
import { MAX_WAITING_BYTES, type SseSink } from './sse-sink.ts'

/**
 * Writes to the socket of Node, which sends what is written in one tick with one system call. The head goes
 * out together with the first frame.
 */
export class NodeSink implements SseSink {
  readonly #response: ServerResponse
  readonly #isChunked: boolean

  /** `onClose` is called after the end, and when the reader leaves before it; it may be called again. */
  constructor(response: ServerResponse, headers: Headers, onClose: () => void) {
    this.#response = response
    onResponseClose(response, onClose)
    response.writeHead(200, Object.fromEntries(headers))
    response.socket?.setNoDelay(true)
    this.#isChunked = response.chunkedEncoding
    // The frames are chunks already; a reader that speaks HTTP/1.0 gets none.
    response.chunkedEncoding = false
  }

  write(frame: Frame): boolean {
    const response = this.#response
    const isTaken = response.write(this.#isChunked ? frame.chunk : frame.bytes)
    return isTaken || response.writableLength < MAX_WAITING_BYTES
  }

  drained(): Promise<void> {
    const response = this.#response
    // An event that is over does not come again.
    if (response.destroyed || !response.writableNeedDrain) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => {
        response.off('drain', go)
        response.off('close', go)
        resolve()
      }
      response.on('drain', go)
      response.on('close', go)
    })
  }

  get waitingBytes(): number {
    return this.#response.writableLength
  }

  end(): void {
    if (this.#isChunked) this.#response.write(LAST_CHUNK)
    this.#response.end()
  }

  cut(): void {
    const { socket } = this.#response
    // What was written still arrives; the chunk that would end the body does not.
    if (socket === null) this.#response.destroy()
    else socket.destroySoon()
  }
}
