/** Blocks of a message, and the items that they come to. */
import {
  blockDelta,
  blockStart,
  blockStop,
  citedBlock,
  type Fields,
  jsonDelta,
  textBlock,
  textDelta,
  thinkingBlock,
  toolUse,
} from './events.ts'

export const message = (content: string, anthropic?: Fields) => ({
  type: 'message',
  origin: 'agent',
  content,
  ...(anthropic !== undefined && { anthropic }),
})
export const reasoning = (content: string, anthropic?: Fields) => ({
  ...message(content, anthropic),
  type: 'reasoning',
})
export const call = (call_id: string, name: string, args: string) => ({
  type: 'function_call',
  call_id,
  name,
  arguments: args,
})

const citation = { type: 'web_search_result_location', url: 'https://a', encrypted_index: 'i' }

export interface ContentRow {
  name: string
  blocks: readonly unknown[]
  items: readonly Fields[]
}

export const contentRows: ContentRow[] = [
  {
    name: 'text is one message, and a ping in it is nothing',
    blocks: [
      blockStart(0, { type: 'text', text: 'He' }),
      { type: 'ping' },
      textDelta(0, 'll'),
      textDelta(0, ''),
      textDelta(0, 'o'),
      blockStop(0),
    ],
    items: [message('Hello')],
  },
  {
    name: 'halves of a surrogate pair in two deltas are one character',
    blocks: textBlock(0, '\ud83d', '\ude00'),
    items: [message('😀')],
  },
  { name: 'a text block without text is no item', blocks: textBlock(0), items: [] },
  {
    name: 'thinking keeps its signature',
    blocks: thinkingBlock(0, 'sig', 'Let ', 'me'),
    items: [reasoning('Let me', { signature: 'sig' })],
  },
  {
    name: 'thinking that is only a signature is kept',
    blocks: thinkingBlock(0, 'sig'),
    items: [reasoning('', { signature: 'sig' })],
  },
  {
    name: 'thinking may come whole at its start',
    blocks: [blockStart(0, { type: 'thinking', thinking: 'Hm', signature: 's' }), blockStop(0)],
    items: [reasoning('Hm', { signature: 's' })],
  },
  {
    name: 'redacted thinking keeps its data and shows nothing',
    blocks: [blockStart(0, { type: 'redacted_thinking', data: 'xyz' }), blockStop(0)],
    items: [reasoning('', { block: { type: 'redacted_thinking', data: 'xyz' } })],
  },
  {
    name: 'a call is put together from its fragments, alike ones included',
    blocks: toolUse(0, 't1', 'add', '', '{"a":1', '1', '1', '}'),
    items: [call('t1', 'add', '{"a":111}')],
  },
  {
    name: 'a call without fragments has empty arguments',
    blocks: [...toolUse(0, 't1', 'now'), ...toolUse(1, 't2', 'now', '', '')],
    items: [call('t1', 'now', '{}'), call('t2', 'now', '{}')],
  },
  {
    name: 'a call may have its input at its start',
    blocks: [
      blockStart(0, { type: 'tool_use', id: 't1', name: 'add', input: { a: [1] } }),
      jsonDelta(0, ''),
      blockStop(0),
    ],
    items: [call('t1', 'add', '{"a":[1]}')],
  },
  {
    name: 'fragments win over an input at the start',
    blocks: [
      blockStart(0, { type: 'tool_use', id: 't1', name: 'add', input: { a: 1 } }),
      jsonDelta(0, '{"a":2}'),
      blockStop(0),
    ],
    items: [call('t1', 'add', '{"a":2}')],
  },
  {
    name: 'a call without an id gets one',
    blocks: [blockStart(0, { type: 'tool_use', name: 'now' }), blockStop(0)],
    items: [call('call_run_1', 'now', '{}')],
  },
  {
    name: 'what else a call says of itself is kept',
    blocks: [
      blockStart(0, { type: 'tool_use', id: 't1', name: 'x', input: {}, caller: { type: 'c' } }),
      blockStop(0),
    ],
    items: [
      {
        ...call('t1', 'x', '{}'),
        anthropic: { block: { type: 'tool_use', caller: { type: 'c' } } },
      },
    ],
  },
  {
    name: 'interleaved blocks do not mix',
    blocks: [
      blockStart(0, { type: 'tool_use', id: 't1', name: 'a' }),
      blockStart(1, { type: 'tool_use', id: 't2', name: 'b' }),
      jsonDelta(0, '{"x":'),
      jsonDelta(1, '{"y":'),
      jsonDelta(0, '1}'),
      jsonDelta(1, '2}'),
      blockStop(1),
      blockStop(0),
    ],
    items: [call('t1', 'a', '{"x":1}'), call('t2', 'b', '{"y":2}')],
  },
  {
    name: 'a second block under an open index ends the first',
    blocks: [
      blockStart(0, { type: 'tool_use', id: 't1', name: 'a' }),
      jsonDelta(0, '{"x":1}'),
      blockStart(0, { type: 'tool_use', id: 't2', name: 'b' }),
      jsonDelta(0, '{"y":2}'),
      blockStop(0),
    ],
    items: [call('t1', 'a', '{"x":1}'), call('t2', 'b', '{"y":2}')],
  },
  {
    name: 'blocks that nobody stops are whole at the end of the message',
    blocks: [
      blockStart(0, { type: 'thinking', thinking: 'Hm', signature: 's' }),
      blockStart(1, { type: 'tool_use', id: 't1', name: 'a' }),
      jsonDelta(1, '{"x":1}'),
      blockStart(2, { type: 'text', text: 'Hi' }),
    ],
    items: [reasoning('Hm', { signature: 's' }), call('t1', 'a', '{"x":1}'), message('Hi')],
  },
  {
    name: 'words of a block that nobody announced are not lost',
    blocks: [
      blockDelta(0, { type: 'thinking_delta', thinking: 'Hm' }),
      blockStop(0),
      textDelta(1, 'Hi'),
      textDelta(1, ' there'),
    ],
    items: [reasoning('Hm'), message('Hi there')],
  },
  {
    name: 'adjacent text blocks are one message with its cuts and citations',
    blocks: [
      ...textBlock(0, 'So: '),
      ...citedBlock(1, 'it rained', citation),
      ...textBlock(2),
      ...textBlock(3, '.'),
    ],
    items: [
      message('So: it rained.', {
        blocks: [{ length: 4 }, { length: 9, citations: [citation] }, { length: 1 }],
      }),
    ],
  },
  {
    name: 'citations at the start of a block are also stored',
    blocks: [blockStart(0, { type: 'text', text: 'Yes', citations: [citation] }), blockStop(0)],
    items: [message('Yes', { blocks: [{ length: 3, citations: [citation] }] })],
  },
  {
    name: 'another block ends a message',
    blocks: [...textBlock(0, 'a'), ...thinkingBlock(1, 's', 'b'), ...textBlock(2, 'c')],
    items: [message('a'), reasoning('b', { signature: 's' }), message('c')],
  },
  {
    name: 'a text block that is open while others begin goes on as its own message',
    blocks: [
      blockStart(0, { type: 'text', text: 'a' }),
      blockStart(1, { type: 'text', text: 'x' }),
      ...thinkingBlock(2, 's', 'b'),
      textDelta(0, 'a'),
      textDelta(1, 'x'),
      blockStop(0),
      blockStop(1),
    ],
    items: [message('aa'), message('xx'), reasoning('b', { signature: 's' })],
  },
]
