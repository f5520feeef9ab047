/** Fixtures of every way to end, and what they come to. */
import type { Row } from '../outcome.ts'

const TRUNCATED = 'error UPSTREAM_TRUNCATED: The provider stream ended early'

export const endRows: Row[] = [
  [
    'no-done',
    'a finish reason is an end without [DONE]',
    { items: ['message Short.'], end: 'complete stop (stop)' },
  ],
  [
    'usage-without-done',
    'usage after the finish reason is an end without [DONE]',
    { items: ['message Short.'], end: 'complete stop (stop)' },
  ],
  [
    'usage-on-finish',
    'usage on the finish chunk is an end',
    { items: ['message Short.'], end: 'complete stop (stop)' },
  ],
  [
    'usage-groq',
    'usage where Groq has it is an end',
    { items: ['message Fast.'], end: 'complete stop (stop)' },
  ],
  [
    'usage-in-every-chunk',
    'usage in every chunk ends nothing',
    { items: ['message One two'], end: 'complete stop (stop)' },
  ],
  [
    'finish-in-the-middle',
    'a finish reason before more content ends nothing',
    {
      items: ['message One two three', 'call call_a add {"n":1}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ],
  [
    'length',
    'running out of tokens is an end',
    { items: ['message Once upon a'], end: 'complete length (length)' },
  ],
  [
    'content-filter',
    'a content filter is an end',
    { items: ['message Well, '], end: 'complete content_filter (content_filter)' },
  ],
  [
    'unknown-finish',
    'an end in an unknown word is an end',
    { items: ['message Hm.'], end: 'complete other (insufficient_system_resource)' },
  ],
  [
    'error-first',
    'an error instead of an answer',
    { items: [], end: 'error rate_limit_exceeded: Rate limit reached' },
  ],
  [
    'error-with-empty-choices',
    'an error inside a 200, with empty choices',
    { items: ['message Half !502'], end: 'error 502: Provider disconnected' },
  ],
  [
    'error-in-a-call',
    'an error breaks the open call',
    {
      items: ['call call_a add {"n": !server_error'],
      end: 'error server_error: The server had an error',
    },
  ],
  [
    'error-after-finish',
    'an error after the finish reason is an error',
    { items: ['message All !server_error'], end: 'error server_error: The server had an error' },
  ],
  [
    'finish-is-error',
    'the finish reason error is an error',
    {
      items: ['message Half !error'],
      end: 'error error: The provider reported an error without a message',
    },
  ],
  [
    'done-without-finish',
    '[DONE] without a finish reason is a truncation',
    { items: ['message Half !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'truncated-after-role',
    'an input that stops after the role chunk is truncated',
    { items: [], end: TRUNCATED },
  ],
  [
    'truncated-text',
    'an input that stops in text is truncated',
    { items: ['message Half an ans !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'truncated-reasoning',
    'an input that stops in reasoning is truncated',
    { items: ['reasoning So !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'truncated-arguments',
    'an input that stops in arguments is truncated, and shows them',
    {
      items: ['call call_a add {"n": !UPSTREAM_TRUNCATED', 'call call_b sub  !UPSTREAM_TRUNCATED'],
      end: TRUNCATED,
    },
  ],
  [
    'truncated-nameless-call',
    'an input that stops before the name of a call shows what there is',
    { items: ['call call_a  {"n": !UPSTREAM_TRUNCATED'], end: TRUNCATED },
  ],
  [
    'malformed-choices',
    'a chunk whose choices are no list breaks the response',
    {
      items: ['message Half !UPSTREAM_MALFORMED'],
      end: 'error UPSTREAM_MALFORMED: chat.completion.chunk: choices is not an array',
    },
  ],
  [
    'two-responses',
    'two responses in one input',
    { items: ['message One.'], end: 'complete stop (stop)' },
    { items: ['message Two.'], end: 'complete length (length)' },
  ],
  [
    'two-responses-without-done',
    'two responses without [DONE] between them',
    { items: ['message One.'], end: 'complete stop (stop)' },
    { items: ['message Two.'], end: 'complete stop (stop)' },
  ],
]
