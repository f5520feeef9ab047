import { describe, expect, test } from 'vitest'
import { eventText } from '../../../conformance/src/turn-log/texts.ts'
import type { StreamEvent, StreamOutput } from '../../../core/src/index.ts'
import { OutputEncoder } from '../../../core/src/protocol/output-codec.ts'
import { checkId, outcomeOf, StoredEvent, StoredOutput } from '../../src/log/records.ts'

const encoder = new OutputEncoder()
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
    const stored = { data, eventId: 'e', timestamp: 1 }
    expect(StoredOutput.read('1-1', stored).key).toBe(key)
    const output = JSON.parse(data) as StreamOutput
    expect(StoredOutput.of('1-1', { output, eventId: 'e', timestamp: 1 }, encoder).key).toBe(key)
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
    expect(() => StoredOutput.read('1-1', { data, eventId: 'e', timestamp: 1 })).toThrow(INVALID)
  })
})

describe('a record', () => {
  const output = { type: 'turn_started', turnId: 't', threadId: 'h' } as const
  const event = JSON.parse(eventText('run', 1, { type: 'heartbeat' })) as StreamEvent

  test('of an output has its JSON, its key and its envelope', () => {
    const made = StoredOutput.of('1-4', { output, eventId: 'e', timestamp: 0 }, encoder)
    const data = JSON.stringify(output)
    const expected = {
      offset: '1-4',
      data,
      key: 'turn_started',
      eventId: 'e',
      timestamp: 0,
      output,
    }
    expect(made).toMatchObject(expected)
    const read = StoredOutput.read('1-4', { data, eventId: 'e', timestamp: 0 })
    expect(read).toMatchObject(expected)
    expect(read.output).toBe(read.output)
  })

  test('of an event has its JSON, shared by all readers, and its envelope', () => {
    const record = new StoredEvent(2, 7, event)
    const { event_id: eventId, timestamp } = event
    expect(record).toMatchObject({ offset: '2-7', eventId, timestamp, event })
    expect(record.data).toBe(JSON.stringify(event))
  })

  test('may not be longer than 64 million characters', () => {
    const long = {
      type: 'turn_started',
      turnId: ' '.repeat(64 * 1024 * 1024),
      threadId: '',
    } as const
    const entry = { output: long, eventId: 'e', timestamp: 0 }
    expect(() => StoredOutput.of('1-1', entry, encoder)).toThrow(INVALID)
  })

  test.each(['{"event_id":"e","timestamp":1,"type":"item_delta"}', JSON.stringify(event)])(
    'reports its size for any input: %s',
    (data) => {
      expect(new StoredEvent(1, 1, JSON.parse(data) as StreamEvent).size).toBe(data.length)
    },
  )
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
    expect(outcomeOf(JSON.parse(eventText('run', 1, payload)) as StreamEvent)).toEqual(outcome)
  })

  test.each([
    ['nothing', 'null'],
    ['no event', '{}'],
    ['an event that does not end a turn', eventText('run', 1, { type: 'heartbeat' })],
    ['an event of no known type', eventText('run', 1, { type: 'novel' })],
    ['half an event', eventText('run', 1, { type: 'response_done' })],
  ])('is not set by %s', (_what, data) => {
    expect(() => outcomeOf(JSON.parse(data) as StreamEvent)).toThrow(INVALID)
  })
})

test('an id is measured in Unicode characters', () => {
  expect(() => checkId('turnId', '😀'.repeat(200))).not.toThrow()
  expect(() => checkId('turnId', '😀'.repeat(201))).toThrow(/turnId must have 1 to 200 characters/)
})
