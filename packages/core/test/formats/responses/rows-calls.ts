/** Calls to the tools of the client, and the items that they come to. */
import {
  added,
  argumentsDelta,
  call,
  done,
  type Fields,
  inputDelta,
  wireCall,
  wireCustom,
} from './events.ts'
import type { ItemRow } from './rows-items.ts'

const calls = (call_id: string, name: string, args: string, openai?: Fields) => ({
  type: 'function_call',
  call_id,
  name,
  arguments: args,
  openai: openai ?? { type: 'function_call', id: `fc_${call_id}` },
})

export const callRows: ItemRow[] = [
  {
    name: 'a call is put together from its fragments',
    events: call(0, 'c1', 'f', '{"a":', '1', '1', '}'),
    items: [calls('c1', 'f', '{"a":11}')],
  },
  {
    name: 'calls that interleave are kept apart',
    events: [
      added(0, wireCall('c1', 'f')),
      added(1, wireCall('c2', 'g')),
      argumentsDelta(0, '{"a"'),
      argumentsDelta(1, '{"b"'),
      argumentsDelta(0, ':1}'),
      argumentsDelta(1, ':2}'),
      done(1, wireCall('c2', 'g')),
      done(0, wireCall('c1', 'f')),
    ],
    items: [calls('c1', 'f', '{"a":1}'), calls('c2', 'g', '{"b":2}')],
  },
  {
    name: 'arguments may come at their end only',
    events: [
      added(0, wireCall('c1', 'f')),
      { type: 'response.function_call_arguments.done', output_index: 0, arguments: '{"a":1}' },
      done(0, wireCall('c1', 'f')),
    ],
    items: [calls('c1', 'f', '{"a":1}')],
  },
  {
    name: 'arguments may come at the end of the call only',
    events: [done(0, wireCall('c1', 'f', '{"a":1}'))],
    items: [calls('c1', 'f', '{"a":1}')],
  },
  {
    name: 'no arguments are an empty object',
    events: call(0, 'c1', 'f'),
    items: [calls('c1', 'f', '{}')],
  },
  {
    name: 'the final arguments win',
    events: [argumentsDelta(0, '{"a":'), done(0, wireCall('c1', 'f', '{"a":1}'))],
    items: [calls('c1', 'f', '{"a":1}')],
  },
  {
    name: 'a call that nobody announced is named late',
    events: [
      argumentsDelta(0, '{}'),
      { type: 'response.function_call_arguments.done', output_index: 0, name: 'f' },
      done(0, { type: 'function_call', call_id: 'c1' }),
    ],
    items: [calls('c1', 'f', '{}', { type: 'function_call' })],
  },
  {
    name: 'a call without an id goes by the id of its item',
    events: [done(0, { type: 'function_call', id: 'fc_7', name: 'f', arguments: '{}' })],
    items: [calls('fc_7', 'f', '{}', { type: 'function_call', id: 'fc_7' })],
  },
  {
    name: 'what comes late for a call opens no other',
    events: [...call(0, 'c1', 'f', '{}'), argumentsDelta(0, 'x'), inputDelta(0, 'y')],
    items: [calls('c1', 'f', '{}')],
  },
  {
    name: 'the input of a custom tool becomes JSON, and its kind is kept',
    events: [
      added(0, wireCustom('c1', 'sql', '')),
      inputDelta(0, 'a "b"\n'),
      inputDelta(0, '\\c'),
      done(0, wireCustom('c1', 'sql', 'a "b"\n\\c')),
    ],
    items: [
      calls('c1', 'sql', '{"input":"a \\"b\\"\\n\\\\c"}', {
        type: 'custom_tool_call',
        id: 'ctc_c1',
      }),
    ],
  },
  {
    name: 'the input of a custom tool may come at its end only',
    events: [
      added(0, wireCustom('c1', 'sql')),
      { type: 'response.custom_tool_call_input.done', output_index: 0, input: 'x' },
    ],
    items: [calls('c1', 'sql', '{"input":"x"}', { type: 'custom_tool_call' })],
  },
  {
    name: 'input that was cut by the end of the response is still JSON',
    events: [added(0, wireCustom('c1', 'sql')), inputDelta(0, 'SELECT "')],
    items: [calls('c1', 'sql', '{"input":"SELECT \\""}', { type: 'custom_tool_call' })],
  },
]
