import { describe, expect, test } from 'vitest'
import { translateOpenaiChat } from '../../../src/index.ts'
import { checkPayloads, outcomesOf, responsesOf } from '../outcome.ts'
import { context } from '../replay.ts'
import {
  calls,
  chunk,
  DONE,
  type Fields,
  piece,
  role,
  stop,
  text,
  translate,
  usage,
} from './chunks.ts'

function types(payloads: readonly { type: string }[]): string[] {
  return payloads.map(({ type }) => type)
}

describe('the payloads', () => {
  test('of a text are in order', () => {
    expect(translate([role, text('Hi'), text('!'), stop, usage(3, 2), DONE])).toEqual([
      {
        type: 'response_start',
        response_id: 'run',
        turn_id: 'turn',
        thread_id: 'thread',
        model_id: 'model',
        provider_id: 'provider',
        created_at: 0,
      },
      {
        type: 'item_start',
        item_id: 'run:1',
        item_type: 'message',
        provider_metadata: { provider: { completion_id: 'c1' } },
      },
      { type: 'item_delta', item_id: 'run:1', delta_content: 'Hi' },
      { type: 'item_delta', item_id: 'run:1', delta_content: '!' },
      {
        type: 'item_done',
        item_id: 'run:1',
        final_item: {
          type: 'message',
          id: 'run:1',
          content: 'Hi!',
          origin: 'agent',
          provider_metadata: { provider: { completion_id: 'c1' } },
        },
      },
      {
        type: 'response_done',
        response_id: 'run',
        status: 'complete',
        finish_reason: 'stop',
        provider_finish_reason: 'stop',
        usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
      },
    ])
  })

  test('the model is the one the server reports, if any', () => {
    const named = translate([chunk({ role: 'assistant' }, null, { model: 'real' }), stop])
    const unnamed = translate([chunk({ role: 'assistant' }, null, { model: '' }), stop])
    expect(responsesOf(named)[0]?.model_id).toBe('real')
    expect(responsesOf(unnamed)[0]?.model_id).toBe('model')
  })

  test('a call starts with its name and the fragments that preceded it', () => {
    const events = [calls(piece(0, 'a', undefined, '{"n"')), calls(piece(0, undefined, 'add'))]
    const payloads = translate([...events, calls(piece(0, undefined, undefined, ':1}')), stop])
    expect(types(payloads)).toEqual([
      'response_start',
      'item_start',
      'item_delta',
      'item_delta',
      'item_done',
      'response_done',
    ])
    expect(payloads[1]).toMatchObject({ item_type: 'function_call', name: 'add', call_id: 'a' })
    expect(payloads[2]).toMatchObject({ delta_content: '{"n"' })
  })

  test('empty content, empty lists and nulls emit nothing', () => {
    const empty = chunk({ content: '', refusal: null, tool_calls: [], function_call: null })
    expect(types(translate([role, empty, empty, stop]))).toEqual([
      'response_start',
      'response_done',
    ])
  })
})

describe('the end is emitted', () => {
  const endings: [name: string, events: unknown[], at: number][] = [
    ['at [DONE]', [role, stop, DONE, usage(1, 1)], 2],
    ['at the usage after the finish reason', [role, stop, usage(1, 1), DONE], 2],
    ['at the first of both, once', [role, stop, usage(1, 1), usage(2, 2), DONE, DONE], 2],
    ['not at usage before the finish reason', [role, usage(1, 1), stop, DONE], 3],
    ['not at a usage of null', [role, stop, { choices: [], usage: null }, DONE], 3],
    [
      'not at usage of the finish chunk itself',
      [role, chunk({}, 'stop', { usage: usage(1, 1)['usage'] }), DONE],
      2,
    ],
  ]

  test.each(endings)('%s', (_, events, at) => {
    const translation = translateOpenaiChat(context)
    const written = events.map((event) => types(translation.translate(event)))
    expect(written.findIndex((each) => each.includes('response_done'))).toBe(at)
    expect(written.flat().filter((type) => type === 'response_done')).toHaveLength(1)
    expect(translation.end()).toEqual([])
  })

  test('at the end of the input, even when the connection broke after the finish reason', () => {
    const translation = translateOpenaiChat(context)
    translation.translate(role)
    translation.translate(stop)
    const fault = { code: 'UPSTREAM_UNREACHABLE', message: 'reset' }
    expect(types(translation.end(fault))).toEqual(['response_done'])
  })

  test('as the known error without a finish reason', () => {
    const translation = translateOpenaiChat(context)
    translation.translate(text('Half'))
    const fault = { code: 'UPSTREAM_TIMEOUT', message: 'too slow' }
    expect(translation.end(fault)).toMatchObject([
      { type: 'item_error', error: fault },
      { type: 'response_error', error: fault },
    ])
  })

  test('as truncated when nothing arrived', () => {
    const end = 'error UPSTREAM_TRUNCATED: The provider stream ended early'
    expect(outcomesOf(translate([]))).toEqual([{ items: [], end }])
    expect(outcomesOf(translate([DONE]))).toEqual([{ items: [], end }])
  })

  test('without later content of the same response', () => {
    const payloads = translate([role, stop, usage(1, 1), text('late'), stop, usage(9, 9)])
    expect(outcomesOf(payloads)).toEqual([{ items: [], end: 'complete stop (stop)' }])
  })

  test('for each response when the second fails at once', () => {
    const error = { error: { message: 'busy', code: 'overloaded' } }
    const payloads = translate([role, text('One'), stop, DONE, error, DONE])
    expect(outcomesOf(payloads)).toEqual([
      { items: ['message One'], end: 'complete stop (stop)' },
      { items: [], end: 'error overloaded: busy' },
    ])
  })

  test('before text with another id, without [DONE]', () => {
    const next = chunk({ content: 'Two' }, 'stop', { id: 'c2' })
    const payloads = translate([role, text('One'), stop, usage(1, 1), next])
    expect(outcomesOf(payloads).map(({ items }) => items)).toEqual([
      ['message One'],
      ['message Two'],
    ])
  })
})

describe('usage', () => {
  const details = {
    prompt_tokens_details: { cached_tokens: 2, cache_write_tokens: 1 },
    completion_tokens_details: { reasoning_tokens: 4 },
  }
  const plain = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 }
  const all = { ...plain, cached_tokens: 2, cache_write_tokens: 1, reasoning_tokens: 4 }
  const rows: [name: string, events: unknown[], expected: unknown][] = [
    ['carries all that is counted', [usage(3, 5, details)], all],
    [
      'is taken from where DeepSeek counts the cache',
      [usage(3, 5, { prompt_cache_hit_tokens: 2 })],
      { ...plain, cached_tokens: 2 },
    ],
    ['is taken from where Groq has it', [{ choices: [], x_groq: { usage: plain } }], plain],
    [
      'is taken from the choice, where Moonshot has it',
      [{ choices: [{ index: 0, delta: {}, usage: plain }] }],
      plain,
    ],
    ['is the last one', [usage(1, 1), usage(3, 5)], plain],
    [
      'has a total that is not said',
      [{ choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } }],
      plain,
    ],
    ['of impossible numbers is none', [usage(-1, Number.NaN)], undefined],
    ['of an empty object is none', [{ choices: [], usage: {} }], undefined],
    ['without choices is usage', [{ usage: plain }], plain],
  ]

  test.each(rows)('%s', (_, events, expected) => {
    const [response] = responsesOf(translate([role, ...events, stop, DONE]))
    expect(response?.status).toBe('complete')
    expect(response?.usage).toEqual(expected)
  })

  test('of a broken response is kept', () => {
    const payloads = translate([role, usage(3, 5), text('Half')])
    expect(payloads.at(-2)).toMatchObject({ type: 'usage_update', usage: plain })
    expect(payloads.at(-1)).toMatchObject({ type: 'response_error' })
  })
})

test('unknown types are reported once per type', () => {
  const unknown: string[] = []
  const odd: Fields = { type: 'ping' }
  translate([odd, odd, {}, chunk({ audio: {} }), chunk({ audio: {}, x: 1 }), stop], {
    onUnknown: (type) => unknown.push(type),
  })
  expect(unknown).toEqual(['ping', 'an object without choices', 'delta.audio', 'delta.x'])
})

test('A5 only an oversized call fails, and its rest is dropped', () => {
  const payloads = translate(
    [
      calls(piece(0, 'a', 'big', '12345678'), piece(1, 'b', 'small', '{}')),
      calls(piece(0, undefined, undefined, '9!'), piece(0, 'a', undefined, 'more')),
      chunk({}, 'tool_calls'),
    ],
    { maxArgumentChars: 8 },
  )
  expect(outcomesOf(payloads)).toEqual([
    {
      items: ['call a big 12345678 !TOOL_ARGUMENTS_TOO_LARGE', 'call b small {}'],
      end: 'complete tool_calls (tool_calls)',
    },
  ])
  checkPayloads(payloads)
})
