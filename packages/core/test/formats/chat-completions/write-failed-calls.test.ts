import { describe, expect, test } from 'vitest'
import type { StreamEvent } from '../../../src/index.ts'
import {
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
} from '../../processor/events.ts'
import { encodeAll, hear, openCall } from './write-support.ts'

const BY_PROVIDER = { provider_metadata: { executed_by: 'provider' } }
const CALL = { item_type: 'function_call' } as const

describe('calls that a client cannot rely on', () => {
  const TOO_LARGE = { code: 'TOOL_ARGUMENTS_TOO_LARGE', message: 'too much' }
  const endings: { name: string; turn: StreamEvent[]; error: string | undefined }[] = [
    {
      name: 'T4 a call that fails after it was sent',
      turn: [openCall('a', 'c1'), delta('a', '{'), fail('a', TOO_LARGE.code, TOO_LARGE.message)],
      error: 'TOOL_ARGUMENTS_TOO_LARGE',
    },
    {
      name: 'T4 a call that fails before it was sent',
      turn: [open('a', CALL), fail('a', TOO_LARGE.code, TOO_LARGE.message)],
      error: 'TOOL_ARGUMENTS_TOO_LARGE',
    },
    {
      name: 'a call that ends as an error item',
      turn: [openCall('a', 'c1'), finish('a', { type: 'error', id: 'a', ...TOO_LARGE })],
      error: 'TOOL_ARGUMENTS_TOO_LARGE',
    },
    {
      name: 'a call that fails after it was done',
      turn: [call('a', 'c1', '{}'), fail('a', 'TOOL_FAILED', 'no')],
      error: 'TOOL_FAILED',
    },
    {
      name: 'T4 a call without an id, while an output has none either',
      turn: [
        open('o', { item_type: 'function_call_output', call_id: '' }),
        open('a', CALL),
        fail('a', TOO_LARGE.code, TOO_LARGE.message),
      ],
      error: 'TOOL_ARGUMENTS_TOO_LARGE',
    },
    {
      name: 'the first of two failures',
      turn: [
        openCall('a', 'c1'),
        openCall('b', 'c2'),
        fail('b', 'FIRST', ''),
        fail('a', 'SECOND', ''),
      ],
      error: 'FIRST',
    },
    {
      name: 'a call that is cancelled after it was sent',
      turn: [openCall('a', 'c1'), cancel('a', 'attempt_reset')],
      error: 'ITEM_CANCELLED',
    },
    {
      name: 'a sent call that ends with another type',
      turn: [openCall('a', 'c1'), done('a', 'Hi')],
      error: 'ITEM_CANCELLED',
    },
    {
      name: 'arguments that change after they were sent',
      turn: [openCall('a', 'c1'), delta('a', '{"rm":"/tmp"}'), call('a', 'c1', '{"rm":"/"}')],
      error: 'STREAM_ERROR',
    },
    {
      name: 'final arguments shorter than those sent',
      turn: [openCall('a', 'c1'), delta('a', '{"a":1}{'), call('a', 'c1', '{"a":1}')],
      error: 'STREAM_ERROR',
    },
    {
      name: 'but not equal arguments in another format',
      turn: [openCall('a', 'c1'), delta('a', '{"x": 1.0}'), call('a', 'c1', '{"x":1}')],
      error: undefined,
    },
    {
      name: 'nor a call that is cancelled before it was sent',
      turn: [open('a', CALL), cancel('a'), openCall('b', 'c2')],
      error: undefined,
    },
    {
      name: 'nor the failure of a call that the provider runs',
      turn: [
        open('a', { ...CALL, call_id: 'c1', name: 's', ...BY_PROVIDER }),
        fail('a', 'TOOL_FAILED', 'no'),
        open('b', { ...CALL, call_id: 'c2' }),
        output('o', 'c2', 'found'),
        fail('b', 'TOOL_FAILED', 'no'),
        finish('d', {
          type: 'function_call',
          id: 'd',
          name: 's',
          call_id: 'c4',
          arguments: '{}',
          ...BY_PROVIDER,
        }),
        fail('d', 'TOOL_FAILED', 'no'),
        open('e', CALL),
        finish('e', {
          type: 'function_call',
          id: 'e',
          name: 's',
          call_id: 'c5',
          arguments: '{}',
          ...BY_PROVIDER,
        }),
        fail('e', 'TOOL_FAILED', 'no'),
        call('c', 'c3', '{}'),
      ],
      error: undefined,
    },
    {
      name: 'nor the failure of a text or of an unknown item',
      turn: [
        open('t'),
        fail('t', 'BROKEN', ''),
        fail('?', 'BROKEN', ''),
        cancel('??'),
        openCall('a', 'c1'),
      ],
      error: undefined,
    },
  ]

  test.each(endings)('end the response as an error: $name', ({ turn, error }) => {
    const heard = hear(encodeAll([start(), ...turn, responseDone({ finish_reason: 'tool_calls' })]))
    expect({ error: heard.error?.code, finish: heard.finish }).toEqual({
      error,
      finish: error === undefined ? 'tool_calls' : undefined,
    })
  })

  test('an error of the response takes precedence', () => {
    const turn = [openCall('a', 'c1'), fail('a', 'FIRST', ''), responseError('SECOND', 'why')]
    expect(hear(encodeAll(turn)).error).toMatchObject({ code: 'SECOND', message: 'why' })
  })

  test('the message names the call that changed', () => {
    const turn = [openCall('a', 'c1'), delta('a', '{"x":1}'), call('a', 'c1', '{"x":2}')]
    expect(hear(encodeAll([...turn, responseDone()])).error?.message).toBe(
      'The stream failed or has ended: the arguments of call "c1" changed after they were sent',
    )
  })
})
