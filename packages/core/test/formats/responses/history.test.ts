import { describe, expect, test } from 'vitest'
import { toInput } from '../../../src/formats/responses/request-out.ts'
import type { OutputItem } from '../../../src/index.ts'
import {
  completed,
  created,
  done,
  type Fields,
  responseOf,
  wireCall,
  wireCustom,
  wireMessage,
} from './events.ts'

const NOT_RUN = 'The tool was not run'

const user: OutputItem = { type: 'message', id: 'u', origin: 'user', content: 'Hi' }
const wireUser = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }
const call = (call_id: string, openai?: Fields, extra: Fields = {}): OutputItem => ({
  type: 'function_call',
  id: `i-${call_id}`,
  call_id,
  name: 'f',
  arguments: '{"a":1}',
  provider_metadata: { ...extra, ...(openai !== undefined && { openai }) },
})
const output = (call_id: string, text = 'out', success = true): OutputItem => ({
  type: 'function_call_output',
  id: `o-${call_id}`,
  call_id,
  output: text,
  success,
})
const reasoning = (openai?: Fields): OutputItem => ({
  type: 'reasoning',
  id: 'r',
  content: 'Hm.',
  ...(openai !== undefined && { provider_metadata: { openai } }),
})
const wireReasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' }
const sentCall = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{"a":1}' }
const sentOutput = { type: 'function_call_output', call_id: 'c', output: 'out' }
const answer = (content: string, openai?: Fields): OutputItem => ({
  type: 'message',
  id: 'a',
  origin: 'agent',
  content,
  ...(openai !== undefined && { provider_metadata: { openai } }),
})
const sentAnswer = (text: string, more: Fields = {}) => ({
  type: 'message',
  role: 'assistant',
  ...more,
  content: [{ type: 'output_text', text, annotations: [] }],
})

/** As the items of a Response are. */
const withMark = (item: OutputItem, mark: Fields): OutputItem => Object.assign(item, mark)

interface Row {
  name: string
  items: OutputItem[]
  input: Fields[]
}

const rows: Row[] = [
  {
    name: 'messages of the user, the system and the agent',
    items: [{ ...user, origin: 'system' }, user, answer('Hello')],
    input: [{ ...wireUser, role: 'system' }, wireUser, sentAnswer('Hello')],
  },
  {
    name: 'a call and its output',
    items: [user, call('c'), output('c')],
    input: [wireUser, sentCall, sentOutput],
  },
  {
    name: 'a call that nobody answered gets the word that it was not run',
    items: [call('c'), user],
    input: [sentCall, { ...sentOutput, output: NOT_RUN }, wireUser],
  },
  {
    name: 'a custom call and its output go back in their own form',
    items: [
      {
        ...call('c', { type: 'custom_tool_call', id: 'ctc' }),
        arguments: '{"input":"x"}',
      } as OutputItem,
      output('c'),
    ],
    input: [
      { type: 'custom_tool_call', call_id: 'c', name: 'f', input: 'x' },
      { type: 'custom_tool_call_output', call_id: 'c', output: 'out' },
    ],
  },
  {
    name: 'reasoning goes back with the items it led to, then with their ids',
    items: [
      user,
      reasoning({ ...wireReasoning, status: null }),
      call('c', { type: 'function_call', id: 'fc', status: 'completed' }),
      output('c'),
    ],
    input: [wireUser, wireReasoning, { ...sentCall, id: 'fc', status: 'completed' }, sentOutput],
  },
  {
    name: 'reasoning that the vendor cannot read is left out, and the ids that need it',
    items: [
      reasoning({ ...wireReasoning, encrypted_content: null }),
      reasoning(),
      answer('Hello', { type: 'message', id: 'msg', phase: 'final_answer' }),
      call('c', { type: 'function_call', id: 'fc' }),
      output('c'),
    ],
    input: [sentAnswer('Hello', { phase: 'final_answer' }), sentCall, sentOutput],
  },
  {
    name: 'reasoning that led to nothing is left out',
    items: [reasoning(wireReasoning), user, reasoning(wireReasoning)],
    input: [wireUser],
  },
  {
    name: 'reasoning of one answer says nothing of the next',
    items: [
      reasoning(wireReasoning),
      answer('One', { type: 'message', id: 'm1' }),
      user,
      answer('Two', { type: 'message', id: 'm2' }),
    ],
    input: [wireReasoning, sentAnswer('One', { id: 'm1' }), wireUser, sentAnswer('Two')],
  },
  {
    name: 'reasoning that led to a call says nothing of what follows its output',
    items: [
      reasoning(wireReasoning),
      call('c', { type: 'function_call', id: 'fc' }),
      output('c'),
      answer('Done', { type: 'message', id: 'm' }),
    ],
    input: [wireReasoning, { ...sentCall, id: 'fc' }, sentOutput, sentAnswer('Done')],
  },
  {
    name: 'items of the vendor that nobody can read go back as they came',
    items: [reasoning({ type: 'compaction', id: 'c', encrypted_content: 'x' })],
    input: [{ type: 'compaction', id: 'c', encrypted_content: 'x' }],
  },
  {
    name: 'annotations and refusals go back',
    items: [
      answer('Hi', { type: 'message', annotations: [{ type: 'url_citation' }] }),
      answer('No.', { type: 'message', refusal: true }),
    ],
    input: [
      {
        ...sentAnswer('Hi'),
        content: [{ type: 'output_text', text: 'Hi', annotations: [{ type: 'url_citation' }] }],
      },
      { ...sentAnswer(''), content: [{ type: 'refusal', refusal: 'No.' }] },
    ],
  },
  {
    name: 'parts go back as they were, unless the text was changed',
    items: [
      answer('ab', { type: 'message', content: [{ text: 'a' }, { text: 'b' }] }),
      answer('changed', { type: 'message', content: [{ text: 'a' }, { text: 'b' }] }),
    ],
    input: [{ ...sentAnswer(''), content: [{ text: 'a' }, { text: 'b' }] }, sentAnswer('changed')],
  },
  {
    name: 'a tool that this vendor ran goes back whole, and once',
    items: [
      call('ws', { type: 'web_search_call', id: 'ws' }, { executed_by: 'provider' }),
      {
        ...output('ws'),
        provider_metadata: {
          executed_by: 'provider',
          openai: { type: 'web_search_call', id: 'ws' },
        },
      },
    ],
    input: [{ type: 'web_search_call', id: 'ws' }],
  },
  {
    name: 'an output of this vendor that is an item goes back as one',
    items: [
      call('s', { type: 'shell_call', call_id: 's' }, { executed_by: 'provider' }),
      {
        ...output('s'),
        provider_metadata: {
          executed_by: 'provider',
          openai: { type: 'shell_call_output', call_id: 's' },
        },
      },
    ],
    input: [
      { type: 'shell_call', call_id: 's' },
      { type: 'shell_call_output', call_id: 's' },
    ],
  },
  {
    name: 'a tool that another vendor ran means nothing to this one',
    items: [
      call('x', undefined, { executed_by: 'provider', other: {} }),
      { ...output('x'), provider_metadata: { executed_by: 'provider' } },
      call('y', undefined, { executed_by: 'provider' }),
      output('y'),
    ],
    input: [],
  },
  {
    name: 'a tool of the vendor that the client ran goes back with its output',
    items: [call('c', { type: 'local_shell_call', id: 'ls', call_id: 'c' }), output('c')],
    input: [
      { type: 'local_shell_call', id: 'ls', call_id: 'c' },
      { type: 'local_shell_call_output', id: 'c', output: 'out' },
    ],
  },
  {
    name: 'a tool of the vendor that the client did not run is left out',
    items: [call('c', { type: 'local_shell_call', call_id: 'c' })],
    input: [],
  },
  {
    name: 'errors, what was cancelled and calls that broke are left out',
    items: [
      { type: 'error', id: 'e', code: 'X', message: 'x' },
      { type: 'cancelled', id: 'x' },
      withMark(answer('Half'), { cancelled: {} }),
      withMark(call('c'), { error: { code: 'X', message: 'x' } }),
    ],
    input: [],
  },
]

describe('a thread becomes input', () => {
  test.each(rows)('$name', ({ items, input }) => {
    expect(toInput(items)).toEqual(input)
  })

  test('an output without its call is refused', () => {
    expect(() => toInput([output('c')])).toThrow('input: the output of c has no call')
  })
})

test('items from the vendor are sent back unchanged', () => {
  const wire: Fields[] = [
    wireReasoning,
    { ...wireMessage('Hi'), phase: 'commentary' },
    { type: 'web_search_call', id: 'ws', status: 'completed', action: { query: 'q' } },
    { ...wireCall('c1', 'f', '{"a":1}'), status: 'completed' },
    wireCustom('c2', 'g', 'x "y"'),
  ]
  const { output_items } = responseOf([
    created,
    ...wire.map((each, index) => done(index, each)),
    completed,
  ])
  const { status: _, ...sent } = { ...wireMessage('Hi'), phase: 'commentary' }
  expect(toInput([...output_items, output('c1'), output('c2')])).toEqual([
    wireReasoning,
    sent,
    ...wire.slice(2),
    { type: 'function_call_output', call_id: 'c1', output: 'out' },
    { type: 'custom_tool_call_output', call_id: 'c2', output: 'out' },
  ])
})
