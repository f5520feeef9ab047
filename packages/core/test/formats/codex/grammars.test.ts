/** How one of the grammars is chosen, and those that need no names of their own. */
import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  agentItem,
  agentMessage,
  begun,
  call,
  completed,
  done,
  itemsOf,
  legacy,
  message,
  plain,
  responseOf,
  said,
  started,
  textDelta,
  translate,
  turnCompleted,
  turnStarted,
} from './events.ts'

const item = { type: 'AgentMessage', content: [{ type: 'Text', text: 'Hello' }] }
const bareForms: [name: string, events: unknown[]][] = [
  [
    'by method, in camel case',
    [
      { method: 'agentMessageDelta', params: { delta: 'Hel' } },
      { method: 'agentMessageDelta', params: { delta: 'lo' } },
      { method: 'itemCompleted', params: { item } },
      { method: 'taskComplete', params: {} },
    ],
  ],
  [
    'by method, in snake case',
    [
      { method: 'agent_message_delta', params: { delta: 'Hello' } },
      { method: 'item_completed', params: { item } },
      { method: 'task_complete' },
    ],
  ],
  [
    'by type, each with an id of its own',
    [
      { type: 'agent_message_delta', id: 'evt_1', delta: 'Hel' },
      { type: 'agent_message_delta', id: 'evt_2', delta: 'lo' },
      { type: 'item_completed', id: 'evt_3', item },
      { type: 'task_complete', id: 'evt_4' },
    ],
  ],
  [
    'inside msg',
    [
      { id: '0', msg: { type: 'task_started' } },
      { id: '0', msg: { type: 'agent_message_delta', delta: 'Hello' } },
      { id: '0', msg: { type: 'task_complete', last_agent_message: 'Hello' } },
    ],
  ],
]

describe('bare event names', () => {
  test.each(bareForms)('%s', (_, events) => {
    expect(itemsOf(events)).toEqual([message('Hello')])
  })

  test('several turns need no announcement', () => {
    const turn = [{ type: 'agent_message_delta', delta: 'Hi' }, { type: 'task_complete' }]
    const responses = responsesOf(translate([...turn, ...turn]))
    expect(responses.map(({ output_items }) => output_items.map(plain))).toEqual([
      [message('Hi')],
      [message('Hi')],
    ])
  })

  test('the rest of a broken response starts no new one', () => {
    const events = [
      { type: 'agent_message_delta', delta: 7 },
      { type: 'agent_message_delta', delta: 'rest' },
      { type: 'task_complete' },
    ]
    expect(responseOf(events)).toMatchObject({ status: 'error', output_items: [] })
  })

  test('an error is remembered until the end', () => {
    const events = [
      { type: 'agent_message_delta', delta: 'Hi' },
      { type: 'error', message: 'It broke' },
      { type: 'task_complete' },
    ]
    expect(responseOf(events)).toMatchObject({
      status: 'error',
      error: { code: 'other', message: 'It broke' },
    })
  })
})

const responseEvents = [
  { type: 'response.created', response: { id: 'resp_1' } },
  {
    type: 'response.output_item.added',
    output_index: 0,
    item: { type: 'function_call', id: 'fc', call_id: 'c', name: 'f' },
  },
  {
    type: 'response.function_call_arguments.delta',
    output_index: 0,
    item_id: 'fc',
    delta: '{"a":',
  },
  { type: 'response.function_call_arguments.delta', output_index: 0, item_id: 'fc', delta: '1}' },
  {
    type: 'response.output_item.done',
    output_index: 0,
    item: { type: 'function_call', id: 'fc', call_id: 'c', name: 'f', arguments: '{"a":1}' },
  },
  {
    type: 'response.completed',
    response: { id: 'resp_1', usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 } },
  },
]

describe('response.*', () => {
  test('is translated like a Responses stream', () => {
    const response = responseOf(responseEvents)
    expect(response.output_items.map(plain)).toEqual([call('c', 'f', '{"a":1}')])
    expect(response).toMatchObject({ finish_reason: 'tool_calls', usage: { total_tokens: 3 } })
  })

  test('may be wrapped in notifications, recorded or not', () => {
    const whole = translate(responseEvents)
    const notifications = responseEvents.map(({ type, ...params }) => ({ method: type, params }))
    expect(translate(notifications)).toEqual(whole)
    expect(translate(notifications.map((msg) => ({ t: 1, dir: 's2c', msg })))).toEqual(whole)
  })

  test('an error at the start belongs to it', () => {
    expect(
      translate([{ type: 'error', code: 'server_error', message: 'Down' }]).at(-1),
    ).toMatchObject({
      type: 'response_error',
      error: { code: 'server_error', message: 'Down' },
    })
  })

  test('that ends early is truncated', () => {
    expect(translate(responseEvents.slice(0, 3)).at(-1)).toMatchObject({
      type: 'response_error',
      error: { code: 'UPSTREAM_TRUNCATED' },
    })
  })
})

describe('the detected grammar', () => {
  const v2 = [turnStarted(), ...said('m', 'Hello'), turnCompleted()]
  const old = [begun, legacy('agent_message_delta', { delta: 'Hello' }), done]

  test.each([
    ['today', [v2, old, responseEvents], 'completed', 'Hello'],
    ['earlier', [old, v2, responseEvents], 'task_complete', 'Hello'],
  ])("is the first that occurs: %s's", (_, inputs, word, text) => {
    const response = responseOf(inputs.flat())
    expect(response.provider_finish_reason).toBe(word)
    expect(response.output_items.map(plain)).toEqual([message(text)])
  })

  test('is responses when those come first', () => {
    const response = responseOf([responseEvents, v2, old].flat())
    expect(response.output_items.map(plain)).toEqual([call('c', 'f', '{"a":1}')])
  })

  test('is not chosen by events outside turns', () => {
    const noise = [
      { method: 'thread/started', params: { thread: {} } },
      { id: 1, result: { thread: { id: 't' }, model: 'gpt-x' } },
      legacy('mcp_startup_complete'),
    ]
    const response = responseOf([...noise, ...old, ...v2])
    expect(response).toMatchObject({ provider_finish_reason: 'task_complete', model_id: 'gpt-x' })
  })

  test('also applies to an item that both report', () => {
    const mixed = [
      turnStarted(),
      legacy('item_started', agentItem('m', '')),
      started(agentMessage('m', '')),
      legacy('agent_message_content_delta', { item_id: 'm', delta: 'Hi' }),
      textDelta('m', 'Hi'),
      legacy('agent_message_delta', { delta: 'Hi' }),
      legacy('item_completed', agentItem('m', 'Hi')),
      completed(agentMessage('m', 'Hi')),
      legacy('task_complete', { last_agent_message: 'Hi' }),
      turnCompleted(),
    ]
    const deltas = translate(mixed).filter(({ type }) => type === 'item_delta')
    expect(deltas).toMatchObject([{ delta_content: 'Hi' }])
    expect(responseOf(mixed).provider_finish_reason).toBe('completed')
  })
})
