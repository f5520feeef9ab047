import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  argumentsDelta,
  call,
  completed,
  created,
  done,
  ended,
  plain,
  responseOf,
  text,
  textDelta,
  translate,
  wireCall,
  wireMessage,
} from './events.ts'
import { finishRows } from './rows-tools.ts'

const incomplete = (reason?: string) =>
  ended('incomplete', { incomplete_details: reason === undefined ? null : { reason } })

describe('the finish reason', () => {
  test.each(finishRows)('$name: $reason', ({ wires, reason }) => {
    const items = wires.map((wire, index) => done(index, wire))
    expect(responseOf([created, ...items, completed]).finish_reason).toBe(reason)
  })

  const refusal = done(0, { ...wireMessage(), content: [{ type: 'refusal', refusal: 'No.' }] })
  test.each([
    ['only text', text(0, 'Hi'), completed, 'stop', 'completed'],
    ['a call', call(0, 'c', 'f'), completed, 'tool_calls', 'completed'],
    [
      'a call that was not said to be done',
      call(0, 'c', 'f').slice(0, 1),
      completed,
      'tool_calls',
      'completed',
    ],
    [
      'text after a call',
      [...call(0, 'c', 'f'), ...text(1, 'Hi')],
      completed,
      'tool_calls',
      'completed',
    ],
    ['a refusal', [refusal], completed, 'refusal', 'completed'],
    [
      'no more tokens',
      text(0, 'Hi'),
      incomplete('max_output_tokens'),
      'length',
      'max_output_tokens',
    ],
    [
      'no more tokens in a call',
      call(0, 'c', 'f').slice(0, 1),
      incomplete('max_output_tokens'),
      'length',
      'max_output_tokens',
    ],
    ['a filter', [], incomplete('content_filter'), 'content_filter', 'content_filter'],
    ['an unknown reason', [], incomplete('bored'), 'other', 'bored'],
    ['no reason', [], incomplete(), 'other', 'incomplete'],
    [
      'an incomplete response that is called completed',
      [],
      { ...incomplete('content_filter'), type: 'response.completed' },
      'content_filter',
      'content_filter',
    ],
    [
      'an end without a response',
      text(0, 'Hi'),
      { type: 'response.completed' },
      'stop',
      'completed',
    ],
  ])('%s', (_, events, end, reason, word) => {
    expect(responseOf([created, ...events, end])).toMatchObject({
      status: 'complete',
      finish_reason: reason,
      provider_finish_reason: word,
    })
  })
})

describe('the end of a response', () => {
  test('has the usage', () => {
    const usage = {
      input_tokens: 10,
      input_tokens_details: { cached_tokens: 4, cache_write_tokens: 2 },
      output_tokens: 5,
      output_tokens_details: { reasoning_tokens: 3 },
      total_tokens: 15,
    }
    expect(responseOf([created, ended('completed', { usage })]).usage).toEqual({
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 15,
      cached_tokens: 4,
      cache_write_tokens: 2,
      reasoning_tokens: 3,
    })
  })

  test.each([
    ['no usage', null, undefined],
    ['usage without its counts', { total_tokens: 4 }, undefined],
    ['usage that is negative', { input_tokens: -1, output_tokens: 2 }, undefined],
    [
      'usage without details or sum',
      { input_tokens: 1, output_tokens: 2 },
      { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    ],
  ])('%s', (_, usage, expected) => {
    expect(responseOf([created, ended('completed', { usage })]).usage).toEqual(expected)
  })

  test('of a failed response follows its usage', () => {
    const usage = { input_tokens: 1, output_tokens: 2 }
    const types = translate([created, ended('failed', { usage })]).map(({ type }) => type)
    expect(types).toEqual(['response_start', 'usage_update', 'response_error'])
  })

  test("has the vendor's model", () => {
    expect(responseOf([created, completed]).model_id).toBe('gpt-x')
    expect(responseOf([...text(0, 'Hi'), completed]).model_id).toBe('model')
  })

  test('alone is a complete response', () => {
    const output = [wireMessage('Hi'), wireCall('c', 'f', '{}')]
    const response = responseOf([created, ended('completed', { output })])
    expect(response).toMatchObject({
      finish_reason: 'tool_calls',
      output_items: [{ content: 'Hi' }, { call_id: 'c', arguments: '{}' }],
    })
  })

  test('completes items without output_item.done', () => {
    const output = [wireMessage('Hi!'), wireCall('c', 'f', '{"a":1}'), wireMessage('never seen')]
    const events = [textDelta(0, 'Hi'), argumentsDelta(1, '{"a"'), ended('completed', { output })]
    const items = responseOf([created, ...events]).output_items
    expect(items.map(plain)).toMatchObject([
      { content: 'Hi!', openai: { id: 'msg_1' } },
      { call_id: 'c', name: 'f', arguments: '{"a":1}' },
    ])
    expect(items).toHaveLength(2)
  })

  test.each([
    [
      'failed',
      ended('failed', { error: { code: 'server_error', message: 'It broke.' } }),
      'server_error',
      'It broke.',
    ],
    [
      'failed without a reason',
      ended('failed'),
      'failed',
      'The provider ended the response as failed',
    ],
    [
      'cancelled',
      ended('completed', { status: 'cancelled' }),
      'cancelled',
      'The provider ended the response as cancelled',
    ],
    [
      'an error, flat',
      { type: 'error', code: 'rate_limit', message: 'Slow down.' },
      'rate_limit',
      'Slow down.',
    ],
    [
      'an error, nested',
      { type: 'error', error: { type: 'quota', code: null, message: 'No.' } },
      'quota',
      'No.',
    ],
    ['an error with a number', { type: 'error', code: 429, message: 'No.' }, '429', 'No.'],
    ['an error without a code', { type: 'error', code: null, message: 'No.' }, 'error', 'No.'],
    [
      'an error in place of an event',
      { error: { code: 'bad_gateway', message: 'No.' } },
      'bad_gateway',
      'No.',
    ],
  ])('is a vendor error: %s', (_, event, code, message) => {
    const payloads = translate([created, textDelta(0, 'Hi'), event])
    expect(payloads.slice(-2)).toMatchObject([
      { type: 'item_error', error: { code, message } },
      { type: 'response_error', error: { code, message } },
    ])
  })

  test('is followed only by another response', () => {
    const late = [textDelta(0, 'x'), { type: 'response.in_progress' }, ended('failed'), completed]
    const payloads = translate([created, ...text(0, 'One'), completed, ...late, null, 7])
    expect(payloads.at(-1)).toMatchObject({ type: 'response_done' })
    const both = translate([created, completed, ...late, created, ...text(0, 'Two'), completed])
    expect(responsesOf(both).map(({ id, status }) => [id, status])).toEqual([
      ['run', 'complete'],
      ['run-2', 'complete'],
    ])
  })

  test('leaves nothing for the next response', () => {
    const refusal = done(0, { ...wireMessage(), content: [{ type: 'refusal', refusal: 'No.' }] })
    const error = { type: 'error', code: 'x', message: 'y' }
    const turns: unknown[][] = [
      [created, refusal, completed],
      [created, ...call(0, 'c', 'f').slice(0, 1), error],
      [created, ...call(0, 'c', 'f', '{}'), completed],
      [created, ...text(0, 'Hi'), completed],
    ]
    const payloads = translate(turns.flat())
    expect(
      responsesOf(payloads).map(({ finish_reason, output_items }) => [
        finish_reason,
        output_items.length,
      ]),
    ).toEqual([
      ['refusal', 1],
      [null, 1],
      ['tool_calls', 1],
      ['stop', 1],
    ])
  })

  test('a restarted response cancels open items', () => {
    const response = responseOf([
      created,
      ...text(0, 'Done.'),
      textDelta(1, 'Half'),
      argumentsDelta(2, '{"a'),
      created,
      ...text(0, 'Again.'),
      completed,
    ])
    expect(response.output_items.map(plain)).toMatchObject([
      { content: 'Done.' },
      { content: 'Half', cancelled: { reason: 'attempt_reset' } },
      { arguments: '{"a', cancelled: { reason: 'attempt_reset' } },
      { content: 'Again.' },
    ])
    expect(response.finish_reason).toBe('stop')
  })

  test('a late response.created changes nothing', () => {
    expect(responseOf([textDelta(0, 'Hi'), created, completed]).output_items.map(plain)).toEqual([
      { type: 'message', origin: 'agent', content: 'Hi', openai: { type: 'message' } },
    ])
  })
})
