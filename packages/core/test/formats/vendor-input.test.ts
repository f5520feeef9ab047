import { describe, expect, test } from 'vitest'
import { replayRecording } from '../../../turnstream/src/providers/scripted/translate.ts'
import { type InputFormat, VendorInput, VendorReader } from '../../src/formats/vendor-input.ts'
import { context } from './replay.ts'

const utf8 = new TextEncoder()

function read(text: string, format?: InputFormat) {
  const events: unknown[] = []
  const input = new VendorInput((event) => events.push(event), format)
  input.feed(utf8.encode(text))
  input.end()
  return { events, fault: input.fault }
}

describe('the input format is detected from its start', () => {
  test.each([
    ['JSON lines', '{"a":1}\n{"a":2}\n'],
    ['JSON lines after blank ones', '\n \r\n{"a":1}\n\n{"a":2}'],
    ['JSON lines after a byte order mark', '\ufeff{"a":1}\n{"a":2}\n'],
    ['SSE', 'data: {"a":1}\n\ndata: {"a":2}\n\n'],
    ['SSE with names', 'event: x\ndata: {"a":1}\n\nevent: y\ndata: {"a":2}\n\n'],
    ['SSE after a comment', ': hello\n\ndata: {"a":1}\n\ndata: {"a":2}\n\n'],
    ['SSE without a last blank line', 'data: {"a":1}\n\ndata: {"a":2}'],
  ])('%s', (_name, text) => {
    expect(read(text)).toEqual({ events: [{ a: 1 }, { a: 2 }], fault: undefined })
  })

  test('[DONE] is a separate event', () => {
    expect(read('data: {"a":1}\n\ndata: [DONE]\n\n').events).toEqual([{ a: 1 }, '[DONE]'])
  })

  test('an empty input has no events', () => {
    expect(read(' \n\n')).toEqual({ events: [], fault: undefined })
  })
})

describe('unreadable input', () => {
  test.each([
    ['a line of JSON', '{"a":1}\n\n{"a":\n{"a":3}\n', 3],
    ['an event of SSE', 'data: {"a":1}\n\ndata: {"a":\n\ndata: {"a":3}\n\n', 2],
    ['a page of HTML', '<!doctype html><html></html>', 1],
  ])('%s is reported, and nothing after it is read', (_name, text, at) => {
    const { events, fault } = read(text)
    expect(events.length).toBeLessThan(2)
    expect(fault).toMatchObject({ at, reason: expect.any(String) })
  })

  test('that is nested too deeply is refused, because it could not be written again', () => {
    const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`
    expect(read(`${nested(200_000)}\n`).fault?.reason).toContain('500 levels')
    expect(read(`${nested(400)}\n`).events).toHaveLength(1)
    const brackets = JSON.stringify({ a: `${'['.repeat(2000)}"\\${'{'.repeat(2000)}` })
    expect(read(`${brackets}\n`)).toEqual({ events: [JSON.parse(brackets)], fault: undefined })
  })

  test('that was truncated is neither an event nor an error', () => {
    expect(read('data: {"a":1}\n\ndata: {"a":')).toEqual({ events: [{ a: 1 }], fault: undefined })
    expect(read('{"a":1}\n{"a":')).toEqual({ events: [{ a: 1 }], fault: undefined })
  })

  test.each(['sse', 'jsonl'] as const)('that is too long is refused (%s)', (format) => {
    const { events, fault } = read(`data: ${'x'.repeat(10 * 1024 * 1024)}\n\n`, format)
    expect(events).toEqual([])
    expect(fault?.reason).toContain('more than 10485760 characters')
  })
})

test('a reader ends a response that breaks in the middle with position and reason', () => {
  const recording = replayRecording(context)
  const reader = new VendorReader({ translate: () => [], end: (fault) => recording.end(fault) })
  const payloads = [...reader.feed(utf8.encode('{"a":1}\n{"a":\n')), ...reader.end()]
  expect(payloads).toMatchObject([
    { type: 'response_start' },
    {
      type: 'response_error',
      error: { code: 'UPSTREAM_MALFORMED', message: expect.stringContaining('event 2') },
    },
  ])
  expect(reader.feed(utf8.encode('{"a":1}\n'))).toEqual([])
})
