import { describe, expect, test } from 'vitest'
import { type ChatMessage, type StreamEvent, toChatCompletion } from '../../../src/index.ts'
import {
  aborted,
  call,
  cancel,
  delta,
  done,
  fail,
  finish,
  open,
  output,
  responseDone,
  responseError,
  start,
  thought,
  tokens,
} from '../../processor/events.ts'
import { HEAD, openCall } from './write-support.ts'

type Extra = Omit<Parameters<typeof toChatCompletion>[1], keyof typeof HEAD>

function completionOf(turn: readonly StreamEvent[], extra: Extra = {}) {
  return toChatCompletion([start(), ...turn], { ...HEAD, ...extra })
}

function toolCall(id: string, text: string, name = 'read_file') {
  return { id, type: 'function' as const, function: { name, arguments: text } }
}

const REFUSAL = finish('a', {
  type: 'message',
  id: 'a',
  content: 'No',
  origin: 'agent',
  provider_metadata: { openai: { refusal: true } },
})

test('a completion has the answer, the finish reason and the usage', () => {
  const usage = { ...tokens(3, 4), cached_tokens: 2, reasoning_tokens: 1, estimated: true }
  expect(completionOf([done('a', 'Hello'), responseDone({ usage })])).toEqual({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_700_000_000,
    model: 'model-1',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 3,
      completion_tokens: 4,
      total_tokens: 7,
      prompt_tokens_details: { cached_tokens: 2 },
      completion_tokens_details: { reasoning_tokens: 1 },
    },
  })
})

test('usage is not invented when the provider reports none', () => {
  expect(completionOf([responseDone()])).not.toHaveProperty('usage')
})

interface Row {
  name: string
  turn: StreamEvent[]
  message: Partial<ChatMessage>
  finish?: string
  extra?: Extra
}

const rows: Row[] = [
  { name: 'an empty answer is an empty text', turn: [], message: { content: '' } },
  {
    name: 'several texts are joined',
    turn: [done('a', 'Hello '), done('b', 'world')],
    message: { content: 'Hello world' },
  },
  {
    name: 'a text that was left open counts',
    turn: [open('a'), delta('a', 'Hel')],
    message: { content: 'Hel' },
  },
  {
    name: 'user and system messages are not part of the answer',
    turn: [done('u', 'Hi', 'user'), done('s', 'Be brief', 'system'), done('a', 'Hello')],
    message: { content: 'Hello' },
  },
  {
    name: 'a cancelled text is not part of the answer',
    turn: [open('a'), delta('a', 'Hel'), cancel('a', 'attempt_reset'), done('b', 'Hello')],
    message: { content: 'Hello' },
  },
  {
    name: 'a failed text keeps its partial content',
    turn: [open('a'), delta('a', 'Hel'), fail('a', 'E', 'e')],
    message: { content: 'Hel' },
  },
  {
    name: 'reasoning has its own field',
    turn: [thought('r', 'Hm'), done('a', 'Yes'), thought('s', '.')],
    message: { content: 'Yes', reasoning_content: 'Hm.' },
  },
  {
    name: 'reasoning can be left out',
    turn: [thought('r', 'Hm'), done('a', 'Yes')],
    message: { content: 'Yes' },
    extra: { reasoning: 'omit' },
  },
  {
    name: 'a refusal replaces the text',
    turn: [REFUSAL],
    message: { content: null, refusal: 'No' },
  },
  {
    name: 'a call leaves no text',
    turn: [call('b', 'c1', '{"x":1}')],
    message: { content: null, tool_calls: [toolCall('c1', '{"x":1}')] },
    finish: 'tool_calls',
  },
  {
    name: 'a call without arguments has an empty object, one without an id that of its item',
    turn: [done('a', 'So:'), call('b', '', '')],
    message: { content: 'So:', tool_calls: [toolCall('b', '{}')] },
    finish: 'tool_calls',
  },
  {
    name: 'answered calls and provider calls are not included',
    turn: [
      openCall('a', 'c1'),
      call('a', 'c1', '{}'),
      output('o', 'c1', 'found'),
      open('b', {
        item_type: 'function_call',
        call_id: 'c2',
        name: 's',
        provider_metadata: { executed_by: 'provider' },
      }),
      call('b', 'c2', '{}'),
      done('c', 'Found it'),
    ],
    message: { content: 'Found it' },
  },
  {
    name: 'T8 text after a call is left out',
    turn: [done('a', 'A'), call('b', 'c1', '{}'), done('c', 'C')],
    message: { content: 'A', tool_calls: [toolCall('c1', '{}')] },
    finish: 'tool_calls',
  },
  {
    name: 'T8 text after a call can be kept',
    turn: [done('a', 'A'), call('b', 'c1', '{}'), done('c', 'C')],
    message: { content: 'AC', tool_calls: [toolCall('c1', '{}')] },
    finish: 'tool_calls',
    extra: { keepTextAfterToolCalls: true },
  },
  {
    name: 'a cancelled call is not included',
    turn: [openCall('a', 'c1'), cancel('a'), done('b', 'Hi')],
    message: { content: 'Hi' },
  },
]

describe('the message', () => {
  test.each(rows)('$name', ({ turn, message, finish = 'stop', extra = {} }) => {
    expect(completionOf([...turn, responseDone()], extra)).toMatchObject({
      choices: [{ finish_reason: finish }],
    })
    expect(messageOf(completionOf([...turn, responseDone()], extra))).toEqual({
      role: 'assistant',
      refusal: null,
      ...message,
    })
  })
})

describe('the finish reason', () => {
  test.each([
    ['length', [done('a', 'Hi')], 'length'],
    ['refusal', [REFUSAL], 'stop'],
    ['refusal', [], 'content_filter'],
    ['length', [call('b', 'c1', '{"x"')], 'length'],
    ['length', [call('b', 'c1', '{}')], 'tool_calls'],
  ])('of %s', (finish_reason, turn, finish) => {
    expect(completionOf([...turn, responseDone({ finish_reason })])).toMatchObject({
      choices: [{ finish_reason: finish }],
    })
  })
})

describe('in place of a completion there is an error', () => {
  test.each([
    [
      'when the response failed',
      [done('a', 'Hel'), responseError('BROKEN', 'why')],
      'BROKEN',
      'why',
    ],
    [
      'when it was stopped',
      [done('a', 'Hel'), aborted('enough')],
      'ABORTED',
      'The turn was stopped',
    ],
    [
      'when its status is error',
      [responseDone({ status: 'error' })],
      'STREAM_ERROR',
      'The stream failed or has ended: the response failed',
    ],
    [
      'when it has not ended',
      [done('a', 'Hel')],
      'STREAM_ERROR',
      'The stream failed or has ended: the response has not ended',
    ],
    [
      'T4 when a call failed',
      [openCall('a', 'c1'), fail('a', 'TOOL_ARGUMENTS_TOO_LARGE', 'too much'), responseDone()],
      'TOOL_ARGUMENTS_TOO_LARGE',
      'too much',
    ],
  ])('%s', (_name, turn, code, message) => {
    expect(completionOf(turn)).toEqual({
      error: { message, type: 'server_error', param: null, code },
    })
  })

  test('when it has not begun', () => {
    expect(toChatCompletion([], HEAD)).toMatchObject({
      error: { code: 'STREAM_ERROR' },
    })
  })
})

function messageOf(completion: ReturnType<typeof toChatCompletion>): ChatMessage | undefined {
  return 'error' in completion ? undefined : completion.choices[0].message
}
