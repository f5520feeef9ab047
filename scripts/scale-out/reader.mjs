// A reader that may be disconnected, and may reconnect to another gateway.
const built = new URL('../../packages/turnstream/dist/index.js', import.meta.url).href
/** @type {typeof import('../../packages/turnstream/src/index.ts')} */
const { SseDecoder } = await import(built)

/**
 * @typedef {object} Frame
 * @property {string} id
 * @property {string} event
 * @property {any} data
 */

const RETRY_MS = 50

export class Reader {
  /** @type {Frame[]} */
  frames = []
  endedAt = 0
  #path
  /** @type {{ count: number, resolve: (value?: unknown) => void }[]} */
  #awaited = []

  /** @param {string} path */
  constructor(path) {
    this.#path = path
  }

  /** Resolves when `count` frames have arrived. @param {number} count */
  hasSeen(count) {
    return new Promise((resolve) => {
      this.#awaited.push({ count, resolve })
    })
  }

  /** The cursor to resume after. */
  get cursor() {
    return this.frames.findLast(({ id }) => id !== '')?.id
  }

  /**
   * Follows the stream to its end. After a disconnect it uses the gateway that `urlOf` returns.
   * @param {() => string} urlOf
   */
  async follow(urlOf) {
    for (;;) {
      try {
        if (await this.#readOnce(urlOf())) break
      } catch {
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
    this.endedAt = performance.now()
    return this
  }

  /** @param {Frame} frame */
  #take(frame) {
    this.frames.push(frame)
    for (const { count, resolve } of this.#awaited) if (this.frames.length >= count) resolve()
  }

  /** Returns whether the stream has ended. @param {string} url */
  async #readOnce(url) {
    const { cursor } = this
    const headers = cursor === undefined ? {} : { 'last-event-id': cursor }
    const response = await fetch(`${url}${this.#path}`, { headers })
    if (response.status === 204) return true
    if (response.body === null || !response.ok) throw new Error(`status ${response.status}`)
    const decoder = new SseDecoder()
    for await (const bytes of /** @type {AsyncIterable<Uint8Array>} */ (response.body)) {
      for (const { id, event, data } of decoder.feed(bytes)) {
        this.#take({ id, event, data: JSON.parse(data) })
      }
    }
    return isEnd(this.frames.at(-1))
  }
}

/** @param {Frame | undefined} frame */
function isEnd(frame) {
  const type = frame?.data.type
  return ENDS.has(type)
}

const ENDS = new Set([
  'response_done',
  'response_error',
  'turn_aborted_by_user',
  'turn_complete',
  'turn_error',
])
