import type {
  MessageSnapshot,
  StreamOutput,
  Thinking,
  ToolCall,
} from '../../protocol/stream-output.ts'
import type { Terminal } from '../terminal.ts'
import { clip, describeCall, printable } from '../text.ts'

type Text = MessageSnapshot | Thinking

/**
 * Turns outputs into what a terminal prints: text as it grows, and everything else as lines. It only ever
 * adds, because what was printed cannot be taken back, and prints nothing twice.
 */
export class ChatView {
  readonly #style: Terminal['style']
  readonly #columns: number
  readonly #printed = new Map<string, string>()
  readonly #settled = new Set<string>()
  readonly #faults = new Set<string>()
  /** The item whose text the cursor stands behind; undefined at the start of a line. */
  #current: string | undefined
  #isEmpty = true

  constructor({ style, columns }: Pick<Terminal, 'style' | 'columns'>) {
    this.#style = style
    this.#columns = columns
  }

  /** What to print for an output; empty when it says nothing new. */
  show(output: StreamOutput): string {
    switch (output.type) {
      case 'turn_started':
        return ''
      case 'message':
        // The user has just typed it.
        return output.origin === 'user' ? '' : this.#text(output)
      case 'thinking':
        return this.#text(output)
      case 'tool_call':
        return this.#toolCall(output)
      case 'turn_complete':
        return output.status === 'aborted'
          ? `${this.#newLine()}${this.#style('yellow', '(stopped)')}\n`
          : this.#newLine()
      case 'turn_error':
        return this.#fault(output.error.code, output.error.message)
    }
  }

  /** A line that is not part of the answer. */
  note(text: string): string {
    return `${this.#newLine()}${this.#dim(`(${text})`)}\n`
  }

  #text(output: Text): string {
    const added = this.#grown(output)
    const { status, errorCode = 'error', errorMessage = '' } = output
    // Whoever stopped the turn knows; the end of the turn says it.
    if (status !== 'error' || errorCode === 'ITEM_CANCELLED') return added
    return added + this.#fault(errorCode, errorMessage)
  }

  #grown({ itemId, type, content }: Text): string {
    const before = this.#printed.get(itemId) ?? ''
    if (content === before) return ''
    this.#printed.set(itemId, content)
    const isGrowth = content.startsWith(before)
    const news = printable(isGrowth ? content.slice(before.length) : content)
    const isElsewhere = this.#current !== itemId
    let lead = isElsewhere || !isGrowth ? this.#newLine() : ''
    if (!isGrowth) lead += '(corrected) '
    // A blank line stands before a new text.
    else if (isElsewhere && before === '' && !this.#isEmpty) lead += '\n'
    this.#current = itemId
    this.#isEmpty = false
    return lead + (type === 'thinking' ? this.#dim(news) : news)
  }

  #toolCall(output: ToolCall): string {
    const { itemId, status, errorCode, errorMessage = '' } = output
    // A call is shown when it is made and when it has its output.
    const stage = `${itemId} ${status}`
    if (this.#settled.has(stage)) return ''
    this.#settled.add(stage)
    const line = this.#style('cyan', clip(`⚙ ${describeCall(output)}`, this.#columns))
    const shown = `${this.#newLine()}${line}\n`
    this.#isEmpty = false
    return status === 'error' ? shown + this.#fault(errorCode ?? 'error', errorMessage) : shown
  }

  /** The turn fails as its last item has failed: once is enough. */
  #fault(code: string, message: string): string {
    const text = printable(`${code}: ${message}`)
    if (this.#faults.has(text)) return this.#newLine()
    this.#faults.add(text)
    return `${this.#newLine()}${this.#style('red', `✗ ${text}`)}\n`
  }

  #newLine(): string {
    if (this.#current === undefined) return ''
    this.#current = undefined
    return '\n'
  }

  /** Line by line: a style that runs over the end of a line colours the rest of it in some terminals. */
  #dim(text: string): string {
    return text
      .split('\n')
      .map((line) => (line === '' ? '' : this.#style('dim', line)))
      .join('\n')
  }
}
