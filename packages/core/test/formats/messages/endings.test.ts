import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  blockStart,
  blockStop,
  ending,
  jsonDelta,
  messageDelta,
  messageStart,
  messageStop,
  plain,
  responseOf,
  textBlock,
  textDelta,
  thinkingBlock,
  toolUse,
  translate,
} from './events.ts'

describe('A2 a finished message', () => {
  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['tool_use', 'tool_calls'],
    ['pause_turn', 'pause'],
    ['refusal', 'refusal'],
    ['compaction', 'other'],
    ['__proto__', 'other'],
  ])('that ended with %s has the finish reason %s', (word, reason) => {
    expect(responseOf([messageStart(), ...textBlock(0, 'Hi'), ...ending(word)])).toMatchObject({
      status: 'complete',
      finish_reason: reason,
      provider_finish_reason: word,
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
      error: null,
    })
  })

  test('that met a stop sequence names it', () => {
    const delta = { stop_reason: 'stop_sequence', stop_sequence: 'END' }
    const events = [messageStart(), ...textBlock(0, 'Hi'), { ...messageDelta('x'), delta }]
    const done = translate([...events, messageStop]).at(-1)
    expect(done).toMatchObject({ finish_reason: 'stop', stop_sequence: 'END' })
  })

  test('without a stop reason is complete', () => {
    const noReason = { status: 'complete', finish_reason: 'other', provider_finish_reason: null }
    expect(responseOf([messageStart(), messageStop])).toMatchObject(noReason)
    expect(responseOf([messageStart(), ...ending(null)])).toMatchObject(noReason)
    expect(responseOf([messageStop])).toMatchObject(noReason)
  })

  test('with a client call ends with tool_calls, whatever a compatible server sends', () => {
    const events = [messageStart(), ...toolUse(0, 't1', 'now'), ...ending('end_turn')]
    expect(responseOf(events)).toMatchObject({
      finish_reason: 'tool_calls',
      provider_finish_reason: 'end_turn',
    })
    const cut = [messageStart(), ...toolUse(0, 't1', 'now', '{"a'), ...ending('max_tokens')]
    expect(responseOf(cut)).toMatchObject({
      finish_reason: 'length',
      output_items: [{ arguments: '{"a' }],
    })
  })

  test('with only a vendor-run call has no pending call', () => {
    const search = { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} }
    const events = [messageStart(), blockStart(0, search), blockStop(0), ...ending('end_turn')]
    expect(responseOf(events).finish_reason).toBe('stop')
  })
})

describe('A6 a message that starts', () => {
  test('inside another cancels open items and continues the response', () => {
    const response = responseOf([
      messageStart({ input_tokens: 1, output_tokens: 9, cache_read_input_tokens: 4 }),
      ...thinkingBlock(0, 'sig-1', 'First'),
      ...textBlock(1, 'so'),
      blockStart(2, { type: 'tool_use', id: 't1', name: 'a' }),
      jsonDelta(2, '{"x":'),
      messageStart({ input_tokens: 2, output_tokens: 1 }),
      ...thinkingBlock(0, 'sig-2', 'Second'),
      ...toolUse(1, 't2', 'a', '{"x":1}'),
      ...ending('tool_use'),
    ])
    const cancelled = { reason: 'attempt_reset' }
    expect(response.output_items.map(plain)).toEqual([
      { type: 'reasoning', origin: 'agent', content: 'First', anthropic: { signature: 'sig-1' } },
      { type: 'message', origin: 'agent', content: 'so' },
      { type: 'function_call', name: 'a', call_id: 't1', arguments: '{"x":', cancelled },
      { type: 'reasoning', origin: 'agent', content: 'Second', anthropic: { signature: 'sig-2' } },
      { type: 'function_call', name: 'a', call_id: 't2', arguments: '{"x":1}' },
    ])
    expect(response.usage).toEqual({ prompt_tokens: 2, completion_tokens: 5, total_tokens: 7 })
    expect(response).toMatchObject({ status: 'complete', finish_reason: 'tool_calls' })
  })

  test('inside another drops the calls of the first', () => {
    const events = [
      messageStart(),
      ...toolUse(0, 't1', 'a'),
      messageStart(),
      ...textBlock(0, 'Hi'),
      ...ending('end_turn'),
    ]
    expect(responseOf(events).finish_reason).toBe('stop')
  })

  test('after an end is the next response', () => {
    const responses = responsesOf(
      translate([
        messageStart({ input_tokens: 1, output_tokens: 1 }),
        ...toolUse(0, 't1', 'a'),
        ...ending('tool_use'),
        messageStart(null),
        ...textBlock(0, 'two'),
        messageDelta('end_turn', null),
        messageStop,
        messageStart(),
        { type: 'error', error: { type: 'api_error', message: 'no' } },
        messageStart(),
        ...ending('max_tokens'),
      ]),
    )
    expect(responses.map(({ id, finish_reason }) => [id, finish_reason])).toEqual([
      ['run', 'tool_calls'],
      ['run-2', 'stop'],
      ['run-3', null],
      ['run-4', 'length'],
    ])
    expect(responses[1]).not.toHaveProperty('usage')
    expect(responses[2]?.error).toEqual({ code: 'api_error', message: 'no' })
  })
})

const TRUNCATED = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider stream ended early',
}

describe('A3 a stream that ends early', () => {
  const calls = toolUse(1, 't1', 'a', '{"x":').slice(0, -1)
  test.each([
    { where: 'before anything', events: [], items: [] },
    { where: 'after a ping', events: [{ type: 'ping' }], items: [] },
    { where: 'after its start', events: [messageStart()], items: [] },
    {
      where: 'in a text',
      events: [messageStart(), blockStart(0, { type: 'text', text: '' }), textDelta(0, 'Ha')],
      items: [{ content: 'Ha', error: TRUNCATED }],
    },
    {
      where: 'in a thought',
      events: [messageStart(), blockStart(0, { type: 'thinking', thinking: 'Hm' })],
      items: [{ content: 'Hm', error: TRUNCATED }],
    },
    {
      where: 'in a call',
      events: [messageStart(), ...textBlock(0, 'Now'), ...calls],
      items: [{ content: 'Now' }, { arguments: '{"x":', error: TRUNCATED }],
    },
    {
      where: 'in a redacted thought',
      events: [messageStart(), blockStart(0, { type: 'redacted_thinking', data: 'd' })],
      items: [{ content: '', error: TRUNCATED }],
    },
    {
      where: 'after a text that may go on',
      events: [messageStart(), ...textBlock(0, 'Hi')],
      items: [{ content: 'Hi', error: TRUNCATED }],
    },
    {
      where: 'after a call',
      events: [messageStart(), ...toolUse(0, 't1', 'a')],
      items: [{ arguments: '{}' }],
    },
    {
      where: 'between the stop reason and the stop',
      events: [messageStart(), ...textBlock(0, 'Hi'), messageDelta('end_turn')],
      items: [{ content: 'Hi' }],
    },
  ])('$where is truncated', ({ events, items }) => {
    const response = responseOf(events)
    expect(response).toMatchObject({ status: 'error', finish_reason: null, error: TRUNCATED })
    expect(response.output_items).toHaveLength(items.length)
    for (const [index, item] of items.entries()) {
      expect(response.output_items[index]).toMatchObject(item)
      expect('error' in item).toBe('error' in (response.output_items[index] ?? {}))
    }
  })

  test('keeps the last known usage', () => {
    expect(responseOf([messageStart()]).usage).toEqual({
      prompt_tokens: 10,
      completion_tokens: 1,
      total_tokens: 11,
    })
  })
})

describe('a vendor error', () => {
  test.each([
    { error: { type: 'overloaded_error', message: 'Overloaded' }, code: 'overloaded_error' },
    { error: { message: 'Overloaded' }, code: 'error' },
    { error: 'Overloaded', code: 'error' },
  ])('%j ends the response and open items', ({ error, code }) => {
    const [response] = responsesOf(
      translate([
        messageStart(),
        blockStart(0, { type: 'text', text: 'Ha' }),
        { type: 'error', error },
        textDelta(0, 'ppy'),
        ...ending(),
      ]),
    )
    const expected = { code, message: 'Overloaded' }
    expect(response).toMatchObject({ status: 'error', error: expected })
    expect(response?.output_items).toMatchObject([{ content: 'Ha', error: expected }])
  })

  test('is recognised without its type, and before any message', () => {
    const bare = { error: { type: 'rate_limit_error', message: 'Slow down' } }
    expect(responseOf([bare]).error).toEqual({ code: 'rate_limit_error', message: 'Slow down' })
  })
})

test('only a next message may follow an end', () => {
  const events = [messageStart(), ...ending()]
  const late = [
    ...textBlock(0, 'late'),
    ...toolUse(1, 't', 'n'),
    blockStop(9),
    blockStart(-1, {}),
    { type: 'error', error: {} },
    { type: 'ping' },
    ...ending(),
  ]
  expect(translate([...events, ...late])).toEqual(translate(events))
})
