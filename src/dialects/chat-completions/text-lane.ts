interface Text {
  /** What the client has of it. */
  sent: string
  /** What it does not have yet. */
  waiting: string
  open: boolean
}

/**
 * The texts of several items as the one text that a message has. They are sent one after another, in
 * the order in which they were opened: of items that overlap, the later one waits until the earlier
 * ends. What was sent cannot be unsaid.
 *
 * Every method returns what is to be sent now.
 */
export class TextLane {
  readonly #texts = new Map<string, Text>()
  #closed = false

  open(id: string, text: string): string {
    if (this.#closed) return ''
    this.#add(id).waiting = text
    return this.#next()
  }

  grow(id: string, piece: string): string {
    const text = this.#texts.get(id)
    if (text === undefined) return ''
    text.waiting += piece
    return this.#next()
  }

  /** Also for a text that was not opened. A final text that does not begin with what was sent adds nothing. */
  finish(id: string, final: string): string {
    if (this.#closed) return ''
    const text = this.#texts.get(id) ?? this.#add(id)
    text.waiting = final.startsWith(text.sent) ? final.slice(text.sent.length) : ''
    return this.end(id)
  }

  /** The item is over, with the text it has. */
  end(id: string): string {
    const text = this.#texts.get(id)
    if (text !== undefined) text.open = false
    return this.#next()
  }

  /** The item is given up, and what the client does not have of it. */
  drop(id: string): string {
    const text = this.#texts.get(id)
    if (text !== undefined) text.waiting = ''
    return this.end(id)
  }

  /** The rest of all texts. Nothing is sent after this, whatever still comes. */
  close(): string {
    const rest = Array.from(this.#texts.values(), ({ waiting }) => waiting).join('')
    this.#closed = true
    this.#texts.clear()
    return rest
  }

  #add(id: string): Text {
    const text = { sent: '', waiting: '', open: true }
    this.#texts.set(id, text)
    return text
  }

  #next(): string {
    let sent = ''
    for (const [id, text] of this.#texts) {
      sent += text.waiting
      text.sent += text.waiting
      text.waiting = ''
      if (text.open) break
      this.#texts.delete(id)
    }
    return sent
  }
}
