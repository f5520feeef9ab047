import fc from 'fast-check'
import { expect, test } from 'vitest'
import { hasManyUnpaired, MAX_UNPAIRED } from '../../src/server/unpaired-surrogates.ts'

const MANY = MAX_UNPAIRED + 1

test.each([
  ['first halves', String.raw`\ud800`, true],
  ['second halves, in capitals', String.raw`\uDFFF`, true],
  ['halves in the wrong order', String.raw`\udc00\ud800.`, true],
  ['halves apart', String.raw`\udbff.\udc00`, true],
  ['a first half before another escape', String.raw`\ud800\n`, true],
  ['a half after an escaped backslash', String.raw`\\\ud800`, true],
  ['escaped pairs', String.raw`\ud83d\ude00`, false],
  ['pairs of JSON within JSON', String.raw`\\ud83d\\ude00`, false],
  ['other escapes', String.raw`\ud7ff\ue000\"\n\\`, false],
  ['characters', '🧵漢x', false],
])('%s', async (_what, text, isRefused) => {
  expect(await hasManyUnpaired(`["${text.repeat(MANY)}"]`)).toBe(isRefused)
  expect(await hasManyUnpaired(`["${text.repeat(MAX_UNPAIRED / 2)}"]`)).toBe(false)
})

const piece = fc.constantFrom('\ud83d', '\ude00', 'x', '\\', '"', '\n')

test('counts what is unpaired in any text', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
      // Its end must not pair with its beginning.
      const text = `${pieces.join('')}x`
      const unpaired = text.match(
        /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
      )
      const escaped = JSON.stringify(text).replaceAll(
        /[\ud800-\udfff]/g,
        (half) => String.raw`\u${half.charCodeAt(0).toString(16)}`,
      )
      expect(JSON.parse(escaped)).toBe(text)
      const isRefused = (unpaired?.length ?? 0) > 0
      expect(await hasManyUnpaired(escaped.repeat(MANY))).toBe(isRefused)
    }),
    { numRuns: 20 },
  )
})
