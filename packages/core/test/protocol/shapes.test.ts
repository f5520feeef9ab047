import { describe, expect, test } from 'vitest'
import { ERROR_CODES, TurnstreamError, unreachable } from '../../src/protocol/errors.ts'
import { generateEventId } from '../../src/protocol/ids.ts'
import {
  decode,
  decodeText,
  isRecord,
  parseJsonObject,
  parseJsonSafe,
} from '../../src/protocol/json.ts'
import { responseEventSchema, responseSchema } from '../../src/protocol/response.ts'
import { streamMessageSchema, streamOutputSchema } from '../../src/protocol/stream-output.ts'

const ids = { turnId: 't', threadId: 'h' }
const item = { ...ids, itemId: 'i', status: 'create', content: '' }

describe('outputs', () => {
  test.each([
    { type: 'message', ...item, origin: 'agent' },
    {
      type: 'message',
      ...item,
      status: 'error',
      errorCode: 'E',
      errorMessage: 'why',
      origin: 'user',
    },
    { type: 'thinking', ...item, providerId: '' },
    { type: 'tool_call', ...item, toolName: 'f', toolArguments: { a: 1 }, callId: 'c' },
    {
      type: 'tool_call',
      ...item,
      toolName: 'f',
      toolArguments: {},
      callId: 'c',
      toolOutput: 'text',
      success: false,
    },
    { type: 'turn_started', ...ids },
    { type: 'turn_started', ...ids, modelId: 'm', providerId: 'p' },
    { type: 'turn_complete', ...ids, status: 'aborted' },
    { type: 'turn_error', ...ids, error: { code: 'E', message: 'why' } },
  ])('$type $status', (output) => {
    expect(decode(streamOutputSchema, output)).toEqual({ ok: true, value: output })
  })

  test.each([
    { type: 'message', ...item },
    { type: 'message', ...item, status: 'done', origin: 'agent' },
    { type: 'tool_call', ...item, toolName: 'f', toolArguments: [], callId: 'c' },
    { type: 'turn_complete', ...ids, status: 'update' },
    { type: 'item_upsert', ...item },
  ])('is refused: %j', (output) => {
    expect(decode(streamOutputSchema, output).ok).toBe(false)
  })

  test('are sent in an envelope', () => {
    const message = { eventId: 'e', timestamp: 1, turnId: 't', payload: '{}' }
    expect(decodeText(streamMessageSchema, JSON.stringify(message))).toEqual({
      ok: true,
      value: message,
    })
  })
})

test.each([
  { type: 'Created' },
  { type: 'OutputItemDone', item: { type: 'message', id: 'm', content: '', origin: 'agent' } },
  { type: 'Completed', responseId: 'r' },
  {
    type: 'Completed',
    responseId: 'r',
    tokenUsage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  },
  { type: 'OutputTextDelta', delta: '' },
  { type: 'ReasoningSummaryDelta', delta: 'x' },
  { type: 'ReasoningContentDelta', delta: 'x' },
  { type: 'ReasoningSummaryPartAdded' },
  { type: 'WebSearchCallBegin', callId: 'c' },
  { type: 'RateLimits', snapshot: { primary: { used_percent: 3 } } },
])('response event $type', (event) => {
  expect(decode(responseEventSchema, event)).toEqual({ ok: true, value: event })
})

test('a response keeps its items, their outcomes and other fields', () => {
  const response = {
    id: 'r',
    turn_id: 't',
    thread_id: 'h',
    model_id: 'm',
    provider_id: 'p',
    created_at: 1,
    updated_at: 2,
    status: 'error',
    output_items: [
      { type: 'message', id: 'a', content: '', origin: 'user', error: { code: 'E', message: '' } },
      { type: 'reasoning', id: 'b', content: '', cancelled: {}, later: true },
    ],
    finish_reason: null,
    error: { code: 'E', message: 'why', stack: '…' },
  }
  expect(decode(responseSchema, response)).toEqual({ ok: true, value: response })
})

describe('P19 utilities', () => {
  test.each([
    ['{"a":1}', { a: 1 }],
    ['[1]', [1]],
    ['null', null],
    ['{"a"', '{"a"'],
    ['', ''],
  ])('parseJsonSafe(%j)', (text, value) => {
    expect(parseJsonSafe(text)).toEqual(value)
  })

  test.each([
    ['{"a":1}', { a: 1 }],
    ['[1]', undefined],
    ['null', undefined],
    ['{"a"', undefined],
  ])('parseJsonObject(%j)', (text, value) => {
    expect(parseJsonObject(text)).toEqual(value)
  })

  test('isRecord accepts only plain objects', () => {
    expect([{}, [], null, 'x', () => {}].map(isRecord)).toEqual([true, false, false, false, false])
  })

  test('generateEventId generates unique UUIDs', () => {
    const made = new Set(Array.from({ length: 100 }, generateEventId))
    expect(made.size).toBe(100)
    for (const id of made) expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  })
})

describe('errors', () => {
  test.each(Object.entries(ERROR_CODES))('%s has a status and a summary', (_code, row) => {
    expect(row.status).toBeGreaterThanOrEqual(400)
    expect(row.status).toBeLessThan(600)
    expect(row.summary).not.toBe('')
  })

  test('have their code, summary and cause', () => {
    const cause = new Error('below')
    const error = new TurnstreamError('EVENT_INVALID', 'no payload', { cause })
    expect(error).toMatchObject({ name: 'TurnstreamError', code: 'EVENT_INVALID', cause })
    expect(error.message).toBe('The event is malformed: no payload')
  })

  test('an impossible variant is reported', () => {
    expect(() => unreachable({ type: 'x' } as never)).toThrow('unhandled variant: {"type":"x"}')
  })
})
