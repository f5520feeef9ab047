const LINE_END = '\r\n'

/**
 * One or more whole SSE frames as bytes, made once and written to every reader. They are kept the way they
 * travel over HTTP/1.1, as a chunk: Node would write its size, its line ends and the frame one by one, for
 * every reader anew.
 */
export class Frame {
  /** The cursor that the frame carries, if it carries one. */
  readonly id: string | undefined
  readonly chunk: Buffer
  readonly #start: number

  constructor(text: string, id?: string) {
    const size = Buffer.byteLength(text).toString(16)
    this.id = id
    this.chunk = Buffer.from(`${size}${LINE_END}${text}${LINE_END}`)
    this.#start = size.length + LINE_END.length
  }

  /** The frame without what makes it a chunk. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.chunk.subarray(this.#start, -LINE_END.length) as Uint8Array<ArrayBuffer>
  }
}

/** The chunk that ends a body. */
export const LAST_CHUNK = Buffer.from(`0${LINE_END}${LINE_END}`)
