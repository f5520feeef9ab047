/** Fixtures, and what they come to. */
import type { Row } from '../outcome.ts'

const TRUNCATED = 'error UPSTREAM_TRUNCATED: The provider stream ended early'

export const contentRows: Row[] = [
  [
    'text',
    'text is one message',
    { items: ['message Hello, wörld 🌍.'], end: 'complete stop (STOP)' },
  ],
  [
    'thoughts',
    'thoughts are reasoning, and text closes it',
    {
      items: ['reasoning **Greeting**\nBe kind.', 'message Hi there.'],
      end: 'complete stop (STOP)',
    },
  ],
  [
    'signature-at-the-end',
    'a part with nothing but a signature adds no item',
    { items: ['message Three letters.'], end: 'complete stop (STOP)' },
  ],
  [
    'signatures-of-two-texts',
    'a second signature begins a second message',
    { items: ['message One. More.', 'message Two.'], end: 'complete stop (STOP)' },
  ],
  [
    'function-call',
    'a call comes whole, and STOP means that it waits for its output',
    {
      items: ['call call_run_1 get_weather {"city":"Paris","days":[1,2]}'],
      end: 'complete tool_calls (STOP)',
    },
  ],
  [
    'parallel-calls',
    'several calls in one event',
    {
      items: [
        'message Let me see. ',
        'call call_run_1 get_weather {"city":"Rome"}',
        'call call_run_2 get_time {"zone":"UTC"}',
        'call call_run_3 now {}',
      ],
      end: 'complete tool_calls (STOP)',
    },
  ],
  [
    'call-with-id',
    'the id of the vendor is the id of the call',
    { items: ['call fc-77 add {"n":1}'], end: 'complete tool_calls (STOP)' },
  ],
  [
    'partial-arguments',
    'arguments that come value by value are put together',
    {
      items: [
        'call call_run_1 book {"city":"New York","guests":[{"name":"Ada","age":36},{"name":"Bob"}],"late night":true,"note":null}',
        'call call_run_2 pay {"sum":3}',
      ],
      end: 'complete tool_calls (STOP)',
    },
  ],
  [
    'code-execution',
    'code that the vendor runs is a call with its output, and no reason to wait',
    {
      items: [
        'message I compute. ',
        'call call_run_1 code_execution {"language":"PYTHON","code":"print(6*7)\\n"}',
        'output call_run_1 ok 42\n',
        'message It is 42.',
      ],
      end: 'complete stop (STOP)',
    },
  ],
  [
    'code-execution-fails',
    'code that fails has an output that says so',
    {
      items: [
        'call ce-1 code_execution {"language":"PYTHON","code":"1/0"}',
        'output ce-1 failed ZeroDivisionError',
        'message Sorry.',
      ],
      end: 'complete stop (STOP)',
    },
  ],
  [
    'inline-data',
    'an attachment is an item at its place',
    { items: ['message Here: ', 'message ', 'message Nice?'], end: 'complete stop (STOP)' },
  ],
  [
    'grounding',
    'sources add nothing to the text',
    { items: ['message It rained.'], end: 'complete stop (STOP)' },
  ],
  [
    'grounding-after-a-call',
    'sources that come after a call have an item of their own',
    {
      items: ['message It rained.', 'call call_run_1 add {"n":1}', 'message '],
      end: 'complete tool_calls (STOP)',
    },
  ],
  [
    'second-candidate-is-ignored',
    'only the first candidate counts',
    { items: ['message First'], end: 'complete stop (STOP)' },
  ],
  [
    'unknown-part',
    'an unknown part is passed over',
    { items: ['message Hi.'], end: 'complete stop (STOP)' },
  ],
  [
    'list-of-events',
    'a list of events is all of them',
    { items: ['message One two.'], end: 'complete stop (STOP)' },
  ],
]

export const endRows: Row[] = [
  [
    'usage-after-finish',
    'usage after the finish reason is read',
    { items: ['message Hi.'], end: 'complete stop (STOP)' },
  ],
  [
    'finish-in-every-event',
    'a finish reason in every event ends nothing but the last',
    { items: ['message One two three'], end: 'complete stop (STOP)' },
  ],
  [
    'max-tokens',
    'running out of tokens is an end',
    { items: ['message Once upon a'], end: 'complete length (MAX_TOKENS)' },
  ],
  [
    'safety',
    'a content filter is an end',
    { items: ['message Well, '], end: 'complete content_filter (SAFETY)' },
  ],
  [
    'malformed-function-call',
    'a call that the model got wrong is an end',
    { items: [], end: 'complete other (MALFORMED_FUNCTION_CALL)' },
  ],
  [
    'prompt-blocked',
    'a blocked prompt is an end',
    { items: [], end: 'complete content_filter (PROHIBITED_CONTENT)' },
  ],
  [
    'partial-arguments-cut-by-length',
    'a call that was cut is an error, in a response that is none',
    {
      items: ['call call_run_1 book {"city":"New "} !UPSTREAM_TRUNCATED'],
      end: 'complete length (MAX_TOKENS)',
    },
  ],
  [
    'error-first',
    'an error instead of an answer',
    { items: [], end: 'error RESOURCE_EXHAUSTED: Resource has been exhausted' },
  ],
  [
    'error-in-the-middle',
    'an error breaks the open item',
    { items: ['message Half !UNAVAILABLE'], end: 'error UNAVAILABLE: The model is overloaded' },
  ],
  [
    'truncated-text',
    'an input that stops in text is truncated',
    { items: ['message Half an ans !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'truncated-thought',
    'an input that stops in a thought is truncated',
    { items: ['reasoning So !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'truncated-after-call',
    'an input that stops after a call is truncated',
    { items: ['call call_run_1 add {"n":1}'], end: TRUNCATED },
  ],
  [
    'truncated-partial-arguments',
    'an input that stops in arguments is truncated, and shows them',
    { items: ['call call_run_1 book {"city":"New "} !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'malformed-parts',
    'an event whose parts are no list breaks the response',
    {
      items: ['message Half !UPSTREAM_MALFORMED'],
      end: 'error UPSTREAM_MALFORMED: GenerateContentResponse: content.parts is not an array',
    },
  ],
  [
    'two-responses',
    'two responses in one input',
    { items: ['message One.'], end: 'complete stop (STOP)' },
    { items: ['message Two.'], end: 'complete length (MAX_TOKENS)' },
  ],
]
