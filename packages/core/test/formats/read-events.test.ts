import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test, vi } from 'vitest'
import { createReader } from '../../src/formats/format.ts'
import { SOURCES, VENDOR_NAMES, type VendorName } from '../../src/formats/registry.ts'
import {
  isStreamEvent,
  type ReadEventsOptions,
  readEvents,
  type StreamEvent,
} from '../../src/index.ts'

type Body = Parameters<typeof readEvents>[0]

const VENDORS = VENDOR_NAMES
const OPTIONS = { runId: 'run', threadId: 'thread', now: () => 0, onUnknown() {} }
const ANSWER = fixture('anthropic-messages', 'tool-call.sse')

function fixture(vendor: VendorName, file: string): Uint8Array {
  return readFileSync(`test/fixtures/${vendor}/${file}`)
}

async function read(body: Body, vendor: VendorName, options: ReadEventsOptions = OPTIONS) {
  const events: StreamEvent[] = []
  for await (const event of readEvents(body, vendor, options)) events.push(event)
  return events
}

/** The same bytes in the forms in which bodies come. */
const BODIES: Record<string, (bytes: Uint8Array) => Body> = {
  'a Response': (bytes) => new Response(new Uint8Array(bytes)).body,
  'a ReadableStream that cannot be iterated': (bytes) => {
    const { body } = new Response(new Uint8Array(bytes))
    return { getReader: () => body?.getReader() } as unknown as ReadableStream<Uint8Array>
  },
  'an async iterable of small chunks': async function* (bytes) {
    for (let at = 0; at < bytes.length; at += 7) yield bytes.subarray(at, at + 7)
  },
}

describe.each(Object.entries(BODIES))('%s', (_name, toBody) => {
  test.each(VENDORS)('of %s gives the same events as convert', async (vendor) => {
    for (const file of readdirSync(`test/fixtures/${vendor}`)) {
      if (!/\.(sse|jsonl)$/.test(file)) continue
      const bytes = fixture(vendor, file)
      const source = createReader(vendor, SOURCES[vendor], OPTIONS)
      const expected = [...source.feed(bytes), ...source.end()]
      expect(await read(toBody(bytes), vendor), file).toEqual(expected)
    }
  })
})

test('events are valid without options, with consistent ids', async () => {
  const events = await read(new Response(new Uint8Array(ANSWER)).body, 'anthropic-messages', {})
  expect(events.every((event) => isStreamEvent(event))).toBe(true)
  const runId = events[0]?.run_id
  expect(events[0]?.payload).toMatchObject({ turn_id: runId, thread_id: runId, response_id: runId })
  expect(events.at(-1)?.payload).toMatchObject({
    type: 'response_done',
    finish_reason: 'tool_calls',
  })
})

test('ids, trace and names come from the options', async () => {
  const traceContext = { traceparent: 'trace' }
  const given = { ...OPTIONS, turnId: 'turn', providerId: 'mine', traceContext }
  const [start] = await read(new Response(new Uint8Array(ANSWER)).body, 'anthropic-messages', given)
  expect(start).toMatchObject({ run_id: 'run', timestamp: 0, trace_context: traceContext })
  expect(start?.payload).toMatchObject({
    turn_id: 'turn',
    thread_id: 'thread',
    provider_id: 'mine',
  })
})

test.each<[string, () => Body, string]>([
  ['is missing', () => null, 'UPSTREAM_TRUNCATED'],
  [
    'ends early',
    () => new Response(new Uint8Array(ANSWER.subarray(0, 900))).body,
    'UPSTREAM_TRUNCATED',
  ],
  ['is malformed', () => new Response('data: {"type":\n\ndata: {}\n\n').body, 'UPSTREAM_MALFORMED'],
  [
    'fails',
    async function* () {
      yield ANSWER.subarray(0, 900)
      throw new Error('socket hang up')
    },
    'UPSTREAM_UNREACHABLE',
  ],
])('a body that %s ends with an error', async (_what, toBody, code) => {
  const events = await read(toBody(), 'anthropic-messages')
  expect(events.at(-1)?.payload).toMatchObject({ type: 'response_error', error: { code } })
  expect(events.filter(({ type }) => type === 'response_error')).toHaveLength(1)
})

test.each(['iterated', 'read'])('leaving the loop cancels a body that is %s', async (how) => {
  const cancel = vi.fn<() => void>()
  const stream = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(new Uint8Array(ANSWER)),
    cancel,
  })
  const reader = { getReader: () => stream.getReader() } as ReadableStream<Uint8Array>
  const body = how === 'iterated' ? stream : reader
  for await (const event of readEvents(body, 'anthropic-messages')) {
    expect(event.type).toBe('response_start')
    break
  }
  expect(cancel).toHaveBeenCalledOnce()
})

test('an unknown vendor is refused with the known names', async () => {
  const events = readEvents(null, 'anthropic' as VendorName)
  await expect(events.next()).rejects.toThrow(
    /unknown vendor anthropic; use one of .*anthropic-messages/,
  )
})
