import { describe, expect, test } from 'vitest'
import { begun, done, itemsOf, legacy, message, responseOf, translate } from './events.ts'
import { legacyRows } from './rows-legacy.ts'

describe('codex/event/*', () => {
  test.each(legacyRows)('$name', ({ events, items }) => {
    expect(itemsOf([begun, ...events, done])).toEqual(items)
  })

  test('an error is followed by an end that hides it', () => {
    const error = legacy('error', {
      message: 'It broke',
      codex_error_info: { usage_limit_exceeded: {} },
    })
    expect(translate([begun, error, done]).at(-1)).toMatchObject({
      type: 'response_error',
      error: { code: 'insufficient_quota', message: 'It broke' },
    })
  })

  test('an abort has no other end', () => {
    const events = [
      begun,
      legacy('agent_message_delta', { delta: 'x' }),
      legacy('turn_aborted', { reason: 'replaced' }),
    ]
    expect(translate(events).at(-1)).toMatchObject({
      type: 'turn_aborted_by_user',
      reason: 'replaced',
    })
  })

  test('the last message is emitted when nothing else reported it', () => {
    const last = legacy('task_complete', { last_agent_message: 'Hi' })
    expect(itemsOf([begun, last])).toEqual([message('Hi')])
    expect(itemsOf([begun, legacy('agent_message', { message: 'Hi' }), last])).toEqual([
      message('Hi'),
    ])
  })

  test('a chunk that is not base64 ends the response', () => {
    const begin = legacy('exec_command_begin', { call_id: 'c', command: ['ls'] })
    const chunk = legacy('exec_command_output_delta', { call_id: 'c', chunk: '*' })
    expect(translate([begun, begin, chunk]).at(-1)).toMatchObject({
      error: { message: 'exec_command_output_delta: chunk is missing or of the wrong type' },
    })
  })

  test('the model is reported by session_configured', () => {
    const events = [legacy('session_configured', { model: 'gpt-5-codex' }), begun, done]
    expect(responseOf(events).model_id).toBe('gpt-5-codex')
  })

  test('unknown types are reported once', () => {
    const told: string[] = []
    translate([begun, legacy('hologram'), legacy('hologram'), legacy('turn_diff'), done], {
      onUnknown: (type) => told.push(type),
    })
    expect(told).toEqual(['hologram'])
  })
})
