import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { decodeChunk } from '../../src/protocol/event-codec.ts'
import { linesOf, parsed, stored } from './event-texts.ts'

/** Texts of events, and the lines that the encoder wrote for them when logs still held any text. */
const FIXTURE = new URL(
  '../../../../test/fixtures/event-lines/before-event-codec.json',
  import.meta.url,
)

const chunks = JSON.parse(readFileSync(FIXTURE, 'utf8')) as Record<
  string,
  { texts: string[]; lines: string[] }
>

describe('a chunk that an older version stored', () => {
  test.each(Object.entries(chunks))('of %s is read', (_what, { texts, lines }) => {
    expect(decodeChunk(stored(lines))).toEqual(texts.map(parsed))
  })

  test.each(Object.entries(chunks))('of %s can be continued', (_what, { texts, lines }) => {
    const more = texts.map((text) => JSON.stringify(JSON.parse(text)))
    const events = decodeChunk(stored([...lines, ...linesOf(more)]))
    expect(events).toEqual([...texts.map(parsed), ...more.map(parsed)])
  })

  test.each([
    'the events of a turn',
    'events of several runs, traces and id prefixes',
    'more templates than have a character',
  ])('of %s has the lines that are written today', (what) => {
    expect(linesOf(chunks[what]?.texts ?? [])).toEqual(chunks[what]?.lines)
  })
})
