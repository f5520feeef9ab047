/** Fixtures of tool calls, and what they come to. */
import type { Row } from '../outcome.ts'

export const callRows: Row[] = [
  [
    'tool-call',
    'fragments of one call are put together',
    {
      items: ['call call_a get_weather {"city":"Paris"}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'text-then-tool-call',
    'a call after text closes the message',
    {
      items: ['message Let me look.', 'call call_a search {"q":"x"}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'text-after-tool-call',
    'text after a call is a message of its own',
    {
      items: ['call call_a search {"q":1}', 'message Searching.'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'parallel-calls-interleaved',
    'interleaved fragments of parallel calls are kept apart',
    {
      items: ['call call_a get_weather {"city":"Rome"}', 'call call_b get_time {"zone":"UTC"}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'calls-share-one-index',
    'a new id on a used index opens a new call',
    {
      items: ['call call_a add {"n":1}', 'call call_b add {"n":2}', 'call call_c add {"n":3}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'call-index-shifts',
    'a fragment on an index that was never opened goes to the last open call',
    { items: ['call call_a add {"n":1}'], end: 'complete tool_calls (tool_calls)' },
  ],
  [
    'call-id-wins-over-index',
    'an id that is known wins over the index',
    {
      items: ['call call_a add {"a":1}', 'call call_b sub {"b":2}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'calls-without-index',
    'without an index the id tells calls apart, and fragments go to the last call',
    {
      items: ['call call_a add {"n":1}', 'call call_b sub {"n":2}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'calls-without-id',
    'without ids the index tells calls apart, and ids are made',
    {
      items: ['call call_run_1 add {"n":1}', 'call call_run_2 sub {"n":2}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'calls-without-id-or-index',
    'without id and index a name opens a new call',
    {
      items: ['call call_run_1 add {"n":1}', 'call call_run_2 add {"n":2}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'call-id-in-every-piece',
    'a server that makes up an id for every fragment has one call',
    { items: ['call tool-1 add {"n":1}'], end: 'complete tool_calls (tool_calls)' },
  ],
  [
    'call-name-comes-late',
    'a name may come after the arguments',
    { items: ['call call_a add {"n":1}'], end: 'complete tool_calls (tool_calls)' },
  ],
  [
    'call-without-arguments',
    'a call without arguments has an empty object',
    { items: ['call call_a now {}'], end: 'complete tool_calls (tool_calls)' },
  ],
  [
    'call-arguments-as-object',
    'arguments as an object become JSON text',
    {
      items: ['call call_a add {"n":1,"deep":{"x":[1,2]}}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'call-arguments-repeat',
    'fragments that are alike are data',
    { items: ['call call_a add {"n":11}'], end: 'complete tool_calls (tool_calls)' },
  ],
  [
    'call-with-signature',
    'a call that Gemini signed is a call like others',
    { items: ['call function-call-1 add {"n":1}'], end: 'complete tool_calls (stop)' },
  ],
  [
    'custom-tool',
    'the input of a custom tool is kept as text',
    { items: ['call call_a run_sql SELECT 1;'], end: 'complete tool_calls (tool_calls)' },
  ],
  [
    'legacy-function-call',
    'a function_call of old is a call',
    { items: ['call call_run_1 add {"n":1}'], end: 'complete tool_calls (function_call)' },
  ],
  [
    'stop-with-calls',
    'stop with calls means that they wait for their outputs',
    { items: ['call call_a add {"n":1}'], end: 'complete tool_calls (stop)' },
  ],
]
