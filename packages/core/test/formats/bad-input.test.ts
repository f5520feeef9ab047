/** What hostile or broken providers send, at full size, through every source that reads bytes. */

import { describe, expect, test } from 'vitest'
import { createReader } from '../../src/formats/format.ts'
import { SOURCE_NAMES, SOURCES, type SourceName } from '../../src/formats/registry.ts'
import { ResponseReducer, type StreamEvent } from '../../src/index.ts'

const utf8 = new TextEncoder()
const vendors = SOURCE_NAMES.filter((name) => name !== 'v2')

function read(vendor: SourceName, chunks: Iterable<Uint8Array>) {
  const source = createReader(vendor, SOURCES[vendor], {
    runId: 'run',
    threadId: 'thread',
    now: () => 0,
    onUnknown() {},
  })
  const events: StreamEvent[] = []
  for (const chunk of chunks) events.push(...source.feed(chunk))
  events.push(...source.end())
  return { events, fault: source.fault }
}

function* pieces(bytes: Uint8Array, size: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const errorOf = (events: StreamEvent[]) => {
  const payload = events.at(-1)?.payload
  return payload?.type === 'response_error' ? payload.error : undefined
}

describe.each(vendors)('%s', (vendor) => {
  test('an endless line is refused at its bound', () => {
    const chunk = utf8.encode('x'.repeat(64 * 1024))
    function* endless(): Generator<Uint8Array> {
      yield utf8.encode('data: {"a":"')
      for (let count = 0; count < 400; count++) yield chunk
    }
    const { events, fault } = read(vendor, endless())
    expect(fault?.reason).toContain('10485760')
    expect(errorOf(events)).toMatchObject({ code: 'UPSTREAM_MALFORMED' })
  })

  test('an HTML page with status 200 is an error, not an empty success', () => {
    const { events, fault } = read(vendor, [utf8.encode('<html><h1>502 Bad Gateway</h1></html>')])
    expect(fault).toBeDefined()
    expect(errorOf(events)).toMatchObject({ code: 'UPSTREAM_MALFORMED' })
  })

  test('NUL bytes, lone surrogates and broken UTF-8 end correctly', () => {
    for (const bytes of [
      utf8.encode('data: {"a":"\u0000"}\n\n'),
      utf8.encode('data: {"a":"\\ud800"}\n\n'),
      Uint8Array.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0xfe, 0xc3, 0x0a, 0x0a]),
    ]) {
      expect(errorOf(read(vendor, [bytes]).events)).toBeDefined()
    }
  })

  test('keys that would change a prototype stay data', () => {
    const text = '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'
    read(vendor, [utf8.encode(`${text}\n`), utf8.encode(`data: ${text}\n\n`)])
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
  })
})

describe('an oversized tool call', () => {
  const fragment = 'x'.repeat(100_000)
  const calls: [SourceName, string[]][] = [
    [
      'openai-chat',
      [
        '{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\\"a\\":\\""}},{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}}]}',
        ...Array.from(
          { length: 12 },
          () =>
            `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"${fragment}"}}]}}]}`,
        ),
        '{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}',
      ],
    ],
    [
      'anthropic-messages',
      [
        '{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"output_tokens":1}}}',
        '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}',
        ...Array.from(
          { length: 12 },
          () =>
            `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"${fragment}"}}`,
        ),
        '{"type":"content_block_stop","index":0}',
        '{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"b","name":"g","input":{}}}',
        '{"type":"content_block_stop","index":1}',
        '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}',
        '{"type":"message_stop"}',
      ],
    ],
  ]

  test.each(calls)('from %s fails alone: the other call and the turn continue', (vendor, lines) => {
    const bytes = utf8.encode(lines.map((line) => `${line}\n`).join(''))
    const { events } = read(vendor, pieces(bytes, 4096))
    const reducer = new ResponseReducer()
    for (const event of events) reducer.apply(event)
    expect(reducer.response.output_items).toMatchObject([
      { type: 'function_call', name: 'f', error: { code: 'TOOL_ARGUMENTS_TOO_LARGE' } },
      { type: 'function_call', name: 'g', arguments: '{}' },
    ])
    expect(events.filter(({ type }) => type === 'item_error')).toHaveLength(1)
    expect(reducer.response.status).toBe('complete')
  })
})
