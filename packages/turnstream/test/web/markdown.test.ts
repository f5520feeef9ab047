import { Lexer, type Token, Tokenizer } from 'marked'
import { describe, expect, test, vi } from 'vitest'
import { codeParts, MAX_PART_CHARS } from '../../../../web/src/markdown/code-parts.ts'
import { type MarkdownDocument, parseMarkdown } from '../../../../web/src/markdown/document.ts'
import { decodeEntities } from '../../../../web/src/markdown/entities.ts'
import { inlineTokensOf } from '../../../../web/src/markdown/lexer.ts'

const FIXTURES: Readonly<Record<string, string>> = {
  prose:
    'A first paragraph\nof two lines.\n\nA **bold** one, with `code` and [a link](https://example.com/a).\n\nEnd.',
  lists:
    '- one\n- two\n\n  still two\n\n- three\n\nAfter.\n\n1. a\n2. b\n   - c\n\n\nLast.\n\nReally.',
  code: 'Look:\n\n```ts\nconst a = 1\n\n\nconst b = `x`\n```\n\nand\n\n~~~\nplain\n~~~\n\nDone.\n\nYes.',
  tables:
    '| a | b |\n|---|---|\n| 1 | 2 |\n\nText.\n\n> quote\n> more\n\nand\n\n---\n\n## Heading\n\nbody',
  setext: 'Title\n=====\n\nOther\n-----\n\nText\n\nMore\n\nEnd',
  html: '<div>\n<script>alert(1)</script>\n\n</div>\n\nText <b>bold</b>\n\nMore\n\nEnd',
  references:
    'See [one][1] and [two].\n\nText.\n\nMore.\n\n[1]: https://example.com/1\n[two]: https://example.com/2\n',
  windows: 'One\r\n\r\nTwo\r\n\r\n- a\r\n- b\r\n\r\nThree\r\n\r\nFour',
  formulas:
    'A \\(x_1\\) and\n\\[\na\n= b\n\\]\nthen $y$.\n\n$$\nz\n$$\n\nMore\n\n\\[ open\n\nEnd $5',
  indented: 'Text\n\n    code one\n\n    code two\n\nText\n\nMore\n\nEnd',
}

interface Nested {
  readonly tokens?: readonly Token[]
}

/** Reads everything, as a page that shows all of it. Returns how deep it is. */
function readAll(blocks: readonly Token[]): number {
  const depths = inlineTokensOf(blocks).map((token) => {
    const {
      tokens = [],
      items = [],
      header = [],
      rows = [],
    } = token as Nested & {
      readonly items?: readonly Nested[]
      readonly header?: readonly Nested[]
      readonly rows?: readonly (readonly Nested[])[]
    }
    const parts = [
      tokens,
      ...[...items, ...header, ...rows.flat()].map((each) => each.tokens ?? []),
    ]
    return 1 + Math.max(...parts.map(readAll))
  })
  return Math.max(0, ...depths)
}

function withoutPrevious(text: string, isFinal: boolean) {
  const { blocks } = parseMarkdown(text, { isFinal })
  readAll(blocks)
  return blocks
}

describe('a text that grows', () => {
  test.each(Object.entries(FIXTURES))('is parsed correctly at every prefix: %s', (_name, text) => {
    let previous: MarkdownDocument | undefined
    for (let length = 1; length <= text.length; length++) {
      const prefix = text.slice(0, length)
      const grown = parseMarkdown(prefix, { previous, isFinal: false })
      readAll(grown.blocks)
      expect(grown.blocks, prefix).toEqual(withoutPrevious(prefix, false))
      previous = grown
    }
    const final = parseMarkdown(text, { previous, isFinal: true })
    readAll(final.blocks)
    expect(final.blocks).toEqual(withoutPrevious(text, true))
  })

  test('keeps the identity of finished blocks', () => {
    const first = parseMarkdown('One\n\nTwo\n\nThree', { isFinal: false })
    const second = parseMarkdown('One\n\nTwo\n\nThree and', { previous: first, isFinal: false })
    expect(first.finished).toBeGreaterThan(0)
    expect(second.blocks[0]).toBe(first.blocks[0])
    expect(second.blocks.at(-1)).not.toBe(first.blocks.at(-1))
  })

  test('parses only its end again', () => {
    const paragraphs = Array.from({ length: 2000 }, (_, index) => `Paragraph ${index}.`).join(
      '\n\n',
    )
    let previous = parseMarkdown(paragraphs, { isFinal: false })
    for (let step = 0; step < 20; step++) {
      const next = parseMarkdown(`${previous.text} more`, { previous, isFinal: false })
      const fresh = next.blocks.filter((block) => !previous.blocks.includes(block))
      expect(fresh.length).toBeLessThan(6)
      previous = next
    }
  })

  test('is parsed again when it does not continue the text before', () => {
    const previous = parseMarkdown('One\n\nTwo\n\nThree', { isFinal: false })
    const other = parseMarkdown('Eins\n\nZwei', { previous, isFinal: false })
    readAll(other.blocks)
    expect(other.blocks).toEqual(withoutPrevious('Eins\n\nZwei', false))
  })
})

describe('marks that are still open', () => {
  const shown = (text: string) => {
    const [block] = withoutPrevious(text, false)
    const tokens = block && 'tokens' in block ? (block.tokens ?? []) : []
    return tokens.map(({ type, ...token }) => [type, 'text' in token ? token.text : ''])
  }

  test.each([
    [
      'Some **bold',
      [
        ['text', 'Some '],
        ['strong', 'bold'],
      ],
    ],
    ['Some **', [['text', 'Some ']]],
    [
      'Some `code',
      [
        ['text', 'Some '],
        ['codespan', 'code'],
      ],
    ],
    ['See [the docs](https://exam', [['text', 'See the docs']]],
    ['See [the do', [['text', 'See the do']]],
  ])('%s', (text, expected) => {
    expect(shown(text)).toEqual(expected)
  })

  test('stay literal in the end', () => {
    const [block] = withoutPrevious('Some **bold', true)
    expect(block).toMatchObject({ tokens: [{ type: 'text', text: 'Some **bold' }] })
  })

  test('are not closed in code', () => {
    const [block] = parseMarkdown('```\na ** b', { isFinal: false }).blocks
    expect(block).toMatchObject({ type: 'code', text: 'a ** b' })
  })
})

/** Texts that are hard on parsers, of about this many characters. */
const HARD: Readonly<Record<string, (length: number) => string>> = {
  quotes: (length) => '>'.repeat(length),
  'ordered lists': (length) => '1. '.repeat(length / 3),
  'quotes and lists': (length) => '> - 1. '.repeat(length / 7),
  'lists that look like rules': (length) => `${'- '.repeat(length / 2)}a`,
  'quotes of every depth': (length) =>
    Array.from({ length: length / 20 }, (_, index) => `${'>'.repeat(index % 40)} a\n`).join(''),
  'nested emphasis': (length) => '*a '.repeat(length / 6) + 'b* '.repeat(length / 6),
  'open emphasis': (length) => '*a '.repeat(length / 3),
  'emphasis that quotes leave open': (length) => '> **'.repeat(length / 4),
  'emphasis that may open and close': (length) => '*a$'.repeat(length / 3),
  'emphasis before headings': (length) => '**# $\t**'.repeat(length / 8),
  'struck text that quotes leave open': (length) => '> ~~'.repeat(length / 4),
  stars: (length) => '*'.repeat(length),
  brackets: (length) => '['.repeat(length),
  'open links': (length) => '[a]('.repeat(length / 4),
  'nested links': (length) => '[['.repeat(length / 4) + ']]'.repeat(length / 4),
  'angle brackets': (length) => '<'.repeat(length),
  'open tags': (length) => '<a href="'.repeat(length / 9),
  'open comments': (length) => '<!-- '.repeat(length / 5),
  backticks: (length) => '`'.repeat(length),
  'open fences': (length) => '```a\n~~~\n'.repeat(length / 9),
  'long table': (length) => `|a|b|\n|-|-|\n${'|1|2|\n'.repeat(length / 6)}`,
  'wide table': (length) => `${'|a'.repeat(length / 4)}|\n${'|-'.repeat(length / 4)}|\n`,
  dollars: (length) => '$a '.repeat(length / 3),
  'open formulas': (length) => '\\(a\\['.repeat(length / 5),
  'open display formulas': (length) => '$$a\n\\[b\n'.repeat(length / 8),
  fences: (length) => '```\na\n'.repeat(length / 6),
  emphasis: (length) => '*a* '.repeat(length / 4),
  'long list': (length) => '- a\n'.repeat(length / 4),
}

describe('a text that is hard to parse', () => {
  /** Counts the matches of patterns while something runs. */
  function matchesOf(run: () => void): number {
    let count = 0
    const exec = Reflect.get(RegExp.prototype, 'exec') as (this: RegExp, text: string) => unknown
    const counted = function (this: RegExp, text: string) {
      count += 1
      return exec.call(this, text)
    }
    // A spy would keep every match.
    Reflect.set(RegExp.prototype, 'exec', counted)
    try {
      run()
    } finally {
      Reflect.set(RegExp.prototype, 'exec', exec)
    }
    return count
  }

  /** The characters that the lexer is given, at all levels. */
  function workOf(text: string): { work: number; depth: number } {
    const spies = [
      vi.spyOn(Lexer.prototype, 'blockTokens'),
      vi.spyOn(Lexer.prototype, 'inlineTokens'),
    ]
    const indexOf = vi.spyOn(String.prototype, 'indexOf')
    const { blocks } = parseMarkdown(text, { isFinal: true })
    const depth = readAll(blocks)
    const parts = spies.flatMap(({ mock }) => mock.calls.map(([part]) => part))
    const searched = indexOf.mock.contexts.map(String)
    vi.restoreAllMocks()
    const work = [...parts, ...searched].reduce((sum, { length }) => sum + length, 0)
    expect(
      blocks
        .map(({ raw }) => raw)
        .join('')
        .trimEnd(),
    ).toBe(text.trimEnd())
    return { work, depth }
  }

  test.each(Object.entries(HARD))('has bounded depth and linear work: %s', (_name, make) => {
    const small = workOf(make(4000))
    const large = workOf(make(40_000))
    // Blocks and the inline text inside them have a bound each, and a list counts twice.
    expect(large.depth).toBeLessThanOrEqual(100)
    expect(large.work).toBeLessThanOrEqual(15 * small.work)
  })

  test.each(Object.entries(HARD))('matches patterns in linear work: %s', (_name, make) => {
    for (const isFinal of [true, false]) {
      const [small = 0, large = 0] = [4000, 40_000].map((length) =>
        matchesOf(() => readAll(parseMarkdown(make(length), { isFinal }).blocks)),
      )
      expect(small).toBeGreaterThan(0)
      expect(large).toBeLessThanOrEqual(15 * small)
    }
  })

  test('is shown as text where it is too deep', () => {
    const text = '>'.repeat(5000)
    let [inner] = withoutPrevious(text, true)
    while (inner?.type === 'blockquote') [inner] = inner.tokens ?? []
    expect(inner).toMatchObject({ type: 'text', text: expect.stringMatching(/^>{4900,}$/) })
  })

  test('is shown as text where the lexer fails, and only there', () => {
    const text = '# Title\n\n> a quote\n\nThe *end*'
    vi.spyOn(Tokenizer.prototype, 'blockquote').mockImplementationOnce(() => {
      throw new Error('a fault')
    })
    const blocks = withoutPrevious(text, true).filter(({ type }) => type !== 'space')
    expect(blocks).toMatchObject([
      { type: 'heading', text: 'Title' },
      { type: 'text', text: '> a quote\n\n' },
      { type: 'paragraph', tokens: [{ type: 'text' }, { type: 'em', text: 'end' }] },
    ])
  })
})

describe('code is highlighted in parts', () => {
  const LINE = 'const value = 1\n'

  test.each([
    ['one word', 'a'.repeat(50_000)],
    ['one character of two units', `a${'\u{1f600}'.repeat(20_000)}`],
    ['lines', LINE.repeat(3000)],
    ['blank lines', '\n'.repeat(50_000)],
    ['paragraphs', `${LINE.repeat(100)}\n`.repeat(30)],
    ['a short text', LINE],
  ])('of bounded length and number: %s', (_name, code) => {
    const parts = [...codeParts(code)]
    expect(parts.join('')).toBe(code)
    expect(Math.max(...parts.map(({ length }) => length))).toBeLessThanOrEqual(MAX_PART_CHARS)
    expect(parts.length).toBeLessThanOrEqual(1 + (2 * code.length) / MAX_PART_CHARS)
    // With this flag only half a pair matches.
    expect(parts.filter((part) => /\p{Surrogate}/u.test(part))).toEqual([])
  })

  test.each([
    ['a line', LINE.repeat(3000), LINE],
    ['a blank line', `${LINE.repeat(100)}\n`.repeat(30), `${LINE}\n`],
  ])('that end after %s', (_name, code, end) => {
    const parts = [...codeParts(code)]
    expect(parts.length).toBeGreaterThan(1)
    expect(parts.every((part) => part.endsWith(end))).toBe(true)
  })
})

describe('TeX', () => {
  const mathIn = (text: string) => {
    const found: string[] = []
    const collect = (tokens: readonly Token[]) => {
      for (const token of inlineTokensOf(tokens)) {
        if (token.type === 'math') found.push(token['text'])
        else collect((token as Nested).tokens ?? [])
      }
    }
    collect(withoutPrevious(text, true))
    return found
  }

  test.each([
    ['so \\(a_1 * b_2 * c\\) holds', ['\\(a_1 * b_2 * c\\)']],
    ['**bold $x_1$ too**', ['$x_1$']],
    ['where $\\{a\\}$ and $$b*c*d$$', ['$\\{a\\}$', '$$b*c*d$$']],
    ['Thus\n\\[\n a\n = b\n + c\n\\]\nholds', ['\\[\n a\n = b\n + c\n\\]']],
    ['$$\n\\frac{a}{b}\n$$\n\nEnd', ['$$\n\\frac{a}{b}\n$$']],
    ['inline \\[x*y*z\\] too', ['\\[x*y*z\\]']],
    ['costs $5 and $6, or US$7', []],
    ['$HOME and $PATH', []],
    ['\\[no link\\](https://example.com)', []],
    ['`$x$` in code', []],
    ['open \\(a', []],
  ])('is taken as it was written: %j', (text, formulas) => {
    expect(mathIn(text)).toEqual(formulas)
  })
})

test.each([
  ['a &lt;b&gt; &amp;&quot;', 'a <b> &"'],
  ['&#65;&#x42;', 'AB'],
  ['&#x110000;&#0;', '\uFFFD\uFFFD'],
  ['&unknown; &', '&unknown; &'],
])('decodes the entities of %s', (text, decoded) => {
  expect(decodeEntities(text)).toBe(decoded)
})
