import { describe, expect, test } from 'vitest'
import type { MessagesEvent } from '../../../src/index.ts'
import {
  aborted,
  call,
  cancel,
  delta,
  done,
  fail,
  finish,
  open,
  responseDone,
  responseError,
  start,
  thought,
  tokens,
} from '../../processor/events.ts'
import { encodeAll, joinedSse, messageOf, sseOf, streamOf } from './write-support.ts'

const openCall = (id: string, call_id: string, name: string) =>
  open(id, { item_type: 'function_call', call_id, name })
const openThought = (id: string) => open(id, { item_type: 'reasoning' })

function typesOf(events: readonly MessagesEvent[]): string[] {
  return events.map((event) =>
    event.type === 'content_block_delta' ? event.delta.type : event.type,
  )
}

test('a text', () => {
  const turn = [start(), open('a'), delta('a', 'Hel'), done('a', 'Hello'), responseDone()]
  expect(encodeAll(turn)).toEqual([
    {
      type: 'message_start',
      message: {
        id: 'msg_turn-1',
        type: 'message',
        role: 'assistant',
        model: 'claude-sonnet-4-20250514',
        content: [],
        stop_reason: null,
        stop_sequence: null,
        usage: {
          input_tokens: 0,
          output_tokens: 0,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: 0,
        },
      },
    },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hel' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'lo' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'message_delta',
      delta: { stop_reason: 'end_turn', stop_sequence: null },
      usage: {
        input_tokens: 0,
        output_tokens: 2,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 0,
      },
    },
    { type: 'message_stop' },
  ])
})

test('an empty text has no block, because the API refuses it', () => {
  const { message } = messageOf([start(), open('a'), done('a', ''), responseDone()])
  expect(message).toMatchObject({ content: [], stop_reason: 'end_turn' })
})

test('a call without arguments has one delta', () => {
  const turn = [
    start(),
    openCall('b', 'functions.Bash:0', 'Bash'),
    call('b', 'functions.Bash:0', '', 'Bash'),
  ]
  const events = encodeAll([...turn, responseDone()])
  expect(events.slice(1, 4)).toEqual([
    {
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'tool_use', id: 'functions.Bash:0', name: 'Bash', input: {} },
    },
    {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'input_json_delta', partial_json: '{}' },
    },
    { type: 'content_block_stop', index: 0 },
  ])
  expect(events.at(-2)).toMatchObject({ delta: { stop_reason: 'tool_use' } })
})

describe('thinking', () => {
  const signed = (content: string) =>
    finish('r', {
      type: 'reasoning',
      id: 'r',
      content,
      provider_metadata: { anthropic: { signature: 'sig==' } },
    })

  test('has its signature once, before it stops', () => {
    const turn = [start(), openThought('r'), delta('r', 'Hm'), signed('Hm.'), responseDone()]
    expect(typesOf(encodeAll(turn)).slice(1, -2)).toEqual([
      'content_block_start',
      'thinking_delta',
      'thinking_delta',
      'signature_delta',
      'content_block_stop',
    ])
    const [block] = messageOf(turn).message.content
    expect(block).toEqual({ type: 'thinking', thinking: 'Hm.', signature: 'sig==' })
  })

  test('without text is sent for its signature', () => {
    const turn = [start(), openThought('r'), signed(''), responseDone()]
    const [block] = messageOf(turn).message.content
    expect(block).toEqual({ type: 'thinking', thinking: '', signature: 'sig==' })
  })

  test('of another vendor has no signature', () => {
    const turn = [start(), openThought('r'), delta('r', 'Hm'), thought('r', 'Hm'), responseDone()]
    expect(sseOf(turn)).not.toContain('signature_delta')
  })

  test('that is redacted goes back as it came', () => {
    const block = { type: 'redacted_thinking', data: 'abc' }
    const provider_metadata = { anthropic: { block } }
    const item = { type: 'reasoning', id: 'r', content: '', provider_metadata } as const
    const turn = [start(), openThought('r'), finish('r', item), responseDone()]
    expect(messageOf(turn).message.content).toEqual([block])
  })

  test.each([
    ['another block', { anthropic: { block: { type: 'container_upload' } } }],
    ['a block without data', { anthropic: { block: { type: 'redacted_thinking' } } }],
    ['an item of OpenAI', { openai: { type: 'compaction' } }],
  ])('that is %s is hidden', (_name, provider_metadata) => {
    const item = { type: 'reasoning', id: 'r', content: '', provider_metadata } as const
    const turn = [start(), openThought('r'), finish('r', item), responseDone()]
    expect(messageOf(turn).message.content).toEqual([])
  })
})

test('overlapping items wait for their turn', () => {
  const turn = [
    start(),
    openCall('b', 'call_1', 'f'),
    openCall('c', 'call_2', 'g'),
    delta('c', '{"c":'),
    delta('b', '{"b":'),
    delta('c', '2}'),
    call('c', 'call_2', '{"c":2}', 'g'),
    delta('b', '1}'),
    call('b', 'call_1', '{"b":1}', 'f'),
    responseDone({ finish_reason: 'tool_calls' }),
  ]
  const { message } = messageOf(turn)
  expect(message.content).toMatchObject([
    { id: 'call_1', input: { b: 1 } },
    { id: 'call_2', input: { c: 2 } },
  ])
  const blocks = encodeAll(turn).filter((event) => 'index' in event)
  expect(blocks.map(({ index }) => index)).toEqual([0, 0, 0, 0, 1, 1, 1])
})

describe('the stop reason of', () => {
  test.each([
    ['stop', undefined, 'end_turn'],
    ['stop', 'stop_sequence', 'stop_sequence'],
    ['length', undefined, 'max_tokens'],
    ['content_filter', undefined, 'refusal'],
    ['refusal', undefined, 'refusal'],
    ['pause', undefined, 'pause_turn'],
    ['other', undefined, 'end_turn'],
    ['tool_calls', undefined, 'end_turn'],
  ])('%s (%s) is %s', (finish_reason, provider, expected) => {
    const end = { finish_reason, ...(provider && { provider_finish_reason: provider }) }
    const turn = [start(), done('a', 'Hello'), responseDone(end)]
    expect(messageOf(turn).message.stop_reason).toBe(expected)
  })

  test('the provider’s stop sequence comes with its text', () => {
    const end = { provider_finish_reason: 'stop_sequence', stop_sequence: 'END' }
    const turn = [start(), done('a', 'Hello'), responseDone(end)]
    const expected = { stop_reason: 'stop_sequence', stop_sequence: 'END' }
    expect(messageOf(turn).message).toMatchObject(expected)
    const [first, last] = [encodeAll(turn)[0], encodeAll(turn).at(-2)]
    expect(first).toMatchObject({ message: { stop_sequence: null } })
    expect(last).toMatchObject({ type: 'message_delta', delta: expected })
  })

  test.each([
    ['{"a":1}', 'tool_use'],
    ['{"a', 'max_tokens'],
  ])('a call with %s at the token limit is %s', (args, expected) => {
    const turn = [start(), call('b', 'call_1', args), responseDone({ finish_reason: 'length' })]
    expect(messageOf(turn).message.stop_reason).toBe(expected)
  })

  test('a refusal in words is refusal', () => {
    const provider_metadata = { openai: { refusal: true } }
    const item = { type: 'message', id: 'a', content: 'No.', origin: 'agent' } as const
    const turn = [start(), finish('a', { ...item, provider_metadata }), responseDone()]
    expect(messageOf(turn).message.stop_reason).toBe('refusal')
  })
})

test('usage counts the cache apart from the input, and is estimated before it is known', () => {
  const run_id = 'run'
  const usage = { ...tokens(100, 7), cached_tokens: 60, cache_write_tokens: 30 }
  const turn = [
    start(),
    { ...done('run-input-1', 'x'.repeat(40)), run_id },
    { ...call('run-input-2', 'call_0', '1234'), run_id },
    done('p-user-prompt', 'x'.repeat(20), 'user'),
    done('a', 'Hello'),
    responseDone({ usage }),
  ]
  const events = encodeAll(turn)
  expect(events[0]).toMatchObject({ message: { usage: { input_tokens: 16 } } })
  expect(events.at(-2)).toMatchObject({
    usage: {
      input_tokens: 10,
      output_tokens: 7,
      cache_creation_input_tokens: 30,
      cache_read_input_tokens: 60,
    },
  })
})

describe('an error', () => {
  test.each([
    ['HTTP_429', 'rate_limit_error'],
    ['HTTP_529', 'overloaded_error'],
    ['slow_down', 'overloaded_error'],
    ['cyber_policy', 'invalid_request_error'],
    ['inference_hook_denied', 'invalid_request_error'],
    ['insufficient_quota', 'billing_error'],
    ['UPSTREAM_TIMEOUT', 'timeout_error'],
    ['HTTP_401', 'api_error'],
    ['UPSTREAM_TRUNCATED', 'api_error'],
  ])('%s is %s, after the open block', (code, type) => {
    const turn = [start(), open('a'), delta('a', 'Hel'), responseError(code, 'no')]
    const events = encodeAll(turn)
    expect(events.slice(-2)).toEqual([
      { type: 'content_block_stop', index: 0 },
      { type: 'error', error: { type, message: 'no' }, request_id: null },
    ])
  })

  test('before the first output is all there is', () => {
    const turn = [start(), responseError('HTTP_429', 'no')]
    expect(typesOf(encodeAll(turn))).toEqual(['error'])
    expect(joinedSse(turn, 2)).toBe(sseOf(turn))
  })

  test('ends a turn that was cancelled', async () => {
    const turn = [start(), open('a'), delta('a', 'Hel'), aborted('enough')]
    await expect(streamOf(sseOf(turn)).finalMessage()).rejects.toThrow(
      'The turn was stopped: enough',
    )
    expect(messageOf([start(), aborted('')]).error?.error.message).toBe('The turn was stopped')
  })

  test('ends a message whose text was withdrawn, unless nothing followed it', () => {
    const turn = [start(), open('a'), delta('a', 'Hel'), cancel('a')]
    const { error } = messageOf([...turn, done('b', 'Hello'), responseDone()])
    expect(error?.error.message).toContain('text that was sent is withdrawn')
    expect(messageOf([...turn, responseDone()]).error).toEqual(error)
    expect(sseOf([...turn, done('b', 'Hello'), done('c', 'more')])).not.toContain('more')
  })

  test('replaces the end when arguments changed after they were sent', () => {
    const turn = [
      start(),
      openCall('b', 'c', 'f'),
      delta('b', '{"a":1'),
      call('b', 'c', '{"b":2}', 'f'),
    ]
    expect(messageOf([...turn, responseDone()]).error?.error.message).toContain('changed after')
  })

  test('replaces the end when a call failed', () => {
    const turn = [start(), openCall('b', 'c', 'f'), fail('b', 'HTTP_429', 'lost'), responseDone()]
    expect(messageOf(turn).error?.error).toEqual({ type: 'rate_limit_error', message: 'lost' })
  })

  test('is not caused by arguments in another format', () => {
    const turn = [
      start(),
      openCall('b', 'c', 'f'),
      delta('b', '{ "a": 1 }'),
      call('b', 'c', '{"a":1}', 'f'),
    ]
    expect(messageOf([...turn, responseDone()]).error).toBeUndefined()
  })
})

test('a withdrawn text that was not sent leaves no trace', () => {
  const turn = [start(), open('a'), cancel('a'), done('b', 'Hello'), responseDone()]
  expect(messageOf(turn).message.content).toEqual([{ type: 'text', text: 'Hello' }])
})

test('an item that ends as another kind is sent as that kind', () => {
  const turn = [start(), open('a'), call('a', 'c', '{}', 'f'), responseDone()]
  expect(messageOf(turn).message.content).toMatchObject([{ type: 'tool_use', id: 'c' }])
})

test('nothing follows the end', () => {
  expect(encodeAll([start(), responseDone(), done('a', 'Late.')]).at(-1)?.type).toBe('message_stop')
})
