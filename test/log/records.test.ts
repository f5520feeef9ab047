import { describe, expect, test } from 'vitest'
import {
  checkId,
  checkRecords,
  keyOfOutput,
  outcomeOf,
  outputEnvelope,
} from '../../src/log/records.ts'
import { eventText } from '../../src/testing/turn-log/texts.ts'

const INVALID = expect.objectContaining({ code: 'RECORD_INVALID' })

describe('the key of an output', () => {
  test.each([
    [
      'an item',
      '{"type":"message","turnId":"t","threadId":"h","itemId":"i:1","content":""}',
      'i:1',
    ],
    ['a thought', '{"type":"thinking","turnId":"t","threadId":"h","itemId":"i","content":""}', 'i'],
    ['a call', '{"type":"tool_call","turnId":"t","threadId":"h","itemId":"","content":""}', ''],
    [
      'an escaped id',
      '{"type":"message","turnId":"t","threadId":"h","itemId":"\\"a\\u0062"}',
      '"ab',
    ],
    ['an escaped turn', '{"type":"message","turnId":"\\"","threadId":"h","itemId":"i"}', 'i'],
    ['fields in another order', '{"itemId":"i","type":"message"}', 'i'],
    ['white space', '{ "type": "message", "itemId": "i" }', 'i'],
    ['an event of the turn', '{"type":"turn_started","turnId":"t"}', 'turn_started'],
    ['a text that looks like an id', '{"type":"turn_error","error":{"itemId":"x"}}', 'turn_error'],
  ])('with %s is read', (_what, data, key) => {
    expect(keyOfOutput(data)).toBe(key)
  })

  test.each([
    '',
    'null',
    '[]',
    '"a"',
    '{}',
    '{"type":1}',
    '{"itemId":2,"type":"message"}',
    '{"type":',
  ])('is missing in %s', (data) => {
    expect(() => keyOfOutput(data)).toThrow(INVALID)
  })
})

describe('the envelope of an output', () => {
  test('is what was given', () => {
    const record = { seq: 4, data: '', eventId: 'e', timestamp: 0 }
    expect(outputEnvelope('turn', record, 7)).toEqual({ eventId: 'e', timestamp: 0 })
  })

  test('is made of the turn, the number and the time, and the same for the same', () => {
    const made = outputEnvelope('turn', { seq: 4, data: '' }, 7)
    expect(made).toEqual(outputEnvelope('turn', { seq: 4, data: 'x' }, 7))
    expect(made.timestamp).toBe(7)
    expect(made.eventId).toMatch(/00000004$/)
    expect(made.eventId).not.toBe(outputEnvelope('other', { seq: 4, data: '' }, 7).eventId)
  })
})

describe('the records of an append', () => {
  const record = (seq: number) => ({ seq, data: '{}' })

  test.each([
    ['nothing', []],
    ['one', [record(1)]],
    ['some that follow each other', [record(7), record(8), record(9)]],
  ])('may be %s', (_what, records) => {
    expect(() => checkRecords(records, false)).not.toThrow()
  })

  test.each([
    ['a gap', [record(1), record(3)]],
    ['one twice', [record(1), record(1)]],
    ['another order', [record(2), record(1)]],
  ])('may not have %s', (_what, records) => {
    const gap = expect.objectContaining({ code: 'LOG_SEQUENCE_GAP' })
    expect(() => checkRecords(records, false)).toThrow(gap)
  })

  test('may not be longer than 64 million characters', () => {
    const data = ' '.repeat(64 * 1024 * 1024 + 1)
    expect(() => checkRecords([{ seq: 1, data }], false)).toThrow(INVALID)
  })

  test('come with a seal only if there is one', () => {
    expect(() => checkRecords([], true)).toThrow(INVALID)
  })
})

describe('the outcome of a turn', () => {
  const done = { type: 'response_done', response_id: 'r', status: 'complete' }
  const error = { code: 'overloaded', message: 'later' }
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }

  test.each([
    [done, { status: 'complete' }],
    [
      { ...done, finish_reason: 'stop' },
      { status: 'complete', finishReason: 'stop' },
    ],
    [{ ...done, finish_reason: null }, { status: 'complete' }],
    [{ type: 'turn_aborted_by_user', turn_id: 't' }, { status: 'aborted' }],
    [
      { type: 'turn_aborted_by_user', turn_id: 't', usage },
      { status: 'aborted', usage },
    ],
    [
      { type: 'response_error', response_id: 'r', error, usage },
      { status: 'error', error, usage },
    ],
  ])('after %j is %j', (payload, outcome) => {
    expect(outcomeOf(eventText('run', 1, payload))).toEqual(outcome)
  })

  test.each([
    ['no JSON', '{'],
    ['no event', '{}'],
    ['an event that does not end a turn', eventText('run', 1, { type: 'heartbeat' })],
    ['an event of no known type', eventText('run', 1, { type: 'novel' })],
    ['half an event', eventText('run', 1, { type: 'response_done' })],
  ])('is not told by %s', (_what, data) => {
    expect(() => outcomeOf(data)).toThrow(INVALID)
  })
})

test('an id is measured in characters as people count them', () => {
  expect(() => checkId('turnId', '😀'.repeat(200))).not.toThrow()
  expect(() => checkId('turnId', '😀'.repeat(201))).toThrow(/turnId must have 1 to 200 characters/)
})
