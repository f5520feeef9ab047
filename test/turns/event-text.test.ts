import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { StreamEventPayload } from '../../src/protocol/stream-event.ts'
import { EventText } from '../../src/turns/event-text.ts'
import { answer, BEGIN, call, delta, end, open, usage } from './payloads.ts'

const TRACE = { traceparent: '00-"1"-2', tracestate: 'ü' }

function check(payloads: readonly StreamEventPayload[], run_id = 'r'): void {
  const text = new EventText(run_id, TRACE)
  for (const payload of payloads) {
    const event = {
      event_id: 'an-id',
      timestamp: 1_700_000_000_000,
      trace_context: TRACE,
      run_id,
      type: payload.type,
      payload,
    }
    const json = text.payload(payload)
    expect(text.event(event.event_id, event.timestamp, payload, json)).toBe(JSON.stringify(event))
  }
}

describe('the text of an event', () => {
  test('is its JSON, whatever its type', () => {
    check([BEGIN, open('a'), ...answer('b', 'x'), ...call('c', 'add'), end({ usage: usage(1, 2) })])
  })

  test('is its JSON, whatever a delta says, and of whichever item', () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom('"', '\\', '\u2028', '\ud800'),
    )
    const deltas = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'q"uote', 'ü:1'), text))
    fc.assert(
      fc.property(deltas, fc.constantFrom('r', 'q"uote'), (pieces, runId) => {
        check(
          pieces.map(([id, piece]) => delta(id, piece)),
          runId,
        )
      }),
    )
  })

  test('is its JSON, also when a delta has fields of others', () => {
    check([delta('a', 'x'), Object.assign(delta('a', 'x'), { logprob: 1 }), delta('a', 'y')])
  })
})
