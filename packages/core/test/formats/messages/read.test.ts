import { describe, expect, test } from 'vitest'
import type { StreamEventPayload } from '../../../src/index.ts'
import { responsesOf } from '../outcome.ts'
import {
  blockDelta,
  blockStart,
  blockStop,
  ending,
  itemsOf,
  jsonDelta,
  messageDelta,
  messageStart,
  messageStop,
  plain,
  responseOf,
  textBlock,
  toolUse,
  translate,
} from './events.ts'
import { call, contentRows, message } from './rows-content.ts'
import { vendorRows } from './rows-vendor-tools.ts'

describe('content', () => {
  test.each([...contentRows, ...vendorRows])('$name', ({ blocks, items }) => {
    expect(itemsOf([messageStart(), ...blocks, ...ending()])).toEqual(items)
  })

  test("every item has the vendor's message id", () => {
    const { output_items } = responseOf([messageStart(), ...textBlock(0, 'Hi'), ...ending()])
    expect(output_items[0]?.provider_metadata).toEqual({ anthropic: { message_id: 'msg_1' } })
  })

  test('only the call with oversized arguments fails', () => {
    const payloads = translate(
      [
        messageStart(),
        ...toolUse(0, 't1', 'big', '{"a":"', 'x'.repeat(20), '"}'),
        ...toolUse(0, 't2', 'small', '{"a":1}'),
        ...ending('tool_use'),
      ],
      { maxArgumentChars: 10 },
    )
    expect(responsesOf(payloads)[0]?.output_items.map(plain)).toEqual([
      {
        ...call('t1', 'big', '{"a":"'),
        error: {
          code: 'TOOL_ARGUMENTS_TOO_LARGE',
          message: 'the arguments of big exceed 10 characters',
        },
      },
      call('t2', 'small', '{"a":1}'),
    ])
    expect(payloads.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'tool_calls' })
  })

  test('text is passed on as it arrives', () => {
    const payloads = translate([messageStart(), ...textBlock(0, 'a', 'b'), ...ending()])
    expect(payloads.map(({ type }) => type)).toEqual([
      'response_start',
      'usage_update',
      'item_start',
      'item_delta',
      'item_delta',
      'item_done',
      'response_done',
    ] satisfies StreamEventPayload['type'][])
  })

  test('the model is the one the vendor reports', () => {
    expect(responseOf([messageStart(), ...ending()]).model_id).toBe('claude-x')
    expect(responseOf([{ type: 'message_start' }, ...ending()]).model_id).toBe('model')
  })
})

describe('unknown types', () => {
  test('are ignored and reported once per type', () => {
    const told: string[] = []
    const events = [
      { type: 'new_event' },
      messageStart(),
      { type: 'new_event' },
      blockStart(0, { type: 'hologram' }),
      blockDelta(0, { type: 'hologram_delta' }),
      jsonDelta(0, '{'),
      blockStop(0),
      blockStart(1, { type: 'hologram' }),
      ...textBlock(2, 'Hi'),
      ...ending(),
    ]
    const payloads = translate(events, { onUnknown: (type) => told.push(type) })
    expect(told).toEqual(['new_event', 'content_block hologram', 'delta hologram_delta'])
    expect(responsesOf(payloads)[0]?.output_items.map(plain)).toEqual([message('Hi')])
  })

  test.each([null, 7, 'text', '[DONE]', [], undefined, true])('%j is not an event', (json) => {
    const told: string[] = []
    const payloads = translate([json, messageStart(), json, ...ending(), json], {
      onUnknown: (type) => told.push(type),
    })
    expect(told).toEqual(['not an object'])
    expect(payloads.map(({ type }) => type)).toEqual([
      'response_start',
      'usage_update',
      'response_done',
    ])
  })
})

describe('usage', () => {
  test('counts are totals, and the prompt includes cache reads and writes', () => {
    const { usage } = responseOf([
      messageStart({
        input_tokens: 10,
        cache_read_input_tokens: 200,
        cache_creation_input_tokens: 30,
        output_tokens: 1,
      }),
      messageDelta(null, { output_tokens: 4 }),
      messageDelta('end_turn', {
        input_tokens: 12,
        cache_read_input_tokens: null,
        output_tokens: 9,
        output_tokens_details: { thinking_tokens: 6 },
      }),
      messageStop,
    ])
    expect(usage).toEqual({
      prompt_tokens: 242,
      completion_tokens: 9,
      total_tokens: 251,
      cached_tokens: 200,
      cache_write_tokens: 30,
      reasoning_tokens: 6,
    })
  })

  test('an invalid count is ignored', () => {
    const { usage } = responseOf([
      messageStart({ input_tokens: 3, output_tokens: -1, cache_read_input_tokens: '5' }),
      messageDelta('end_turn', { output_tokens: 1.5, input_tokens: Number.MAX_VALUE }),
      messageStop,
    ])
    expect(usage).toEqual({ prompt_tokens: 3, completion_tokens: 0, total_tokens: 3 })
  })

  test('is missing when the vendor reports none', () => {
    expect(responseOf([messageStart(null), messageDelta('end_turn', 7), messageStop]).usage).toBe(
      undefined,
    )
  })
})
