import { describe, expect, test } from 'vitest'
import { toHistory } from '../../../src/formats/messages/request-out.ts'
import type { OutputItem } from '../../../src/index.ts'
import type { Fields } from './events.ts'

type Item = OutputItem
const message = (
  origin: 'user' | 'agent' | 'system',
  content: string,
  anthropic?: Fields,
): Item => ({
  type: 'message',
  id: 'm',
  origin,
  content,
  ...(anthropic !== undefined && { provider_metadata: { anthropic } }),
})
const user = (content: string) => message('user', content)
const agent = (content: string, anthropic?: Fields) => message('agent', content, anthropic)
const reasoning = (content: string, provider_metadata: Fields = {}): Item => ({
  type: 'reasoning',
  id: 'r',
  content,
  provider_metadata,
})
const call = (call_id: string, args = '{}', provider_metadata: Fields = {}): Item => ({
  type: 'function_call',
  id: 'c',
  call_id,
  name: 'tool',
  arguments: args,
  provider_metadata,
})
const output = (
  call_id: string,
  text: string,
  success = true,
  provider_metadata: Fields = {},
): Item => ({
  type: 'function_call_output',
  id: 'o',
  call_id,
  output: text,
  success,
  provider_metadata,
})
const executed = (block: Fields) => ({ executed_by: 'provider', anthropic: { block } })

const text = (value: string) => ({ type: 'text', text: value })
const toolUse = (id: string, input: Fields = {}) => ({ type: 'tool_use', id, name: 'tool', input })
const toolResult = (id: string, content: string) => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
})
const notRun = (id: string) => ({ ...toolResult(id, 'The tool was not run'), is_error: true })

interface Row {
  name: string
  input: Item[]
  /** What the user and the assistant say in turn; the user begins. */
  turns: unknown[][]
}

const citation = { type: 'char_location', cited_text: 'x' }
const rows: Row[] = [
  {
    name: 'items of one side are one message',
    input: [user('a'), user('b'), agent('c'), agent('d'), user('e')],
    turns: [[text('a'), text('b')], [text('c'), text('d')], [text('e')]],
  },
  { name: 'empty text is left out', input: [user('a'), agent(''), user('')], turns: [[text('a')]] },
  {
    name: 'signed thinking goes back in its place, also when it says nothing',
    input: [
      user('a'),
      reasoning('Hm', { anthropic: { signature: 's1' } }),
      reasoning('', { anthropic: { signature: 's2' } }),
      reasoning('', { anthropic: { block: { type: 'redacted_thinking', data: 'd' } } }),
      call('t1', '{"x":1}'),
      output('t1', 'ok'),
    ],
    turns: [
      [text('a')],
      [
        { type: 'thinking', thinking: 'Hm', signature: 's1' },
        { type: 'thinking', thinking: '', signature: 's2' },
        { type: 'redacted_thinking', data: 'd' },
        toolUse('t1', { x: 1 }),
      ],
      [toolResult('t1', 'ok')],
    ],
  },
  {
    name: 'reasoning of others, or without a signature, stays here',
    input: [user('a'), reasoning('x', { openai: { signature: 's' } }), reasoning('y'), agent('b')],
    turns: [[text('a')], [text('b')]],
  },
  {
    name: 'a message goes back cut as it came',
    input: [
      user('a'),
      agent('So: rain.', {
        blocks: [{ length: 4 }, { length: 4, citations: [citation] }, { length: 0 }, { length: 1 }],
      }),
    ],
    turns: [[text('a')], [text('So: '), { ...text('rain'), citations: [citation] }, text('.')]],
  },
  {
    name: 'a message whose text was changed goes back in one piece',
    input: [user('a'), agent('Rain', { blocks: [{ length: 1 }, { length: 1, citations: [] }] })],
    turns: [[text('a')], [text('Rain')]],
  },
  {
    name: 'a file of the container goes back as it came',
    input: [user('a'), agent('', { block: { type: 'container_upload', file_id: 'f' } })],
    turns: [[text('a')], [{ type: 'container_upload', file_id: 'f' }]],
  },
  {
    name: 'results of one turn are one message, first and in the order of the calls',
    input: [user('a'), call('t1'), call('t2'), output('t2', '2'), output('t1', '1'), user('b')],
    turns: [
      [text('a')],
      [toolUse('t1'), toolUse('t2')],
      [toolResult('t1', '1'), toolResult('t2', '2'), text('b')],
    ],
  },
  {
    name: 'a result divides the turns of the assistant',
    input: [user('a'), call('t1'), output('t1', '1'), call('t2'), output('t2', '2'), agent('b')],
    turns: [
      [text('a')],
      [toolUse('t1')],
      [toolResult('t1', '1')],
      [toolUse('t2')],
      [toolResult('t2', '2')],
      [text('b')],
    ],
  },
  {
    name: 'calls of one message stay together when a result came between',
    input: [
      user('a'),
      call('t1', '{}', { anthropic: { message_id: 'm1' } }),
      output('t1', '1'),
      call('t2', '{}', { anthropic: { message_id: 'm1' } }),
      output('t2', '2'),
      agent('b', { message_id: 'm2' }),
    ],
    turns: [
      [text('a')],
      [toolUse('t1'), toolUse('t2')],
      [toolResult('t1', '1'), toolResult('t2', '2')],
      [text('b')],
    ],
  },
  {
    name: 'a result that came late stands after its call',
    input: [user('a'), call('t1'), user('b'), agent('c'), output('t1', '1')],
    turns: [[text('a')], [toolUse('t1')], [toolResult('t1', '1'), text('b')], [text('c')]],
  },
  {
    name: 'a call that was not answered is said to be so',
    input: [user('a'), call('t1'), call('t2'), output('t2', '2'), user('b')],
    turns: [
      [text('a')],
      [toolUse('t1'), toolUse('t2')],
      [notRun('t1'), toolResult('t2', '2'), text('b')],
    ],
  },
  {
    name: 'an id that is used again is answered again',
    input: [user('a'), call('t1'), output('t1', '1'), call('t1'), output('t1', '2')],
    turns: [
      [text('a')],
      [toolUse('t1')],
      [toolResult('t1', '1')],
      [toolUse('t1')],
      [toolResult('t1', '2')],
    ],
  },
  {
    name: 'a failed and an empty result say so',
    input: [user('a'), call('t1'), call('t2'), output('t1', 'no', false), output('t2', '')],
    turns: [
      [text('a')],
      [toolUse('t1'), toolUse('t2')],
      [
        { ...toolResult('t1', 'no'), is_error: true },
        { type: 'tool_result', tool_use_id: 't2' },
      ],
    ],
  },
  {
    name: 'arguments that are no object are wrapped',
    input: [user('a'), call('t1', '{"x":'), call('t2', '[1]'), call('t3', ' ')],
    turns: [
      [text('a')],
      [
        toolUse('t1', { INVALID_JSON: '{"x":' }),
        toolUse('t2', { INVALID_JSON: '[1]' }),
        toolUse('t3'),
      ],
      [notRun('t1'), notRun('t2'), notRun('t3')],
    ],
  },
  {
    name: 'ids of other vendors are made acceptable, and still match',
    input: [user('a'), call('run:1|x'), output('run:1|x', '1')],
    turns: [[text('a')], [toolUse('run_3a1_7cx')], [toolResult('run_3a1_7cx', '1')]],
  },
  {
    name: 'a call that this vendor ran goes back as it came, with its result',
    input: [
      user('a'),
      call('s1', '{"q":1}', executed({ type: 'server_tool_use', caller: { type: 'direct' } })),
      output('s1', '[{"url":"u"}]', true, executed({ type: 'web_search_tool_result' })),
      agent('b'),
    ],
    turns: [
      [text('a')],
      [
        { ...toolUse('s1', { q: 1 }), type: 'server_tool_use', caller: { type: 'direct' } },
        { type: 'web_search_tool_result', tool_use_id: 's1', content: [{ url: 'u' }] },
        text('b'),
      ],
    ],
  },
  {
    name: 'a call that another vendor ran stays here, with its result',
    input: [
      user('a'),
      call('w1', '{}', { executed_by: 'provider', openai: {} }),
      output('w1', '{}'),
      output('w2', '{}', true, { executed_by: 'provider' }),
      agent('b'),
    ],
    turns: [[text('a')], [text('b')]],
  },
  {
    name: 'what was cancelled or broken stays here',
    input: [
      user('a'),
      Object.assign(agent('x'), { cancelled: { reason: 'attempt_reset' } }),
      Object.assign(call('t1', '{"x'), { error: { code: 'UPSTREAM_TRUNCATED', message: '' } }),
      output('t1', 'it was too large', false),
      { type: 'error', id: 'e', code: 'c', message: 'm' },
      { type: 'cancelled', id: 'x' },
      agent('b'),
    ],
    turns: [[text('a')], [text('b')]],
  },
]

describe('messages', () => {
  test.each(rows)('$name', ({ input, turns }) => {
    expect(toHistory(input).messages).toEqual(
      turns.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content })),
    )
  })
})

describe('ids of calls', () => {
  const sent = (...callIds: string[]) => {
    const input = callIds.flatMap((id) => [call(id), output(id, id)])
    const blocks = toHistory([user('a'), ...input]).messages.flatMap(({ content }) => content)
    const results = blocks.flatMap((each) => each['tool_use_id'] ?? [])
    expect(blocks.flatMap((each) => each['id'] ?? [])).toEqual(results)
    return results
  }

  test('are rewritten where the vendor refuses them, the same for call and result', () => {
    expect(sent('functions.Bash:0', 'toolu_1-A')).toEqual(['functions_2eBash_3a0', 'toolu_1-A'])
    for (const id of sent('é😀', ' ', '', 'a/b')) expect(id).toMatch(/^[a-zA-Z0-9_-]+$/)
  })

  test('stay different, and valid ones unchanged', () => {
    const ids = ['a.b', 'a_2eb', 'a_2eb_', '', '_']
    const all = sent(...ids)
    expect(new Set(all).size).toBe(ids.length)
    expect([all[1], all[2], all[4]]).toEqual(['a_2eb', 'a_2eb_', '_'])
    expect(sent(...ids)).toEqual(all)
  })
})

test('system messages become the system prompt, wherever they are', () => {
  const input = [message('system', 'Be kind.'), user('a'), message('system', 'Be brief.')]
  expect(toHistory(input)).toEqual({
    system: [text('Be kind.'), text('Be brief.')],
    messages: [{ role: 'user', content: [text('a')] }],
  })
})

test.each([
  [[output('t1', 'x')], 'input: the output of t1 has no call'],
  [
    [output('s1', 'cut of[', true, executed({ type: 'web_search_tool_result' }))],
    'input: the output of s1 was modified',
  ],
])('an invalid thread is refused: %#', (input, reason) => {
  expect(() => toHistory(input)).toThrow(
    expect.objectContaining({
      code: 'OPTION_INVALID',
      message: `Invalid option: ${reason}`,
    }),
  )
})

test('text of white space alone is left out, which the vendor refuses', () => {
  const input = [
    message('system', ' \n'),
    user('a'),
    message('agent', '\n\n'),
    call('t1'),
    output('t1', ' '),
    user(' \t'),
  ]
  expect(toHistory(input)).toEqual({
    system: [],
    messages: [
      { role: 'user', content: [text('a')] },
      { role: 'assistant', content: [toolUse('t1')] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't1' }] },
    ],
  })
})
