import { describe, expect, test } from 'vitest'
import { type MarkdownDocument, parseMarkdown } from '../../web/src/markdown/document.ts'
import { decodeEntities } from '../../web/src/markdown/entities.ts'

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
  indented: 'Text\n\n    code one\n\n    code two\n\nText\n\nMore\n\nEnd',
}

function withoutPrevious(text: string, isFinal: boolean) {
  return parseMarkdown(text, { isFinal }).blocks
}

describe('a text that grows', () => {
  test.each(Object.entries(FIXTURES))('is parsed correctly at every prefix: %s', (_name, text) => {
    let previous: MarkdownDocument | undefined
    for (let length = 1; length <= text.length; length++) {
      const prefix = text.slice(0, length)
      const grown = parseMarkdown(prefix, { previous, isFinal: false })
      expect(grown.blocks, prefix).toEqual(withoutPrevious(prefix, false))
      previous = grown
    }
    const final = parseMarkdown(text, { previous, isFinal: true })
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
    expect(other.blocks).toEqual(withoutPrevious('Eins\n\nZwei', false))
  })
})

describe('marks that are still open', () => {
  const shown = (text: string) => {
    const [block] = parseMarkdown(text, { isFinal: false }).blocks
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
    const [block] = parseMarkdown('Some **bold', { isFinal: true }).blocks
    expect(block).toMatchObject({ tokens: [{ type: 'text', text: 'Some **bold' }] })
  })

  test('are not closed in code', () => {
    const [block] = parseMarkdown('```\na ** b', { isFinal: false }).blocks
    expect(block).toMatchObject({ type: 'code', text: 'a ** b' })
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
