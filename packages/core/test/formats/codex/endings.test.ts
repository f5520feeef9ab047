import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  agentMessage,
  clientTool,
  completed,
  counts,
  type Fields,
  failedAttempt,
  halfway,
  message,
  note,
  plain,
  rawCall,
  rawCompleted,
  rawOutput,
  responseOf,
  said,
  started,
  tokenUsage,
  translate,
  turnCompleted,
  turnFailed,
  turnStarted,
} from './events.ts'

const finalError = (codexErrorInfo: unknown) =>
  note('error', { error: { message: 'It broke', codexErrorInfo }, willRetry: false })

interface Ending {
  name: string
  events: unknown[]
  last: Fields
}

const rows: Ending[] = [
  {
    name: 'a turn that completes is done',
    events: [turnStarted(), ...said('m', 'Hi'), turnCompleted()],
    last: { type: 'response_done', finish_reason: 'stop', provider_finish_reason: 'completed' },
  },
  {
    name: 'a turn that fails is an error with its status',
    events: [...halfway, turnFailed('Slow down', { rateLimitExceeded: { httpStatusCode: 429 } })],
    last: { type: 'response_error', error: { code: 'HTTP_429', message: 'Slow down' } },
  },
  {
    name: 'a turn that fails without a reason has the one that was named before',
    events: [...halfway, finalError('contextWindowExceeded'), turnCompleted('failed')],
    last: {
      type: 'response_error',
      error: { code: 'context_length_exceeded', message: 'It broke' },
    },
  },
  {
    name: 'a turn that fails for no reason is an error all the same',
    events: [turnStarted(), turnCompleted('failed')],
    last: { type: 'response_error', error: { code: 'other', message: 'The turn failed' } },
  },
  {
    name: 'running out of tokens is an end',
    events: [...halfway, turnFailed('Incomplete response returned, reason: max_output_tokens')],
    last: {
      type: 'response_done',
      finish_reason: 'length',
      provider_finish_reason: 'max_output_tokens',
    },
  },
  {
    name: 'a content filter is an end',
    events: [...halfway, turnFailed('Incomplete response returned, reason: content_filter')],
    last: { type: 'response_done', finish_reason: 'content_filter' },
  },
  {
    name: 'a turn that is stopped is aborted',
    events: [...halfway, turnCompleted('interrupted')],
    last: { type: 'turn_aborted_by_user', turn_id: 'turn', reason: 'interrupted' },
  },
  {
    name: 'a turn that is stopped for the sake of its calls leaves them to the client',
    events: [turnStarted(), started(clientTool('w')), turnCompleted('interrupted')],
    last: { type: 'response_done', finish_reason: 'tool_calls' },
  },
  {
    name: 'a call that codex refused by itself is left to the client when the turn stops there',
    events: [
      turnStarted(),
      rawCall('w', 'get_weather', '{"city":'),
      rawCompleted(),
      rawOutput('w', 'failed to parse function arguments'),
      turnCompleted('interrupted'),
    ],
    last: { type: 'response_done', finish_reason: 'tool_calls' },
  },
  {
    name: 'a call that was answered is no reason to stop',
    events: [
      turnStarted(),
      started(clientTool('w')),
      completed(clientTool('w', { success: true, contentItems: [] })),
      ...said('m', 'So'),
      turnCompleted('interrupted'),
    ],
    last: { type: 'turn_aborted_by_user', reason: 'interrupted' },
  },
  {
    name: 'input that stops inside a message is truncated',
    events: halfway,
    last: { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } },
  },
  {
    name: 'input that stops after an attempt failed is truncated',
    events: [...halfway, failedAttempt],
    last: { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } },
  },
  {
    name: 'input that stops after the reason was named failed for that reason',
    events: [...halfway, finalError('internalServerError')],
    last: { type: 'response_error', error: { code: 'HTTP_500', message: 'It broke' } },
  },
  {
    name: 'input without anything is truncated',
    events: [],
    last: { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } },
  },
  {
    name: 'input with nothing but history is truncated',
    events: [rawCall('h', 'old', '{}'), tokenUsage(counts(1, 1), counts(1, 1))],
    last: { type: 'response_error', error: { code: 'UPSTREAM_TRUNCATED' } },
  },
]

describe('the end of a turn', () => {
  test.each(rows)('$name', ({ events, last }) => {
    const payloads = translate(events)
    expect(payloads.at(-1)).toMatchObject(last)
    expect(payloads.filter(({ type }) => type === 'response_start')).toHaveLength(1)
  })

  test('a failure fails open items with the same code', () => {
    const payloads = translate([...halfway, turnFailed('Gone', 'serverOverloaded')])
    const error = { code: 'server_is_overloaded', message: 'Gone' }
    expect(payloads.slice(-2)).toEqual([
      { type: 'item_error', item_id: 'run:1', error },
      { type: 'response_error', response_id: 'run', error },
    ])
  })

  test('an abort cancels open items and keeps their text', () => {
    const { status, output_items } = responseOf([...halfway, turnCompleted('interrupted')])
    expect(status).toBe('aborted')
    expect(output_items.map(plain)).toEqual([
      { ...message('Half'), cancelled: { reason: 'interrupted' } },
    ])
  })

  test("codex's own answer to a client call is not its output", () => {
    const { output_items } = responseOf([
      turnStarted(),
      rawCall('w', 'get_weather', '{}'),
      started(clientTool('w')),
      completed(clientTool('w', { status: 'failed', success: false, contentItems: [] })),
      rawOutput('w', 'dynamic tool call was cancelled before receiving a response'),
      turnCompleted('interrupted'),
    ])
    expect(output_items.map(({ type }) => type)).toEqual(['function_call'])
  })

  test('a message that only the turn end contains is emitted', () => {
    const turn = { items: [agentMessage('m', 'Hi')] }
    const { output_items } = responseOf([turnStarted(), turnCompleted('completed', turn)])
    expect(output_items.map(plain)).toEqual([message('Hi')])
  })

  test('a message repeated by the turn end is emitted once', () => {
    const turn = { items: [agentMessage('m', 'Hi')] }
    const events = [turnStarted(), ...said('m', 'Hi'), turnCompleted('completed', turn)]
    expect(responseOf(events).output_items).toHaveLength(1)
  })
})

describe('several turns', () => {
  const second = [
    turnStarted('v'),
    note('item/agentMessage/delta', { turnId: 'v', itemId: 'm', delta: 'Two' }),
    turnCompleted('completed', { id: 'v' }),
  ]

  test('in sequence give one response each', () => {
    const payloads = translate([turnStarted(), ...said('m', 'One'), turnCompleted(), ...second])
    const contents = responsesOf(payloads).map(({ output_items }) => output_items.map(plain))
    expect(contents).toEqual([[message('One')], [message('Two')]])
    expect(payloads.filter(({ type }) => type === 'response_start')).toMatchObject([
      { response_id: 'run', turn_id: 'turn' },
      { response_id: 'run-2', turn_id: 'run-2' },
    ])
  })

  test('the abort of a later one names its own turn', () => {
    const events = [
      turnStarted(),
      turnCompleted(),
      turnStarted('v'),
      turnCompleted('interrupted', { id: 'v' }),
    ]
    expect(translate(events).at(-1)).toMatchObject({
      type: 'turn_aborted_by_user',
      turn_id: 'run-2',
    })
  })

  test('a new turn ends a previous one that lost its end', () => {
    const responses = responsesOf(translate([...halfway, ...second]))
    expect(responses).toMatchObject([
      { status: 'error', error: { code: 'UPSTREAM_TRUNCATED' } },
      { status: 'complete' },
    ])
  })

  test('a turn of another thread is ignored', () => {
    const foreign = { threadId: 'agent', turnId: 'w' }
    const { output_items, status } = responseOf([
      ...halfway,
      turnStarted('w', 'agent'),
      note('item/agentMessage/delta', { ...foreign, itemId: 'f', delta: 'Psst' }),
      note('item/agentMessage/delta', { ...foreign, itemId: 'f', delta: 7 }),
      {
        method: 'turn/completed',
        params: { threadId: 'agent', turn: { id: 'w', status: 'failed' } },
      },
      completed(agentMessage('m', 'Half and half')),
      turnCompleted(),
    ])
    expect(output_items.map(plain)).toEqual([message('Half and half')])
    expect(status).toBe('complete')
  })

  test('items after the end of a turn are dropped', () => {
    const late = [
      note('item/commandExecution/outputDelta', { itemId: 'c', delta: 'late' }),
      note('serverRequest/resolved', { requestId: 0 }),
      ...said('x', 'late'),
      turnCompleted(),
      turnFailed('late'),
    ]
    const events = [turnStarted(), ...said('m', 'Hi'), turnCompleted()]
    expect(translate([...events, ...late])).toEqual(translate(events))
  })

  test('history between turns is ignored', () => {
    const history = note('rawResponseItem/completed', {
      turnId: 'auto-compact-0',
      item: { type: 'function_call', call_id: 'h', name: 'old', arguments: '{}' },
    })
    const { output_items } = responseOf([history, turnStarted(), history, turnCompleted()])
    expect(output_items).toEqual([])
  })
})
