import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import { decode, decodeText } from '../../src/schemas/decode.ts'
import { openObject, schemaOf } from '../../src/schemas/shape.ts'
import {
  responseEventSchema,
  responseSchema,
  streamMessageSchema,
  streamOutputSchema,
} from '../../src/schemas.ts'

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

test('a schema that differs from its type does not compile', () => {
  interface Call {
    id: string
    name?: string
    at: 'start' | 'end'
  }
  const fields = { id: z.string(), name: z.string().exactOptional(), at: z.enum(['start', 'end']) }
  const schema = schemaOf<Call>()(openObject(fields))
  expect(schema.shape).toEqual(fields)

  const { name: _, ...required } = fields
  // @ts-expect-error an optional field is missing
  schemaOf<Call>()(openObject(required))
  // @ts-expect-error the type has no such field
  schemaOf<Call>()(openObject({ ...fields, more: z.string().exactOptional() }))
  // @ts-expect-error the name is optional
  schemaOf<Call>()(openObject({ ...fields, name: z.string() }))
  // @ts-expect-error undefined is no name
  schemaOf<Call>()(openObject({ ...fields, name: z.string().optional() }))
  // @ts-expect-error a value is missing
  schemaOf<Call>()(openObject({ ...fields, at: z.enum(['start']) }))
  // @ts-expect-error the same, in an array
  schemaOf<{ calls: Call[] }>()(openObject({ calls: z.array(openObject(required)) }))
  // @ts-expect-error anything is no text
  schemaOf<Call>()(openObject({ ...fields, id: z.any() }))
})
