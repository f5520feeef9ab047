import { describe, expect, test } from 'vitest'
import { translateResponseNotifications } from '../../../src/index.ts'
import { responsesOf } from '../outcome.ts'
import { context } from '../replay.ts'
import {
  call,
  created,
  done,
  type Fields,
  finished,
  note,
  responseOf,
  text,
  translate,
} from './notifications.ts'

const TRUNCATED = { status: 'error', error: { code: 'UPSTREAM_TRUNCATED' } }
const finish = (reason: string, word: string | null) => ({
  status: 'complete',
  finish_reason: reason,
  provider_finish_reason: word,
})
const incomplete = (reason: string) =>
  note('incomplete', { response: { incomplete_details: { reason } } })

describe('ends', () => {
  test.each<[string, unknown[], Fields]>([
    ['text and an end', [text('Hi'), finished], finish('stop', 'completed')],
    ['a call and an end', [...call('c'), finished], finish('tool_calls', 'completed')],
    [
      'an incomplete call and an end',
      [...call('c').slice(0, 2), finished],
      finish('tool_calls', 'completed'),
    ],
    [
      'a refusal',
      [note('refusal.delta', { delta: 'No.' }), finished],
      finish('refusal', 'completed'),
    ],
    [
      'no more tokens',
      [text('Hi'), incomplete('max_output_tokens')],
      finish('length', 'max_output_tokens'),
    ],
    [
      'a filter',
      [text('Hi'), incomplete('content_filter')],
      finish('content_filter', 'content_filter'),
    ],
    ['A4 calls that are done are an end', [...call('c'), ...call('d')], finish('tool_calls', null)],
    [
      'A4 calls that are done after text are an end',
      [text('Hi'), ...call('c')],
      finish('tool_calls', null),
    ],
    [
      'A4 a call whose last item has no type',
      [...call('c').slice(0, -1), done({ call_id: 'c' })],
      finish('tool_calls', null),
    ],
    [
      'A4 a call whose end has no item',
      [...call('c').slice(0, -1), note('output_item.done', { call_id: 'c' })],
      finish('tool_calls', null),
    ],
    ['A4 text alone is not an end', [text('Hi')], TRUNCATED],
    ['A4 complete text is not an end', [text('Hi'), done({ type: 'message' })], TRUNCATED],
    ['A4 an incomplete call is not an end', call('c', '{}').slice(0, 3), TRUNCATED],
    [
      'A4 one incomplete call of two is not an end',
      [...call('c'), ...call('d').slice(0, 2)],
      TRUNCATED,
    ],
    ['a start is not an end', [created], TRUNCATED],
    ['nothing is not an end', [], TRUNCATED],
    [
      'failed',
      [note('failed', { response: { error: { code: 'x', message: 'y' } } })],
      { status: 'error', error: { code: 'x', message: 'y' } },
    ],
    [
      'failed, flat',
      [note('failed', { error: 'It broke.' })],
      { status: 'error', error: { code: 'failed', message: 'It broke.' } },
    ],
    [
      'an error',
      [note('error', { error: { code: 'x', message: 'y' } })],
      { status: 'error', error: { code: 'x', message: 'y' } },
    ],
    [
      'an error, flat',
      [note('error', { message: 'y' })],
      { status: 'error', error: { code: 'error', message: 'y' } },
    ],
    [
      'an end that says it failed',
      [note('done', { response: { status: 'failed' } })],
      { status: 'error', error: { code: 'failed' } },
    ],
  ])('%s', (_, events, expected) => {
    expect(responseOf(events)).toMatchObject(expected)
  })

  test('an oversized call is not done', () => {
    const events = [...call('c', '{"a":"', 'xxxxx"}'), ...call('d')]
    const payloads = translate(events, { maxArgumentChars: 10 })
    expect(payloads.at(-1)).toMatchObject({ error: { code: 'UPSTREAM_TRUNCATED' } })
  })

  test('a broken input breaks the response, with or without calls', () => {
    const fault = { code: 'UPSTREAM_MALFORMED', message: 'x' }
    const translation = translateResponseNotifications(context)
    for (const event of call('c')) translation.translate(event)
    expect(translation.end(fault)).toMatchObject([{ type: 'response_error', error: fault }])
  })

  test('an error fails the open call', () => {
    const events = [...call('c', '{"a').slice(0, 2), note('error', { message: 'y' }), finished]
    expect(translate(events).slice(-2)).toMatchObject([
      { type: 'item_error', error: { code: 'error', message: 'y' } },
      { type: 'response_error', error: { code: 'error', message: 'y' } },
    ])
  })

  test('usage and model are passed on', () => {
    const usage = { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
    const response = responseOf([created, text('Hi'), note('done', { response: { usage } })])
    expect(response).toMatchObject({
      model_id: 'gpt-x',
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    })
  })

  test('only a start begins another response', () => {
    const late = [text('late'), ...call('late'), note('completed'), note('error'), '[DONE]']
    const payloads = translate([text('One'), finished, ...late, created, ...call('c')])
    expect(responsesOf(payloads)).toMatchObject([
      { id: 'run', finish_reason: 'stop', output_items: [{ content: 'One' }] },
      { id: 'run-2', finish_reason: 'tool_calls', output_items: [{ call_id: 'c' }] },
    ])
  })

  test('call names are not shared between responses', () => {
    const message = { type: 'message', id: 'm' }
    const one = [text('One'), done(message, { output_index: 0 }), finished]
    const late = text('late', { output_index: 0 })
    const two = [text('Two', { output_index: 0 }), done(message, { output_index: 0 }), late]
    const [, second] = responsesOf(translate([created, ...one, created, ...two, finished]))
    expect(second?.output_items).toMatchObject([{ content: 'Two' }])
  })

  test('a restarted response cancels open items', () => {
    const response = responseOf([created, text('Half'), created, text('Whole'), finished])
    expect(response.output_items).toMatchObject([
      { content: 'Half', cancelled: { reason: 'attempt_reset' } },
      { content: 'Whole' },
    ])
  })

  test.each([
    ['null', null, 'the notification is not an object'],
    ['no type', {}, 'type is not a string'],
    [
      'an invalid text',
      note('output_text.delta'),
      'response.output_text.delta without a usable delta',
    ],
  ])('malformed: %s', (_, event, reason) => {
    expect(responseOf([text('Hi'), event, finished])).toMatchObject({
      status: 'error',
      error: { code: 'UPSTREAM_MALFORMED', message: reason },
    })
  })
})
