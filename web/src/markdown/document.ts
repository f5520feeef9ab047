import type { Token } from 'marked'
import { lexBlocks } from './lexer.ts'

/** A markdown text in blocks. Blocks that cannot change any more keep their identity while the text grows. */
export interface MarkdownDocument {
  readonly text: string
  readonly blocks: readonly Token[]
  /** How many of the blocks stay unchanged when text is added. */
  readonly finished: number
}

/** What one part of a text can change in another: reference definitions, footnotes, and line ends to normalise. */
const SPANS_BLOCKS = /^ {0,3}\[[^\]\n]+\]:|[\r\uFEFF]/m

/**
 * Parses `text`. When it continues `previous`, only the blocks at its end are parsed again. `isFinal`: nothing
 * follows, so the text is parsed at once, and open marks stay literal.
 */
export function parseMarkdown(
  text: string,
  { previous, isFinal }: { previous?: MarkdownDocument | undefined; isFinal: boolean },
): MarkdownDocument {
  if (isFinal) {
    const blocks = lexBlocks(text)
    return { text, blocks, finished: blocks.length }
  }
  const spansBlocks = SPANS_BLOCKS.test(text)
  const continues = previous !== undefined && !spansBlocks && text.startsWith(previous.text)
  const kept = continues ? previous.blocks.slice(0, previous.finished) : []
  const start = kept.reduce((sum, { raw }) => sum + raw.length, 0)
  const blocks = [...kept, ...lexBlocks(closeOpenMarks(text.slice(start)))]
  return { text, blocks, finished: spansBlocks ? 0 : countFinished(blocks) }
}

/** A block is finished when a blank line ends it and at least two more follow: a list may continue after one. */
function countFinished(blocks: readonly Token[]): number {
  let following = 0
  for (let index = blocks.length - 1; index > 0; index--) {
    if (blocks[index]?.type !== 'space') following++
    else if (following >= 2) return index + 1
  }
  return 0
}

/** Closes emphasis, code and links that the last paragraph leaves open, so that shown text does not jump. */
function closeOpenMarks(text: string): string {
  const start = Math.max(text.lastIndexOf('\n\n'), 0)
  if (isInFence(text)) return text
  const tail = closeLink(text.slice(start))
  const ticks = tail.match(/`+/g)?.at(-1)
  if (ticks !== undefined && countOf(tail, /`+/g) % 2 === 1)
    return text.slice(0, start) + tail + ticks
  let closed = tail.replace(/(\*\*|__|~~|\*|_)$/, '')
  for (const mark of ['**', '~~', '__']) {
    if ((closed.split(mark).length - 1) % 2 === 1) closed = closed.trimEnd() + mark
  }
  return text.slice(0, start) + closed
}

/** `[text](https://exa` shows its text only. */
function closeLink(text: string): string {
  return text.replace(/(?<!\\)!?\[([^\][\n]*)(?:\]\([^()\n]*)?$/, '$1')
}

function isInFence(text: string): boolean {
  return countOf(text, /^ {0,3}(?:```|~~~)/gm) % 2 === 1
}

function countOf(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0
}
