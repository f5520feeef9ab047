/** A stream that has ended leaves no timer, no listener and no socket behind, however it ended. */

import { getEventListeners } from 'node:events'
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { eventually } from '../../../../test/eventually.ts'
import { fakeClock } from '../../../conformance/src/index.ts'
import type { ResponseStream, StreamEventPayload } from '../../../core/src/index.ts'
import { VENDORS, type VendorRow } from '../../../core/test/formats/vendors.ts'
import { createScriptedProvider, type HttpProviderOptions } from '../../src/index.ts'
import { createProviderFetch } from '../../src/server.ts'
import { collect, request, run } from './http-support.ts'
import { chunk, END, HEAD, rawVendor } from './raw-vendor.ts'

type Stream = ResponseStream<StreamEventPayload>

const FIXTURES: Record<string, string> = {
  openai: 'openai-responses',
  anthropic: 'anthropic-messages',
  gemini: 'gemini',
  'openai-compatible': 'openai-chat',
}

interface Case {
  /** After the head of the response. */
  readonly send: (socket: Socket, text: string, row: VendorRow) => void
  readonly read?: (stream: Stream, controller: AbortController) => Promise<unknown>
  readonly options?: HttpProviderOptions
}

const readAll = (stream: Stream) => collect(stream)

/** As a turn does: it leaves at the last event and then stops whatever is still in progress. */
async function leaveAtEnd(stream: Stream, controller: AbortController): Promise<void> {
  for await (const { type } of stream) {
    if (type === 'response_done' || type === 'response_error') break
  }
  controller.abort()
}

/** A clock that stands still and counts. */
function countingClock() {
  const clock = fakeClock()
  let timersSet = 0
  return {
    ...clock,
    after(ms: number, task: () => void) {
      timersSet += 1
      return clock.after(ms, task)
    },
    timersSet: () => timersSet,
  }
}

/** Lets whatever is about to set a timer set it. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
}

const half = (text: string) => text.slice(0, text.length / 2)

const CASES: Record<string, Case> = {
  'its end and that of the body in one packet': {
    send: (socket, text) => socket.write(chunk(text) + END),
  },
  'its end, that of the body and FIN in one packet': {
    send: (socket, text) => socket.end(chunk(text) + END),
  },
  'its end, left by the reader': {
    send: (socket, text) => socket.write(chunk(text) + END),
    read: leaveAtEnd,
  },
  'its end and FIN, left by the reader': {
    send: (socket, text) => socket.end(chunk(text) + END),
    read: leaveAtEnd,
  },
  'a body that is cut': { send: (socket, text) => socket.end(chunk(half(text)) + END) },
  'a socket that breaks': {
    send: (socket, text) => socket.write(chunk(half(text)), () => socket.destroy()),
  },
  'an error of the vendor': {
    send: (socket, _text, row) =>
      socket.write(chunk(`data: ${JSON.stringify(row.errorEvent('No'))}\n\n`) + END),
  },
  'malformed data': { send: (socket) => socket.write(chunk('data: {\n\n')) },
  'an abort by the signal': {
    send: (socket, text) => socket.write(chunk(half(text))),
    async read(stream, controller) {
      await expect(async () => {
        for await (const _ of stream) controller.abort()
      }).rejects.toMatchObject({ code: 'ABORTED' })
    },
  },
  'an abort by the reader': {
    send: (socket, text) => socket.write(chunk(half(text))),
    async read(stream) {
      await expect(async () => {
        for await (const _ of stream) stream.abort()
      }).rejects.toMatchObject({ code: 'ABORTED' })
    },
  },
  'an abort before the answer': {
    send: () => {},
    async read(stream, controller) {
      const all = collect(stream)
      controller.abort()
      await expect(all).rejects.toMatchObject({ code: 'ABORTED' })
    },
  },
  'a reader that leaves and aborts': {
    send: (socket, text) => socket.write(chunk(half(text))),
    async read(stream) {
      for await (const _ of stream) break
      stream.abort()
    },
  },
}

const ROWS = Object.entries(VENDORS).flatMap(([id, row]) => [
  { id, row, by: 'the global fetch', fetch: globalThis.fetch },
  { id, row, by: 'the fetch of servers', fetch: createProviderFetch() },
])

describe.each(ROWS)('$id by $by', ({ id, row, fetch }) => {
  const text = readFileSync(`test/fixtures/${FIXTURES[id]}/text.sse`, 'utf8')

  test.each(Object.entries(CASES))('%s', async (_name, { send, read = readAll, options }) => {
    const clock = countingClock()
    const vendor = await rawVendor(async (socket) => {
      socket.write(HEAD)
      // The first wait is for the head of the response, the second for its body.
      await eventually(() => expect(clock.timersSet()).toBeGreaterThan(1))
      send(socket, text, row)
    })
    const provider = row.create({ baseUrl: vendor.url, apiKey: 'k', clock, fetch, ...options })
    const controller = new AbortController()
    await read(provider.stream(request, run, controller.signal), controller)
    await settle()
    await eventually(() => {
      expect(clock.pending()).toBe(0)
      expect(getEventListeners(controller.signal, 'abort')).toEqual([])
    })
  })
})

// Gemini has no last event: usage may follow the finish reason.
describe.each(ROWS.filter(({ id }) => id !== 'gemini'))('$id by $by', ({ id, row, fetch }) => {
  test('the end of the events, before the end of the body', async () => {
    const text = readFileSync(`test/fixtures/${FIXTURES[id]}/text.sse`, 'utf8')
    const clock = fakeClock()
    const vendor = await rawVendor((socket) => void socket.write(HEAD + chunk(text)))
    const provider = row.create({ baseUrl: vendor.url, apiKey: 'k', clock, fetch })
    const events = await collect(provider.stream(request, run))
    expect(events.at(-1)?.type).toBe('response_done')
    await eventually(() => {
      expect(clock.pending()).toBe(0)
      expect(vendor.sockets.size).toBe(0)
    })
  })
})

test.each(['a body', 'an answer'])(
  'a fetch that ignores the abort while it waits for %s',
  async (what) => {
    const clock = fakeClock()
    const body = new ReadableStream({
      start: (sink) => sink.enqueue(new TextEncoder().encode(': hi\n\n')),
    })
    const fetch =
      what === 'a body' ? async () => new Response(body) : () => new Promise<Response>(() => {})
    const provider = VENDORS['openai']?.create({ fetch, clock })
    const stream = provider?.stream(request, run)
    await settle()
    expect(clock.pending()).toBeGreaterThan(0)
    stream?.abort()
    await settle()
    expect(clock.pending()).toBe(0)
  },
)

test('an aborted recording sets no more timers', async () => {
  const clock = fakeClock()
  const event = (timestamp: number) =>
    ({
      event_id: `${timestamp}`,
      timestamp,
      trace_context: { traceparent: '' },
      run_id: 'r',
      type: 'item_delta',
      payload: { type: 'item_delta', item_id: 'i', delta_content: 'x' },
    }) as const
  const provider = createScriptedProvider({ recordings: { m: [event(0), event(300_000)] }, clock })
  const stream = provider.stream(request, run)
  for await (const _ of stream) break
  await eventually(() => expect(clock.pending()).toBe(1))
  stream.abort()
  expect(clock.pending()).toBe(0)
})
