import { describe, expect, test } from 'vitest'
import type { ResponsesEvent } from '../../../src/index.ts'
import { shortCallId } from '../../../src/protocol/ids.ts'
import {
  aborted,
  call,
  cancel,
  delta,
  done,
  event,
  fail,
  finish,
  open,
  output,
  responseDone,
  responseError,
  start,
  thought,
  tokens,
  usage,
} from '../../processor/events.ts'
import { recorded } from '../recorded.ts'
import { encodeAll, framesOf, HEAD, responseOf, sseOf, streamOf } from './write-support.ts'

const openCall = (id: string, call_id: string, name: string) =>
  open(id, { item_type: 'function_call', call_id, name })

function typesOf(events: readonly ResponsesEvent[]): string[] {
  return events.map(({ type }) => type.replace('response.', ''))
}

describe('the events of', () => {
  test('a text', () => {
    const turn = [start(), open('a'), delta('a', 'Hel'), delta('a', 'lo'), done('a', 'Hello!')]
    const events = encodeAll([...turn, responseDone({ usage: tokens(3, 4) })])
    expect(typesOf(events)).toEqual([
      'created',
      'in_progress',
      'output_item.added',
      'content_part.added',
      'output_text.delta',
      'output_text.delta',
      'output_text.delta',
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'completed',
    ])
    expect(events[4]).toEqual({
      type: 'response.output_text.delta',
      sequence_number: 4,
      item_id: 'msg_a',
      output_index: 0,
      content_index: 0,
      delta: 'Hel',
      logprobs: [],
    })
    expect(events.at(-1)).toMatchObject({
      response: {
        id: 'resp_turn-1',
        status: 'completed',
        usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 },
        output: [{ id: 'msg_a', status: 'completed', content: [{ text: 'Hello!' }] }],
      },
    })
  })

  test('a call without arguments', () => {
    const turn = [start(), openCall('b', 'call_1', 'now'), call('b', 'call_1', '', 'now')]
    const events = encodeAll([...turn, responseDone({ finish_reason: 'tool_calls' })])
    expect(typesOf(events).slice(2)).toEqual([
      'output_item.added',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'output_item.done',
      'completed',
    ])
    expect(events[4]).toMatchObject({ name: 'now', arguments: '{}' })
  })

  test('a refusal', () => {
    const provider_metadata = { openai: { refusal: true } }
    const turn = [
      start(),
      open('a', { provider_metadata }),
      delta('a', 'No'),
      finish('a', { type: 'message', id: 'a', content: 'No.', origin: 'agent', provider_metadata }),
    ]
    const events = encodeAll([...turn, responseDone({ finish_reason: 'refusal' })])
    expect(typesOf(events)).toEqual(expect.arrayContaining(['refusal.delta', 'refusal.done']))
    expect(responseOf([...turn, responseDone({ finish_reason: 'refusal' })])).toMatchObject({
      status: 'completed',
      output: [{ content: [{ type: 'refusal', refusal: 'No.' }] }],
    })
  })

  test('reasoning, as text or as a summary', () => {
    const items = [open('r', { item_type: 'reasoning' }), delta('r', 'Hm'), thought('r', 'Hm.')]
    const text = encodeAll([start(), ...items, responseDone()])
    expect(typesOf(text)).toContain('reasoning_text.delta')
    expect(text.at(-1)).toMatchObject({
      response: { output: [{ summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] }] },
    })
    const parameters = { reasoning: { effort: 'low', summary: 'auto' } }
    const summary = encodeAll([start({ parameters }), ...items, responseDone()])
    expect(typesOf(summary)).toContain('reasoning_summary_text.delta')
    expect(summary.at(-1)).toMatchObject({
      response: { output: [{ summary: [{ type: 'summary_text', text: 'Hm.' }] }] },
    })
  })
})

describe('encrypted reasoning', () => {
  const item = finish('r', {
    type: 'reasoning',
    id: 'r',
    content: '',
    provider_metadata: { openai: { type: 'reasoning', encrypted_content: 'gAAA=' } },
  })

  test('is there byte for byte when the client requests it', () => {
    const parameters = { include: ['reasoning.encrypted_content'] }
    const [reasoning] = responseOf([start({ parameters }), item, responseDone()]).output
    expect(reasoning).toEqual({
      id: 'rs_r',
      type: 'reasoning',
      summary: [],
      encrypted_content: 'gAAA=',
      status: 'completed',
    })
  })

  test('is left out otherwise', () => {
    const [reasoning] = responseOf([start(), item, responseDone()]).output
    expect(reasoning).not.toHaveProperty('encrypted_content')
  })
})

describe('tools', () => {
  const parameters = {
    tools: [
      { type: 'custom', name: 'apply_patch' },
      { type: 'namespace', name: 'fs', tools: [{ type: 'function', name: 'read' }] },
      { type: 'web_search' },
    ],
  }

  test('that are custom get their input back as text', () => {
    const turn = [
      start({ parameters }),
      openCall('b', 'call_1', 'apply_patch'),
      delta('b', '{"input":"*** Be'),
      delta('b', 'gin\\n"}'),
      call('b', 'call_1', '{"input":"*** Begin\\n"}', 'apply_patch'),
      responseDone({ finish_reason: 'tool_calls' }),
    ]
    const events = encodeAll(turn)
    expect(typesOf(events).slice(2, -1)).toEqual([
      'output_item.added',
      'custom_tool_call_input.delta',
      'custom_tool_call_input.done',
      'output_item.done',
    ])
    expect(responseOf(turn).output).toEqual([
      {
        id: 'ctc_b',
        type: 'custom_tool_call',
        call_id: 'call_1',
        name: 'apply_patch',
        input: '*** Begin\n',
      },
    ])
    expect(sseOf(turn)).not.toContain('function_call_arguments')
  })

  test('of a namespace get their names back', () => {
    const turn = [start({ parameters }), call('b', 'call_1', '{"a":1}', 'fs__read'), responseDone()]
    const place = { name: 'read', namespace: 'fs' }
    expect(responseOf(turn).output[0]).toMatchObject({ type: 'function_call', ...place })
  })

  test('that the provider or this server runs are hidden', () => {
    const provider_metadata = { executed_by: 'provider' }
    const turn = [
      start(),
      open('b', { item_type: 'function_call', call_id: 'c', name: 'f', provider_metadata }),
      delta('b', '{}'),
      finish('b', {
        type: 'function_call',
        id: 'b',
        call_id: 'c',
        name: 'f',
        arguments: '{}',
        provider_metadata,
      }),
      output('o', 'c', 'found'),
      done('a', 'Found.'),
      responseDone(),
    ]
    expect(responseOf(turn).output.map(({ id }) => id)).toEqual(['msg_a'])
  })

  test('named at their end are sent then, with arguments that came before', () => {
    const turn = [
      start(),
      open('b', { item_type: 'function_call' }),
      delta('b', '{"a"'),
      call('b', 'call_1', '{"a":1}', 'f'),
      responseDone({ finish_reason: 'tool_calls' }),
    ]
    const events = encodeAll(turn)
    expect(events[2]).toMatchObject({ item: { name: 'f', call_id: 'call_1', arguments: '' } })
    expect(events[3]).toMatchObject({ delta: '{"a"' })
    expect(events[4]).toMatchObject({ delta: ':1}' })
  })

  test('with ids longer than the API takes get shorter ones that stay distinct', () => {
    const long = 'x'.repeat(80)
    const ids = [`${long}1`, `${long}2`].map(shortCallId)
    expect(ids.map(({ length }) => length)).toEqual([64, 64])
    expect(ids[0]).not.toBe(ids[1])
    expect(shortCallId(`${long}1`)).toBe(ids[0])
    expect(shortCallId('call_1')).toBe('call_1')
  })
})

describe('a turn that', () => {
  const begun = [start(), open('a'), delta('a', 'Hel')]

  test.each([
    ['length', { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }],
    ['content_filter', { status: 'incomplete', incomplete_details: { reason: 'content_filter' } }],
    ['refusal', { status: 'incomplete', incomplete_details: { reason: 'content_filter' } }],
    ['stop', { status: 'completed', incomplete_details: null }],
    ['pause', { status: 'completed', incomplete_details: null }],
  ])('ended with %s has that status', (finish_reason, expected) => {
    const turn = [...begun, done('a', 'Hello'), responseDone({ finish_reason })]
    expect(responseOf(turn)).toMatchObject(expected)
  })

  test.each([
    ['length', 'incomplete'],
    ['content_filter', 'incomplete'],
    ['stop', 'completed'],
  ])('ended with %s has a last message that is %s', async (finish_reason, status) => {
    const turn = [start(), done('a', 'One'), done('b', 'Two'), responseDone({ finish_reason })]
    const output = [{ status: 'completed' }, { status }]
    expect(responseOf(turn)).toMatchObject({ output })
    expect(await streamOf(sseOf(turn)).finalResponse()).toMatchObject({ output })
  })

  test('was cut off after a whole call has that call complete', () => {
    const called = [openCall('b', 'call_1', 'f'), call('b', 'call_1', '{}', 'f')]
    const turn = [...begun, done('a', 'Hi'), ...called, responseDone({ finish_reason: 'length' })]
    const output = [{ status: 'completed' }, { status: 'completed' }]
    expect(responseOf(turn)).toMatchObject({ status: 'incomplete', output })
  })

  test('was cancelled ends with response.incomplete and the status cancelled', async () => {
    const turn = [...begun, aborted('enough')]
    const last = encodeAll(turn).at(-1)
    expect(last?.type).toBe('response.incomplete')
    const { status, output } = await streamOf(sseOf(turn)).finalResponse()
    expect(status).toBe('cancelled')
    expect(output).toMatchObject([{ status: 'incomplete', content: [{ text: 'Hel' }] }])
  })

  test('ended without usage has an estimate, which clients require', () => {
    const prompt = 'x'.repeat(40)
    const asked = done('run-1-input-1', prompt, 'user')
    const turn = [start(), asked, open('a'), done('a', 'Hello!'), responseDone()]
    const usage = { input_tokens: 10, output_tokens: 2, total_tokens: 12 }
    expect(responseOf(turn)).toMatchObject({ status: 'completed', usage })
    expect(sseOf(turn)).toContain('"input_tokens":10')
    expect(responseOf([start(), responseError('X', 'no')]).usage).toBeNull()
  })

  test.each([
    ['HTTP_429', 'rate_limit_exceeded', 'rate_limit_error'],
    ['overloaded_error', 'server_is_overloaded', 'server_error'],
    ['HTTP_400', 'invalid_prompt', 'invalid_request_error'],
    ['context_length_exceeded', 'context_length_exceeded', 'invalid_request_error'],
    ['UPSTREAM_TRUNCATED', 'UPSTREAM_TRUNCATED', 'server_error'],
  ])('failed with %s closes its items and says %s', (code, expected, type) => {
    const events = encodeAll([...begun, responseError(code, 'no')])
    expect(typesOf(events).slice(-5)).toEqual([
      'output_text.done',
      'content_part.done',
      'output_item.done',
      'error',
      'failed',
    ])
    expect(events.at(-2)).toMatchObject({ error: { type, code: expected, message: 'no' } })
    expect(events.at(-1)).toMatchObject({
      response: { status: 'failed', error: { code: expected, message: 'no' } },
    })
  })

  test('failed with a delay has it in the message, where clients look for it', () => {
    const error = { code: 'HTTP_429', message: 'Slow down.', retry_after_ms: 2500 }
    const turn = [start(), event({ type: 'response_error', response_id: 'r', error })]
    expect(responseOf(turn).error?.message).toBe('Slow down. Please try again in 3s.')
  })

  test('has a call that failed is not complete', () => {
    const turn = [start(), openCall('b', 'call_1', 'f'), delta('b', '{"a'), fail('b', 'X', 'lost')]
    expect(responseOf([...turn, responseDone()])).toMatchObject({
      status: 'failed',
      error: { code: 'X' },
      output: [{ status: 'incomplete', arguments: '{"a' }],
    })
  })

  test('has a call that failed before it was named is not complete', () => {
    const turn = [start(), open('b', { item_type: 'function_call' }), fail('b', 'X', 'lost')]
    expect(responseOf([...turn, responseDone()])).toMatchObject({ status: 'failed', output: [] })
  })

  test('started again keeps the withdrawn text as an incomplete item', () => {
    const turn = [...begun, cancel('a'), done('b', 'Hello'), responseDone()]
    expect(responseOf(turn).output).toMatchObject([
      { id: 'msg_a', status: 'incomplete' },
      { id: 'msg_b', status: 'completed' },
    ])
  })

  test('withdraws a call that was sent is not complete', () => {
    const turn = [start(), openCall('b', 'call_1', 'f'), cancel('b'), responseDone()]
    expect(responseOf(turn).error?.code).toBe('ITEM_CANCELLED')
  })

  test.each([
    ['aborted', 'cancelled'],
    ['error', 'failed'],
  ] as const)('is done as %s has the status %s', (status, expected) => {
    expect(responseOf([...begun, responseDone({ status })]).status).toBe(expected)
  })

  test('has no start, because its writer died, has the ids of its record', () => {
    const response = responseOf([responseError('PRODUCER_LOST', 'gone')])
    expect(response).toMatchObject({ id: 'resp_turn-1', model: HEAD.model, status: 'failed' })
    expect(response.created_at).toBe(HEAD.createdAt / 1000)
  })

  test('ends with items left open completes them', () => {
    const turn = [...begun, openCall('b', 'call_1', 'f'), delta('b', '{}'), responseDone()]
    expect(responseOf(turn).output).toMatchObject([
      { status: 'completed', content: [{ text: 'Hel' }] },
      { status: 'completed', arguments: '{}' },
    ])
  })
})

describe('a final text', () => {
  test('that differs from the stream is the one that counts', async () => {
    const turn = [start(), open('a'), delta('a', 'Hello'), done('a', 'Goodbye'), responseDone()]
    const { output_text } = await streamOf(sseOf(turn)).finalResponse()
    expect(output_text).toBe('Goodbye')
  })

  test('of reasoning that differs also counts', () => {
    const turn = [start(), open('r', { item_type: 'reasoning' }), delta('r', 'x')]
    const [item] = responseOf([...turn, thought('r', 'y'), responseDone()]).output
    expect(item).toMatchObject({ content: [{ text: 'y' }] })
  })

  test('has the annotations of OpenAI', () => {
    const annotation = { type: 'url_citation', url: 'https://x', title: 'X', start_index: 0 }
    const provider_metadata = { openai: { annotations: [annotation, { type: 'unheard_of' }] } }
    const item = { type: 'message', id: 'a', content: 'X', origin: 'agent' } as const
    const turn = [start(), finish('a', { ...item, provider_metadata }), responseDone()]
    expect(responseOf(turn).output[0]).toMatchObject({ content: [{ annotations: [annotation] }] })
  })
})

test('the response repeats the parameters of the request, and has every member', () => {
  const parameters = { temperature: 0.5, metadata: { a: 'b' }, store: false, model: 'mine', n: 1 }
  const response = responseOf([start({ parameters }), usage(1, 2), responseDone()])
  expect(response).toMatchObject({ temperature: 0.5, metadata: { a: 'b' }, store: false })
  expect(response.model).toBe('mine')
  expect(response.usage?.total_tokens).toBe(3)
  expect(Object.keys(response).toSorted()).toEqual(
    [
      'id object created_at completed_at status background error incomplete_details instructions',
      'max_output_tokens max_tool_calls model output parallel_tool_calls previous_response_id',
      'prompt_cache_key reasoning safety_identifier service_tier store temperature top_p',
      'presence_penalty frequency_penalty text tool_choice tools top_logprobs truncation usage',
      'metadata',
    ]
      .join(' ')
      .split(' ')
      .toSorted(),
  )
})

test('the response repeats functions with every member, and other tools unchanged', () => {
  const custom = { type: 'custom', name: 'b' }
  const parameters = { tools: [{ type: 'function', name: 'a', strict: true }, custom] }
  expect(responseOf([start({ parameters }), responseDone()]).tools).toEqual([
    { type: 'function', name: 'a', description: null, parameters: null, strict: true },
    custom,
  ])
})

test('input is not part of the response, and nothing follows its end', () => {
  const run_id = 'run'
  const turn = [
    start(),
    { ...done('run-input-1', 'Earlier.'), run_id },
    { ...call('run-input-2', 'call_0', '{}'), run_id },
    open('p-user-prompt'),
    done('p-user-prompt', 'Hi', 'user'),
    open('s', { origin: 'system' }),
    done('a', 'Now.'),
    responseDone(),
    done('z', 'Late.'),
  ]
  expect(responseOf(turn).output.map(({ id }) => id)).toEqual(['msg_a'])
  expect(sseOf(turn)).toMatch(/data: \[DONE\]\n\n$/)
})

test.each([
  'openai-responses/reasoning-tool-call',
  'anthropic-messages/tool-calls-parallel',
  'openai-chat/text',
  'gemini/truncated-text',
])('%s: any prefix and the rest that follows its last number are the whole stream', (name) => {
  const turn = recorded(name)
  const whole = framesOf(sseOf(turn))
  for (const at of whole.keys()) {
    expect(framesOf(sseOf(turn, at - 1)).join('')).toBe(whole.slice(at).join(''))
  }
})
