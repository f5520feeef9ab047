import { describe, expect, test } from 'vitest'
import type { StreamEvent } from '../../../src/index.ts'
import {
  aborted,
  call,
  delta,
  done,
  event,
  finish,
  open,
  responseDone,
  responseError,
  start,
} from '../../processor/events.ts'
import { encodeAll, hear, openCall } from './write-support.ts'

const HALF_A_CALL = [openCall('a', 'c1'), delta('a', '{"x":'), call('a', 'c1', '{"x":')]
const WHOLE_CALL = [call('a', 'c1', '{}')]
const REFUSAL = finish('a', {
  type: 'message',
  id: 'a',
  content: 'No',
  origin: 'agent',
  provider_metadata: { openai: { refusal: true } },
})

const reasons: [reason: string | null, finish: string, why: string, turn: StreamEvent[]][] = [
  ['stop', 'stop', 'unchanged', [done('a', 'Hi')]],
  ['length', 'length', 'unchanged', [done('a', 'Hi')]],
  ['content_filter', 'content_filter', 'unchanged', []],
  ['pause', 'stop', 'there is no other word', []],
  ['other', 'stop', 'there is no other word', []],
  ['some_day', 'stop', 'there is no other word', []],
  [null, 'stop', 'there is no other word', []],
  ['refusal', 'stop', 'the refusal says it', [REFUSAL]],
  ['refusal', 'content_filter', 'nothing else says it', [done('a', 'Well')]],
  ['tool_calls', 'stop', 'no call was sent', [done('a', 'Hi')]],
  ['tool_calls', 'tool_calls', 'a call was sent', WHOLE_CALL],
  ['stop', 'tool_calls', 'a call was sent', WHOLE_CALL],
  [null, 'tool_calls', 'a call was sent', WHOLE_CALL],
  ['length', 'tool_calls', 'the call is whole', WHOLE_CALL],
  ['length', 'length', 'the call is not whole', HALF_A_CALL],
  ['content_filter', 'content_filter', 'the call is not whole', HALF_A_CALL],
  ['stop', 'tool_calls', 'the provider says that the call is whole', HALF_A_CALL],
]

describe('the finish reason', () => {
  test.each(reasons)('of %s is %s: %s', (finish_reason, finish, _why, turn) => {
    const frames = encodeAll([start(), ...turn, responseDone({ finish_reason })])
    expect(hear(frames)).toMatchObject({ finish, error: undefined })
    expect(frames.at(-1)).toMatchObject({ choices: [{ delta: {}, finish_reason: finish }] })
  })

  test('is stop when the end has none', () => {
    const end = event({ type: 'response_done', response_id: 'r', status: 'complete' })
    expect(hear(encodeAll([end])).finish).toBe('stop')
  })
})

describe('a turn that failed or was stopped', () => {
  const rows: [name: string, end: StreamEvent, error: Record<string, unknown>][] = [
    [
      'an error keeps its code and message',
      responseError('UPSTREAM_TRUNCATED', 'cut off'),
      { message: 'cut off', type: 'server_error', code: 'UPSTREAM_TRUNCATED' },
    ],
    [
      'a provider that refused the request',
      responseError('HTTP_400', 'bad'),
      { message: 'bad', type: 'invalid_request_error', code: 'HTTP_400' },
    ],
    ['a wrong key', responseError('HTTP_401', ''), { type: 'authentication_error' }],
    ['a model that is not permitted', responseError('HTTP_403', ''), { type: 'permission_error' }],
    ['too many requests', responseError('HTTP_429', ''), { type: 'rate_limit_error' }],
    ['a provider that failed', responseError('HTTP_503', ''), { type: 'server_error' }],
    [
      'cancelled by the user',
      aborted('enough'),
      { message: 'The turn was stopped: enough', type: 'server_error', code: 'ABORTED' },
    ],
    [
      'cancelled by the user without a reason',
      event({ type: 'turn_aborted_by_user', turn_id: 't' }),
      { message: 'The turn was stopped', code: 'ABORTED' },
    ],
    [
      'an end with status aborted',
      responseDone({ status: 'aborted' }),
      { message: 'The turn was stopped', code: 'ABORTED' },
    ],
    [
      'an end with status error',
      responseDone({ status: 'error' }),
      { message: 'The stream failed or has ended: the response failed', code: 'STREAM_ERROR' },
    ],
  ]

  test.each(rows)('is an error, without a finish: %s', (_name, end, error) => {
    const frames = encodeAll([start(), open('a'), delta('a', 'Hel'), end], { includeUsage: true })
    expect(frames.at(-1)).toMatchObject({ error: { ...error, param: null } })
    expect(hear(frames)).toMatchObject({ content: 'Hel', finish: undefined, error })
  })

  test('has an error with exactly the four fields that clients know', () => {
    const error = { code: 'E', message: 'm', details: { secret: 1 } }
    const end = event({ type: 'response_error', response_id: 'r', error })
    expect(encodeAll([end]).at(-1)).toEqual({
      error: { message: 'm', type: 'server_error', param: null, code: 'E' },
    })
  })
})
