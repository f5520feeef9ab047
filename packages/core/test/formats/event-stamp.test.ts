import { expect, test } from 'vitest'
import {
  isStreamEvent,
  ResponseStream,
  type StampOptions,
  type StreamEvent,
  type StreamEventPayload,
  stamp,
} from '../../src/index.ts'
import { eventIdsOf } from '../../src/protocol/ids.ts'

const DELTA: StreamEventPayload = { type: 'item_delta', item_id: 'a', delta_content: 'x' }

function start(response_id: string): StreamEventPayload {
  const ids = { response_id, turn_id: 't', thread_id: 'h' }
  return { type: 'response_start', ...ids, model_id: 'm', provider_id: 'p', created_at: 1 }
}

async function stamped(payloads: Parameters<typeof stamp>[0], options?: StampOptions) {
  const events: StreamEvent[] = []
  for await (const event of stamp(payloads, options)) events.push(event)
  return events
}

test('payloads get ids of their run, times and the trace context', async () => {
  let time = 5
  const traceContext = { traceparent: 'trace' }
  const stream = ResponseStream.fromEvents([start('run'), DELTA])
  const events = await stamped(stream, { now: () => time++, traceContext })
  const nextId = eventIdsOf('run')
  expect(events).toEqual([
    {
      ...{ event_id: nextId(), timestamp: 5, trace_context: traceContext, run_id: 'run' },
      ...{ type: 'response_start', payload: start('run') },
    },
    {
      ...{ event_id: nextId(), timestamp: 6, trace_context: traceContext, run_id: 'run' },
      ...{ type: 'item_delta', payload: DELTA },
    },
  ])
})

test('events are valid without options, with the system time', async () => {
  const before = Date.now()
  const events = await stamped([start('run'), DELTA])
  expect(events.every((event) => isStreamEvent(event))).toBe(true)
  expect(events[0]?.timestamp).toBeGreaterThanOrEqual(before)
})

test('each response is its own run, and one without a start uses the given run', async () => {
  const events = await stamped([DELTA, start('run'), DELTA, start('run-2'), DELTA], {
    runId: 'run',
    now: () => 0,
  })
  expect(events.map(({ run_id }) => run_id)).toEqual(['run', 'run', 'run', 'run-2', 'run-2'])
  const ids = [eventIdsOf('run'), eventIdsOf('run-2')].flatMap((next, index) =>
    index === 0 ? [next(), next(), next()] : [next(), next()],
  )
  expect(events.map(({ event_id }) => event_id)).toEqual(ids)
})
