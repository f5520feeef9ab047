import { describe, expect, test } from 'vitest'
import type { StreamEvent } from '../../../core/src/index.ts'
import { parseTraceContext } from '../../src/server/routes/submit.ts'
import { call, sealed, startServer, type TestServer } from './support.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const PARENT = 'b7ad6b7169203331'
const VALID = `00-${TRACE}-${PARENT}-01`

const INVALID: Record<string, string> = {
  empty: '',
  'a word': 'anything',
  'of another form': `${TRACE}-${PARENT}`,
  'in capital letters': VALID.toUpperCase(),
  'with a trace of zeros': `00-${'0'.repeat(32)}-${PARENT}-01`,
  'with a parent of zeros': `00-${TRACE}-${'0'.repeat(16)}-01`,
  'of the version that is none': `ff-${TRACE}-${PARENT}-01`,
  'with more than its version has': `${VALID}-more`,
  'sent twice': `${VALID}, ${VALID}`,
  'with something behind it': `${VALID}"}`,
  long: 'x'.repeat(201),
  'very long': `01-${TRACE}-${PARENT}-01-${'x'.repeat(10_000)}`,
  'not ASCII': `01-${TRACE}-${PARENT}-01-\u00fc`,
}

async function eventsAfter(server: TestServer, headers: Record<string, string>) {
  const body = { prompt: 'Hi', turnId: 'turn', threadId: 'thread' }
  const { status } = await call(server, 'POST /api/v2/submit', { body, headers })
  expect(status).toBe(202)
  await sealed(server.log, 'turn')
  const { json } = await call(server, 'GET /api/v2/stream/turn')
  return [...(json as string).matchAll(/^data: (.*)$/gm)].map(
    ([, data = '']) => JSON.parse(data) as StreamEvent,
  )
}

describe('the trace context of a request', () => {
  test('is in every event of the turn', async () => {
    const headers = { traceparent: VALID, tracestate: 'a=b,c=d' }
    const events = await eventsAfter(await startServer(), headers)
    expect(events.map(({ type }) => type)).toContain('item_delta')
    for (const { trace_context } of events) expect(trace_context).toEqual(headers)
  })

  test('is also in the events of a combined submit and stream', async () => {
    const server = await startServer()
    const headers = { traceparent: VALID }
    const body = { prompt: 'Hi', turnId: 'turn' }
    await call(server, 'POST /xapi/threads/thread/turn', { body, headers })
    const { json } = await call(server, 'GET /api/v2/stream/turn')
    expect(json).toContain(`"trace_context":{"traceparent":"${VALID}"}`)
  })

  test('is not made up when missing', async () => {
    const events = await eventsAfter(await startServer(), { tracestate: 'a=b' })
    for (const { trace_context } of events) expect(trace_context).toEqual({ traceparent: '' })
  })

  test.each(Object.entries(INVALID))('is ignored when it is %s', async (_name, traceparent) => {
    const server = await startServer()
    const events = await eventsAfter(server, { traceparent, tracestate: 'a=b' })
    expect(events.length).toBeGreaterThan(3)
    for (const { trace_context } of events) expect(trace_context).toEqual({ traceparent: '' })
    expect(server.errors).toEqual([])
  })
})

describe('a trace context', () => {
  test.each([VALID, `cc-${TRACE}-${PARENT}-00`, `01-${TRACE}-${PARENT}-01-later.parts`])(
    'is accepted: %s',
    (traceparent) => {
      expect(parseTraceContext({ traceparent })).toEqual({ traceparent })
    },
  )

  test.each([
    ['of 1,000 characters is kept', 'x'.repeat(1000), { tracestate: 'x'.repeat(1000) }],
    ['of more is dropped', 'x'.repeat(1001), {}],
    ['that is empty is dropped', '', {}],
    ['with invisible characters is dropped', 'a=\u0007', {}],
    ['that is not ASCII is dropped', 'a=ü', {}],
  ])('has a state which %s', (_name, tracestate, kept) => {
    expect(parseTraceContext({ traceparent: VALID, tracestate })).toEqual({
      traceparent: VALID,
      ...kept,
    })
  })
})
