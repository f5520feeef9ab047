import { describe, expect, test } from 'vitest'
import { ResponseWriter } from '../../src/formats/translation.ts'
import { context } from './replay.ts'

describe('abort', () => {
  test('cancels open items, emits usage, and ends the response', () => {
    const writer = new ResponseWriter(context)
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
    writer.openItem('a', 'message')
    writer.append('a', 'Half')
    writer.setUsage(usage)
    writer.drain()
    writer.abort('interrupted')
    expect(writer.drain()).toEqual([
      { type: 'item_cancelled', item_id: 'run:1', reason: 'interrupted' },
      { type: 'usage_update', response_id: 'run', usage },
      { type: 'turn_aborted_by_user', turn_id: 'turn', reason: 'interrupted' },
    ])
    writer.abort('again')
    writer.fail({ code: 'LATE', message: 'late' })
    writer.finish('stop', null)
    writer.endInput()
    expect(writer.drain()).toEqual([])
    expect(writer.hasEnded).toBe(true)
  })

  test('starts a response that has not started', () => {
    const writer = new ResponseWriter(context)
    writer.abort('interrupted')
    expect(writer.drain().map(({ type }) => type)).toEqual([
      'response_start',
      'turn_aborted_by_user',
    ])
  })

  test('of a later response names the turn it started in', () => {
    const writer = new ResponseWriter(context)
    writer.finish('stop', null)
    writer.start()
    writer.abort('interrupted')
    const [, , start, abort] = writer.drain()
    expect(start).toMatchObject({ type: 'response_start', turn_id: 'run-2' })
    expect(abort).toMatchObject({ type: 'turn_aborted_by_user', turn_id: 'run-2' })
  })
})
