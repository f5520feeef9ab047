import { Lexer, type Token, Tokenizer, type Tokens, type TokensList } from 'marked'
import { MATH } from './math.ts'

/** Deeper quotes, lists and emphasis are shown as they were written: a line of `>` would overflow the stack. */
const MAX_DEPTH = 24

/** How many characters of a text may be searched for the ends of emphasis, beside 20 times its length. */
const MAX_SEARCHED = 500_000

/** How to read inline tokens that were not needed yet. */
const unread = new WeakMap<readonly Token[], () => void>()

/** Splits markdown into blocks. `inlineTokensOf` reads what is inside a paragraph, heading or cell when it is shown. */
export function lexBlocks(text: string): Token[] {
  const tokenizer = new BoundedTokenizer(MAX_SEARCHED + 20 * text.length)
  return new BoundedLexer({ gfm: true, extensions: MATH, tokenizer }).lex(text)
}

export function inlineTokensOf(tokens: readonly Token[] = []): readonly Token[] {
  const read = unread.get(tokens)
  unread.delete(tokens)
  read?.()
  return tokens
}

/** Every mark that opens emphasis looks for its end in the rest of the text. After too many in vain, marks are text. */
class BoundedTokenizer extends Tokenizer {
  #left: number

  constructor(left: number) {
    super()
    this.#left = left
  }

  override emStrong(
    text: string,
    masked: string,
    before?: string,
  ): Tokens.Em | Tokens.Strong | undefined {
    if (this.#left < 0 || !this.rules.inline.emStrongLDelim.test(text)) return undefined
    const token = super.emStrong(text, masked, before)
    this.#left -= token === undefined ? text.length : token.raw.length
    return token
  }

  override del(text: string, masked: string, before?: string): Tokens.Del | undefined {
    if (this.#left < 0 || !text.startsWith('~')) return undefined
    const token = super.del(text, masked, before)
    this.#left -= token === undefined ? text.length : token.raw.length
    return token
  }
}

class BoundedLexer extends Lexer {
  #depth = 0

  override lex(text: string): TokensList {
    this.blockTokens(text.replace(/\r\n?/g, '\n'), this.tokens)
    for (const { src, tokens } of this.inlineQueue) {
      unread.set(tokens, () => this.inlineTokens(src, tokens))
    }
    this.inlineQueue = []
    return this.tokens
  }

  override blockTokens(text: string, tokens?: Token[], isClipped?: boolean): Token[]
  override blockTokens(text: string, tokens?: TokensList, isClipped?: boolean): TokensList
  override blockTokens(text: string, tokens: Token[] = [], isClipped?: boolean): Token[] {
    const first = tokens.length
    let rest = text
    while (!this.#descend(() => super.blockTokens(rest, tokens, isClipped))) {
      const read = tokens.slice(first).reduce((sum, { raw }) => sum + raw.length, 0)
      const isTooDeep = this.#depth >= MAX_DEPTH
      // The block that cannot be read is text. The next one may be fine.
      const end = isTooDeep ? -1 : text.indexOf('\n\n', read)
      tokens.push(textToken(end < 0 ? text.slice(read) : text.slice(read, end + 2)))
      if (end < 0) break
      rest = text.slice(end + 2)
    }
    // As the lexer leaves it.
    this.state.top = true
    return tokens
  }

  override inlineTokens(text: string, tokens: Token[] = []): Token[] {
    if (!this.#descend(() => super.inlineTokens(text, tokens))) {
      tokens.splice(0, Infinity, textToken(text))
    }
    return tokens
  }

  /** Whether the next level could be read. */
  #descend(read: () => void): boolean {
    if (this.#depth >= MAX_DEPTH) return false
    this.#depth += 1
    try {
      read()
      return true
    } catch {
      return false
    } finally {
      this.#depth -= 1
    }
  }
}

function textToken(text: string): Token {
  return { type: 'text', raw: text, text }
}
