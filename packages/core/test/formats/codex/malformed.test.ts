import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  completed,
  halfway,
  legacy,
  note,
  started,
  textDelta,
  translate,
  turnCompleted,
  turnStarted,
} from './events.ts'

interface Malformed {
  name: string
  event: unknown
  reason: string
}

const malformed: Malformed[] = [
  {
    name: 'a delta without text',
    event: textDelta('m', 7),
    reason: 'item/agentMessage/delta: delta',
  },
  {
    name: 'a delta of nothing',
    event: note('item/agentMessage/delta', { delta: 'x' }),
    reason: 'item/agentMessage/delta: itemId',
  },
  {
    name: 'reasoning without text',
    event: note('item/reasoning/textDelta', { itemId: 'r', contentIndex: 0 }),
    reason: 'item/reasoning/textDelta: delta',
  },
  {
    name: 'output of nothing',
    event: note('item/commandExecution/outputDelta', { delta: 'x' }),
    reason: 'item/commandExecution/outputDelta: itemId',
  },
  { name: 'no item', event: note('item/started', { item: null }), reason: 'item/started: item' },
  {
    name: 'an item of no type',
    event: completed({ id: 'x' }),
    reason: 'item/completed: item.type',
  },
  {
    name: 'a call without a name to answer to',
    event: started({ type: 'commandExecution', command: 'ls' }),
    reason: 'item/started: item.id',
  },
  {
    name: 'an end of no kind',
    event: turnCompleted('paused'),
    reason: 'turn/completed: turn.status',
  },
  {
    name: 'a request for no call',
    event: note('item/tool/call', { tool: 'x' }),
    reason: 'item/tool/call: callId',
  },
  {
    name: 'a raw call that cannot be answered',
    event: note('rawResponseItem/completed', { item: { type: 'function_call', name: 'x' } }),
    reason: 'rawResponseItem/completed: item.call_id',
  },
]

const malformedLegacy: [event: unknown, reason: string][] = [
  [legacy('agent_message'), 'agent_message: message'],
  [legacy('agent_reasoning'), 'agent_reasoning: text'],
  [legacy('agent_reasoning_delta'), 'agent_reasoning_delta: delta'],
  [legacy('item_completed'), 'item_completed: item.type'],
  [legacy('exec_command_begin'), 'exec_command_begin: call_id'],
  [legacy('exec_command_end'), 'exec_command_end: call_id'],
  [legacy('exec_command_output_delta', { chunk: '' }), 'exec_command_output_delta: call_id'],
  [legacy('plan_delta', { delta: '' }), 'plan_delta: item_id'],
  [legacy('plan_delta', { item_id: 'p' }), 'plan_delta: delta'],
  [legacy('raw_response_item', { type: 'custom_tool_call' }), 'raw_response_item: item.call_id'],
  [
    legacy('raw_response_item', { type: 'function_call_output' }),
    'raw_response_item: item.call_id',
  ],
]

describe('malformed messages', () => {
  test.each(malformed)('$name ends the response', ({ event, reason }) => {
    const payloads = translate([...halfway, event, textDelta('m', 'late'), turnCompleted()])
    expect(payloads.at(-1)).toEqual({
      type: 'response_error',
      response_id: 'run',
      error: {
        code: 'UPSTREAM_MALFORMED',
        message: `${reason} is missing or of the wrong type`,
      },
    })
    expect(payloads.at(-2)).toMatchObject({ type: 'item_error', item_id: 'run:1' })
  })

  test.each(malformedLegacy)('in legacy formats, too: %j', (event, reason) => {
    expect(translate([legacy('task_started'), event]).at(-1)).toMatchObject({
      error: {
        code: 'UPSTREAM_MALFORMED',
        message: `${reason} is missing or of the wrong type`,
      },
    })
  })

  test('the next turn is not affected', () => {
    const events = [...halfway, textDelta('m', 7), turnCompleted()]
    const next = [turnStarted('v'), turnCompleted('completed', { id: 'v' })]
    for (const input of [
      [...events, ...next],
      [...halfway, textDelta('m', 7), ...next],
    ]) {
      expect(responsesOf(translate(input)).map(({ status }) => status)).toEqual([
        'error',
        'complete',
      ])
    }
  })

  test('are ignored after the end of a turn', () => {
    const events = [turnStarted(), turnCompleted()]
    expect(translate([...events, textDelta('m', 7)])).toEqual(translate(events))
  })

  test('are a failed response before the first turn', () => {
    expect(translate([legacy('agent_message_delta', { delta: 7 })])).toMatchObject([
      { type: 'response_start' },
      { type: 'response_error', error: { code: 'UPSTREAM_MALFORMED' } },
    ])
  })
})
