import { describe, expect, test } from 'vitest'
import {
  initialReducerState,
  type ReducedResponse,
  reduce,
  type StreamEvent,
  toResponse,
} from '../../src/index.ts'
import {
  abort,
  breakOff,
  cancel,
  delta,
  done,
  end,
  eventAt,
  eventsOf,
  fail,
  heartbeat,
  message,
  open,
  type Payload,
  reduceAll,
  responseTo,
  start,
  stray,
  T0,
  usage,
  usageUpdate,
} from './events.ts'

interface Row {
  name: string
  turn: Payload[]
  response: Partial<ReducedResponse>
}

const truncated = { code: 'UPSTREAM_TRUNCATED', message: 'cut off' }

const rows: Row[] = [
  {
    name: 'response_start names the response',
    turn: [start({ agent_id: 'agent-1' })],
    response: {
      id: 'response-1',
      turn_id: 'turn-1',
      thread_id: 'thread-1',
      agent_id: 'agent-1',
      model_id: 'model-1',
      provider_id: 'provider-1',
      created_at: 900,
      status: 'in_progress',
    },
  },
  {
    name: 'only the first response_start counts',
    turn: [start(), start({ response_id: 'response-2', model_id: 'model-2' })],
    response: { id: 'response-1', model_id: 'model-1', updated_at: T0 },
  },
  {
    name: 'before response_start a response is queued and has the id of its run',
    turn: [open('a')],
    response: { id: 'run-1', turn_id: '', thread_id: '', created_at: T0, status: 'queued' },
  },
  {
    name: 'response_start after the first items still names the response',
    turn: [open('a'), delta('a', 'Hi'), start()],
    response: {
      id: 'response-1',
      created_at: 900,
      status: 'in_progress',
      output_items: [message('a', 'Hi')],
    },
  },
  {
    name: 'response_done ends it',
    turn: [start(), end({ finish_reason: 'stop', provider_finish_reason: 'end_turn' })],
    response: {
      status: 'complete',
      finish_reason: 'stop',
      provider_finish_reason: 'end_turn',
      error: null,
    },
  },
  {
    name: 'response_done without reasons',
    turn: [start(), end()],
    response: { status: 'complete', finish_reason: null },
  },
  {
    name: 'response_done with another status',
    turn: [start(), end({ status: 'aborted', provider_finish_reason: null })],
    response: { status: 'aborted', provider_finish_reason: null },
  },
  {
    name: 'response_error ends it',
    turn: [start(), breakOff()],
    response: { status: 'error', error: truncated, finish_reason: null },
  },
  {
    name: 'response_error may be the only event',
    turn: [breakOff()],
    response: { id: 'run-1', status: 'error', error: truncated, output_items: [] },
  },
  {
    name: 'turn_aborted_by_user ends it',
    turn: [start(), abort()],
    response: { status: 'aborted', finish_reason: null, error: null },
  },
  {
    name: 'items still open at the end stay with the content so far',
    turn: [start(), open('a'), delta('a', 'half a sen'), abort()],
    response: { status: 'aborted', output_items: [message('a', 'half a sen')] },
  },
  {
    name: 'response_done does not turn an error into a success',
    turn: [start(), breakOff(), end({ finish_reason: 'stop' })],
    response: { status: 'error', error: truncated, finish_reason: null, updated_at: T0 + 1 },
  },
  {
    name: 'response_done does not turn an abort into a success',
    turn: [start(), abort(), end({ finish_reason: 'stop' })],
    response: { status: 'aborted', finish_reason: null },
  },
  {
    name: 'nothing turns a success into an error or an abort',
    turn: [start(), end(), breakOff(), abort()],
    response: { status: 'complete', error: null },
  },
  {
    name: 'after the end items are neither added nor changed',
    turn: [
      start(),
      open('a'),
      end(),
      open('b'),
      delta('a', '1'),
      delta('x', '1'),
      done(message('a', '2')),
      fail('a'),
      cancel('a'),
      start({ response_id: 'response-2' }),
    ],
    response: { id: 'response-1', output_items: [message('a', '')], updated_at: T0 + 2 },
  },
  {
    name: 'usage_update sets the usage, the last one wins',
    turn: [start(), usageUpdate(5), usageUpdate(9)],
    response: { usage: usage(9) },
  },
  {
    name: 'usage of response_done wins over earlier ones',
    turn: [start(), usageUpdate(5), end({ usage: usage(7) })],
    response: { usage: usage(7) },
  },
  {
    name: 'response_done without usage keeps the earlier one',
    turn: [start(), usageUpdate(5), end()],
    response: { usage: usage(5) },
  },
  {
    name: 'late usage counts',
    turn: [start(), end({ usage: usage(7) }), usageUpdate(9)],
    response: { status: 'complete', usage: usage(9), updated_at: T0 + 2 },
  },
  {
    name: 'usage of a late response_done counts when none is known',
    turn: [start(), abort(), end({ usage: usage(7), finish_reason: 'stop' })],
    response: { status: 'aborted', usage: usage(7), finish_reason: null },
  },
  {
    name: 'usage of a late response_done is ignored when some is known',
    turn: [start(), usageUpdate(5), abort(), end({ usage: usage(7) })],
    response: { status: 'aborted', usage: usage(5) },
  },
  {
    name: 'a stray delta leaves the status alone',
    turn: [start(), delta('a', '1')],
    response: { status: 'in_progress', output_items: [stray('a', 'was not started')] },
  },
  {
    name: 'updated_at is the time of the last event that changed something',
    turn: [start(), open('a'), open('a'), heartbeat],
    response: { updated_at: T0 + 1 },
  },
]

describe('reduce', () => {
  test.each(rows)('$name', ({ turn, response }) => {
    expect(responseTo(turn)).toMatchObject(response)
  })

  test('updated_at never goes back', () => {
    const events = [eventAt(0, start()), eventAt(1, open('a'), { timestamp: 5 })]
    expect(toResponse(reduceAll(events)).updated_at).toBe(T0)
  })

  test('fields that no event set are absent', () => {
    expect(responseTo([start(), end()])).toStrictEqual({
      id: 'response-1',
      turn_id: 'turn-1',
      thread_id: 'thread-1',
      model_id: 'model-1',
      provider_id: 'provider-1',
      created_at: 900,
      updated_at: T0 + 1,
      status: 'complete',
      output_items: [],
      finish_reason: null,
      error: null,
    })
  })

  test('without events', () => {
    expect(toResponse(initialReducerState())).toStrictEqual({
      id: '',
      turn_id: '',
      thread_id: '',
      model_id: '',
      provider_id: '',
      created_at: 0,
      updated_at: 0,
      status: 'queued',
      output_items: [],
      finish_reason: null,
      error: null,
    })
  })
})

const unknownEvent = { ...eventAt(9, heartbeat), type: 'item_glow', payload: { type: 'item_glow' } }

const silent: [name: string, before: Payload[], event: StreamEvent][] = [
  ['heartbeat', [start()], eventAt(9, heartbeat)],
  ['heartbeat before all', [], eventAt(9, heartbeat)],
  ['an event of a later version', [start()], unknownEvent as unknown as StreamEvent],
  ['a duplicate', [start(), open('a')], eventAt(1, open('a'))],
  ['a known id with other content', [start(), open('a')], eventAt(1, delta('a', 'x'))],
  ['an item event after the end', [start(), end()], eventAt(9, open('a'))],
]

describe('what returns the state itself', () => {
  test.each(silent)('%s', (_name, before, event) => {
    const state = reduceAll(eventsOf(before))
    expect(reduce(state, event)).toBe(state)
  })
})

test('a stray delta sent again after its item started is still a duplicate', () => {
  const events = eventsOf([delta('a', '1'), delta('a', '2'), open('a'), delta('a', '3')])
  const again = [...events, ...events]
  expect(toResponse(reduceAll(again)).output_items).toEqual([
    stray('a', 'was not started'),
    message('a', '3'),
  ])
})
