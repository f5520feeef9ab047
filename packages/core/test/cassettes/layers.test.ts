import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { cassetteEvents, cassetteOutputs, computeOutputs } from '../../src/cassettes/layers.ts'
import { vendorOf } from '../../src/cassettes/vendors.ts'
import {
  type CassetteCall,
  readEvents,
  type StreamEvent,
  type StreamOutput,
} from '../../src/index.ts'
import { cassetteOf, FIXTURES, HEADER, recordedCall, toolsEvents } from './samples.ts'

const header = { ...HEADER, turnId: 't', threadId: 'h' }

describe('recorded calls', () => {
  test.each(Object.keys(FIXTURES))('of %s translate like the response itself', async (name) => {
    const [vendor, file] = FIXTURES[name]!
    async function* body() {
      yield new Uint8Array(readFileSync(file))
    }
    const ids = { runId: 't', turnId: 't', threadId: 'h' }
    const expected: StreamEvent[] = []
    const modelId = name === 'gemini' ? 'gemini-3.8-flash' : 'asked'
    for await (const event of readEvents(body(), vendor, { ...ids, modelId })) expected.push(event)
    const events = cassetteEvents(cassetteOf({ header, calls: [recordedCall(name, 1, 11)] }))
    expect(events.map(({ event }) => stripEvent(event))).toEqual(expected.map(stripEvent))
  })

  test('have the times of the chunks', () => {
    const events = cassetteEvents(cassetteOf({ header, calls: [recordedCall('chat', 1, 64)] }))
    const times = events.map(({ at }) => at)
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(events.every(({ at, event }) => event.timestamp === HEADER.createdAt + at)).toBe(true)
    expect(new Set(times).size).toBeGreaterThan(3)
  })

  test('are separate runs, in order', () => {
    const calls = [recordedCall('chat', 1), recordedCall('anthropic', 2)]
    const events = cassetteEvents(cassetteOf({ header, calls }))
    const starts = events.filter(({ event }) => event.type === 'response_start')
    expect(starts.map(({ event }) => event.run_id)).toEqual(['t', 't-2'])
    const outputs: StreamOutput[] = []
    computeOutputs(events, (output) => outputs.push(output))
    expect(outputs.filter(({ type }) => type === 'turn_complete')).toHaveLength(2)
  })

  const { chunks, ...whole } = recordedCall('chat')
  const cut = { ...whole, chunks: chunks.slice(0, 3) }
  const body = new TextEncoder().encode('{"error":{"message":"slow down"}}')
  const { end: _end, ...open } = cut
  const { response: _response, ...unanswered } = { ...open, chunks: [] }
  test.each<[string, CassetteCall, string]>([
    ['cut by the vendor', { ...cut, end: { at: 1, reason: 'complete' } }, 'UPSTREAM_TRUNCATED'],
    ['cut by the client', { ...cut, end: { at: 1, reason: 'aborted' } }, 'ABORTED'],
    ['cut by the network', { ...cut, end: { at: 1, reason: 'failed' } }, 'UPSTREAM_UNREACHABLE'],
    ['cut by the limit', { ...cut, end: { at: 1, reason: 'limit' } }, 'size limit'],
    ['of a recorder that died', open, 'incomplete'],
    [
      'that was refused',
      {
        ...cut,
        response: { at: 1, status: 429, headers: {} },
        chunks: [{ at: 1, bytes: body }],
      },
      'HTTP_429',
    ],
    ['without a response', { ...unanswered, end: { at: 1, reason: 'failed' } }, 'UNREACHABLE'],
    [
      'that is not a stream',
      { ...whole, chunks: [{ at: 1, bytes: body }] },
      'the input is JSON, not a stream of events',
    ],
  ])('%s end as an error', (_name, call, reason) => {
    const events = cassetteEvents(cassetteOf({ header, calls: [call] }))
    const last = events.at(-1)?.event
    expect(last?.type).toBe('response_error')
    expect(JSON.stringify(last)).toContain(reason)
    if (reason === 'HTTP_429') expect(JSON.stringify(last)).toContain('slow down')
  })

  test('that ended are complete, whatever happened then', () => {
    const call: CassetteCall = { ...recordedCall('chat'), end: { at: 9999, reason: 'failed' } }
    const events = cassetteEvents(cassetteOf({ header, calls: [call] }))
    expect(events.at(-1)?.event.type).toBe('response_done')
  })

  test.each([undefined, 'acme', 'toString'])('of the vendor %s are refused', (vendor) => {
    const { request, ...call } = recordedCall('chat')
    const { vendor: _vendor, ...rest } = request!
    const calls = [{ ...call, request: { ...rest, ...(vendor && { vendor }) } }]
    const read = () => cassetteEvents(cassetteOf({ header, calls }))
    expect(read).toThrow(expect.objectContaining({ code: 'CASSETTE_INVALID' }))
    expect(read).toThrow(vendor === undefined ? 'no vendor' : `unknown vendor ${vendor}`)
  })

  test.each([
    [{ model: 'asked' }, '/v1/messages', 'asked'],
    [{}, '/v1beta/models/gemini-9:streamGenerateContent', 'gemini-9'],
    ['text', '/v1/messages', 'unknown'],
  ])('with the body %j ask for a model', (body, path, model) => {
    const { request, ...call } = recordedCall('chat')
    const asked = { ...request!, url: `https://h.example${path}`, body }
    const { response: _response, ...failed } = { ...call, request: asked, chunks: [] }
    const [start] = cassetteEvents(cassetteOf({ calls: [failed] }))
    expect(start?.event.payload).toMatchObject({ model_id: model, turn_id: 'cassette' })
  })

  test('without a request have no vendor', () => {
    const { request: _request, ...call } = recordedCall('chat')
    expect(() => cassetteEvents(cassetteOf({ header, calls: [call] }))).toThrow('no vendor')
  })
})

test('recorded layers win over derived ones', () => {
  const events = toolsEvents()
  const cassette = cassetteOf({ calls: [recordedCall('chat')], events })
  expect(cassetteEvents(cassette)).toBe(events)
  const output = { type: 'turn_started', turnId: 't', threadId: 'h' } as const
  const shown: StreamOutput[] = []
  cassetteOutputs({ ...cassette, outputs: [{ at: 1, output }] }, (each) => shown.push(each))
  expect(shown).toEqual([output])
})

test.each([
  ['https://api.openai.com/v1/chat/completions', 'openai-chat'],
  ['https://api.openai.com/v1/responses/', 'openai-responses'],
  ['https://api.anthropic.com/v1/messages?beta=true', 'anthropic-messages'],
  ['https://g.example/v1beta/models/g:streamGenerateContent?alt=sse', 'gemini'],
  ['https://g.example/v1beta/models/g:generateContent', 'gemini'],
  ['https://api.openai.com/v1/models', undefined],
  ['https://api.anthropic.com/v1/messages/count_tokens', undefined],
  ['not a url', undefined],
])('the vendor of %s', (url, vendor) => {
  expect(vendorOf(url)).toBe(vendor)
})

/** Without the times, which depend on the clock. */
function stripEvent({ payload, timestamp: _timestamp, ...event }: StreamEvent): unknown {
  const { created_at: _created, ...rest } = payload as { created_at?: number }
  return { ...event, payload: rest }
}
