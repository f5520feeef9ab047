import { describe, expect, test } from 'vitest'
import { isStreamEvent } from '../../src/index.ts'
import {
  decodeStreamEvent,
  parseStreamEvent,
  STREAM_EVENT_TYPES,
} from '../../src/schemas/stream-event.ts'
import { sampleEvents } from '../protocol/samples.ts'

const sample = { ...sampleEvents[2] }

test('every type has a sample', () => {
  const sampled = new Set(sampleEvents.map(({ type }) => type))
  expect([...sampled].toSorted()).toEqual(STREAM_EVENT_TYPES.toSorted())
})

test.each(sampleEvents)('$type is decoded unchanged', (event) => {
  expect(decodeStreamEvent(event)).toEqual({ ok: true, known: true, value: event })
  expect(parseStreamEvent(JSON.stringify(event))).toEqual({ ok: true, known: true, value: event })
  expect(isStreamEvent(event)).toBe(true)
})

test('I1 unknown fields are kept, at every depth', () => {
  const event = {
    ...sample,
    extra: 1,
    trace_context: { traceparent: '', more: 2 },
    payload: { type: 'item_delta', item_id: 'i', delta_content: '', obfuscation: 'x' },
  }
  expect(decodeStreamEvent(event)).toEqual({ ok: true, known: true, value: event })
})

test('an unknown type is a value', () => {
  const event = { ...sample, type: 'novelty', payload: { type: 'novelty', field: [1] } }
  expect(decodeStreamEvent(event)).toEqual({ ok: true, known: false, value: event })
  expect(isStreamEvent(event)).toBe(false)
})

test.each(['constructor', '__proto__', 'toString'])(
  'the type %s is unknown, not inherited',
  (type) => {
    const event = { ...sample, type, payload: { ['type']: type } }
    expect(decodeStreamEvent(event)).toMatchObject({ ok: true, known: false })
  },
)

describe('errors are returned, never thrown', () => {
  test.each([
    ['null', 'expected object'],
    ['[]', 'expected object'],
    ['{"type":"item_delta"', 'not JSON'],
    ['', 'not JSON'],
    [JSON.stringify({ ...sample, event_id: '' }), 'event_id'],
    [JSON.stringify({ ...sample, payload: { type: 'heartbeat' } }), 'payload.type'],
    [JSON.stringify({ ...sample, payload: { type: 'item_delta' } }), 'payload.item_id'],
    [JSON.stringify({ ...sample, type: 'a', payload: { type: 'b' } }), 'payload.type'],
  ])('%s', (text, reason) => {
    const decoded = parseStreamEvent(text)
    expect(decoded.ok).toBe(false)
    expect(decoded).toMatchObject({ reason: expect.stringContaining(reason) })
  })
})
