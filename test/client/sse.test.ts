import { describe, expect, test } from 'vitest'
import { createEventReader } from '../../src/client/sse.ts'
import type { SseEvent } from '../../src/sse/decode.ts'
import { bytesOf, everyCut } from '../sse/cuts.ts'
import { FIXTURES } from '../sse/fixtures.ts'

function read(chunks: Iterable<Uint8Array>, onComment?: (text: string) => void): SseEvent[] {
  const reader = createEventReader(onComment)
  return Array.from(chunks).flatMap((chunk) => reader(chunk))
}

/** Browsers and Node up to 25 read the second byte order mark as text. No gateway sends one. */
const READ = FIXTURES.filter(({ name }) => !name.startsWith('two byte order marks'))

describe.each(READ)('$name', ({ stream, events }) => {
  test('is decoded as by SseDecoder, wherever it is split', () => {
    for (const chunks of everyCut(bytesOf(stream))) expect(read(chunks)).toEqual(events)
  })
})

test('comments are reported', () => {
  for (const chunks of everyCut(bytesOf(': one\n\ndata: a\n:two\r\n:\n\n: cut'))) {
    const comments: string[] = []
    expect(read(chunks, (text) => comments.push(text))).toHaveLength(1)
    expect(comments).toEqual(['one', 'two', ''])
  }
})

test.each([
  ['a line that never ends', () => bytesOf('x'.repeat(1_000_000))],
  ['an event that never ends', () => bytesOf(`data: ${'x'.repeat(1_000_000)}\n`)],
])('%s is refused at 32 Mi characters', (_name, chunk) => {
  const reader = createEventReader()
  const bytes = chunk()
  const endless = () => {
    for (let count = 0; count < 40; count++) reader(bytes)
  }
  expect(endless).toThrow(expect.objectContaining({ code: 'EVENT_TOO_LARGE' }))
})
