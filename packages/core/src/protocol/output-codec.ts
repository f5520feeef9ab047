import type { StreamOutput } from './stream-output.ts'

/** Returns the key of an output in the log `processed`: its item id, or the type of a turn event. */
export function outputKey(output: StreamOutput): string {
  return 'itemId' in output ? output.itemId : output.type
}

/** `JSON.stringify` alone is faster for shorter texts. */
const MIN_REUSED_CHARS = 512

/**
 * Encodes the outputs of one turn as JSON. A snapshot repeats the text of the previous one, and escaping a text costs
 * ten times as much as copying it. So only the new part is escaped.
 */
export class OutputEncoder {
  /** The latest long text, and the position of its escaped form in its JSON. */
  #content = ''
  #json = ''
  #start = 0
  #end = 0

  encode(output: StreamOutput): string {
    if (!('content' in output) || !(output.content.length >= MIN_REUSED_CHARS)) {
      return JSON.stringify(output)
    }
    const { type, turnId, threadId, itemId, status, content, ...rest } = output
    const fields = JSON.stringify({ type, turnId, threadId, itemId, status })
    const before = `${fields.slice(0, -1)},"content":"`
    const escaped = this.#escape(content)
    const after = JSON.stringify(rest).slice(1)
    this.#content = content
    this.#json = `${before}${escaped}"${after === '}' ? '' : ','}${after}`
    this.#start = before.length
    this.#end = before.length + escaped.length
    return this.#json
  }

  #escape(content: string): string {
    const { length } = this.#content
    // Half a character is escaped differently from a whole one.
    const isSplit = (content.charCodeAt(length - 1) & 0xfc00) === 0xd800
    if (isSplit || length === 0 || content.slice(0, length) !== this.#content) {
      return JSON.stringify(content).slice(1, -1)
    }
    const added = JSON.stringify(content.slice(length)).slice(1, -1)
    return this.#json.slice(this.#start, this.#end) + added
  }
}
