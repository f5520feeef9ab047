import type { MarkedOptions, Token } from 'marked'

/** TeX is shown as it was written: `\(a_1\)` would lose its backslashes, and `a*b*c` its stars. */
const INLINE = [
  /^\\\([\s\S]{1,2000}?\\\)/,
  // With an address it is an escaped link.
  /^\\\[[\s\S]{1,2000}?\\\](?!\()/,
  /^\$\$[^$]{1,2000}\$\$/,
  // Prices are none: "$5 and $6".
  /^\$(?!\s)(?:\\.|[^\\$\n]){1,1000}(?<!\s)\$(?!\d)/,
]

/** On lines of its own, without a blank one. */
const BLOCK_OPEN = /^ {0,3}(\\\[|\$\$)/
const BLOCK_END = /[ \t]*(?:\n+|$)/y
const BLANK_LINE = /\n[ \t]*\n/
const MAX_BLOCK = 2000
const BLOCK_START = /\n {0,3}(?:\\\[|\$\$)/

/** A formula further on in a paragraph is part of it. Every block looks for one: the rest of the text would be read each time. */
const MAX_START = 1000

/** Where text ends, with or without formulas. */
const TEXT_END = /[$\\<![`*~_]/

function toMath(raw: string | undefined): Token | undefined {
  return raw === undefined ? undefined : { type: 'math', raw, text: raw.trim() }
}

/** A pattern would read up to the limit again for each formula that is never closed. */
function blockFormula(text: string): string | undefined {
  const [open, mark] = BLOCK_OPEN.exec(text) ?? []
  if (open === undefined) return undefined
  const near = text.slice(0, MAX_BLOCK)
  const close = near.indexOf(mark === '$$' ? '$' : '\\]', open.length + 1)
  if (close < 0 || (mark === '$$' && near[close + 1] !== '$')) return undefined
  if (BLANK_LINE.test(near.slice(0, close))) return undefined
  BLOCK_END.lastIndex = close + 2
  return BLOCK_END.test(text) ? text.slice(0, BLOCK_END.lastIndex) : undefined
}

export const MATH: NonNullable<MarkedOptions['extensions']> = {
  childTokens: {},
  renderers: {},
  inline: [(text) => toMath(INLINE.map((pattern) => pattern.exec(text)?.[0]).find((raw) => raw))],
  // The other marks begin with a backslash, where text ends anyway.
  startInline: [
    (text) => {
      const end = text.search(TEXT_END)
      return text[end] === '$' ? end : -1
    },
  ],
  block: [(text) => toMath(blockFormula(text))],
  startBlock: [
    (text) => {
      const near = text.slice(0, MAX_START)
      const end = near.indexOf('\n\n')
      return (end < 0 ? near : near.slice(0, end)).search(BLOCK_START)
    },
  ],
}
