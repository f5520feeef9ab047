import { describe, expect, test } from 'vitest'
import { ResponseWriter } from '../../src/formats/translation.ts'
import { checkPayloads } from './outcome.ts'
import { context } from './replay.ts'

const writer = () => new ResponseWriter(context)
const TRUNCATED = {
  code: 'UPSTREAM_TRUNCATED',
  message: 'The provider stream ended early',
}

/** What was written, short. */
function written(target: ResponseWriter): string[] {
  return target.drain().map((payload) => {
    switch (payload.type) {
      case 'item_start':
        return `start ${payload.item_id} ${payload.item_type}`
      case 'item_delta':
        return `delta ${payload.item_id} ${payload.delta_content}`
      case 'item_done':
        return `done ${payload.item_id}`
      case 'item_error':
        return `error ${payload.item_id} ${payload.error.code}`
      case 'item_cancelled':
        return `cancelled ${payload.item_id} ${payload.reason}`
      case 'response_start':
        return `response ${payload.response_id} ${payload.turn_id} ${payload.model_id}`
      case 'response_done':
        return `end ${payload.response_id} ${payload.finish_reason} ${payload.provider_finish_reason}`
      case 'response_error':
        return `end ${payload.response_id} !${payload.error.code}`
      default:
        return payload.type
    }
  })
}

describe('a response', () => {
  test('starts once', () => {
    const target = writer()
    expect(target.isOpen).toBe(false)
    target.start('real')
    target.start('other')
    expect(target.isOpen).toBe(true)
    expect(written(target)).toEqual(['response run turn real'])
    expect(written(target)).toEqual([])
  })

  test('is started by its first item, its end or its failure', () => {
    const [byItem, byEnd, byFailure] = [writer(), writer(), writer()]
    byItem.openItem('a', 'message')
    byEnd.finish('stop', null)
    byFailure.fail({ code: 'X', message: 'x' })
    expect(written(byItem)).toEqual(['response run turn model', 'start run:1 message'])
    expect(written(byEnd)).toEqual(['response run turn model', 'end run stop null'])
    expect(written(byFailure)).toEqual(['response run turn model', 'end run !X'])
  })

  test('ends once, and nothing follows', () => {
    const target = writer()
    target.openItem('a', 'message')
    target.finish('stop', 'end_turn')
    target.finish('length', null)
    target.fail({ code: 'X', message: 'x' })
    target.openItem('b', 'message')
    target.append('a', 'late')
    target.endInput()
    target.endInput({ code: 'Y', message: 'y' })
    expect(target.hasEnded).toBe(true)
    expect(target.isOpen).toBe(false)
    expect(written(target)).toEqual([
      'response run turn model',
      'start run:1 message',
      'done run:1',
      'end run stop end_turn',
    ])
  })

  test('may be followed by another one with its own ids', () => {
    const target = writer()
    target.openItem('a', 'message')
    target.finish('stop', null)
    target.start()
    target.openItem('a', 'message')
    target.finish('stop', null)
    expect(written(target).slice(4)).toEqual([
      'response run-2 run-2 model',
      'start run-2:1 message',
      'done run-2:1',
      'end run-2 stop null',
    ])
  })

  test('that fails also fails its open items and keeps its usage', () => {
    const target = writer()
    target.openItem('a', 'message')
    target.openItem('b', 'reasoning')
    target.finishItem('a')
    target.setUsage({ prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 })
    target.fail({ code: 'X', message: 'x' })
    expect(written(target).slice(3)).toEqual([
      'done run:1',
      'error run:2 X',
      'usage_update',
      'end run !X',
    ])
  })

  test('has its usage at its end, not shared with the next', () => {
    const target = writer()
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
    target.start()
    target.setUsage({ ...usage, total_tokens: 0 })
    target.setUsage(usage)
    target.finish('stop', null)
    expect(target.drain().at(-1)).toMatchObject({ type: 'response_done', usage })
    target.start()
    target.finish('stop', null)
    expect(target.drain().at(-1)).not.toHaveProperty('usage')
  })

  test('that is open at the end of the input is truncated, or failed with the given reason', () => {
    const fault = { code: 'UPSTREAM_TIMEOUT', message: 'slow' }
    for (const [given, error] of [
      [undefined, TRUNCATED],
      [fault, fault],
    ] as const) {
      const target = writer()
      target.openItem('a', 'message')
      target.endInput(given)
      expect(target.drain().slice(2)).toEqual([
        { type: 'item_error', item_id: 'run:1', error },
        { type: 'response_error', response_id: 'run', error },
      ])
    }
  })

  test('that never started is also truncated', () => {
    const target = writer()
    target.endInput()
    const payloads = target.drain()
    expect(payloads).toMatchObject([{ type: 'response_start' }, { error: TRUNCATED }])
    checkPayloads(payloads)
  })
})

describe('an item', () => {
  test('opens once per key', () => {
    const target = writer()
    target.openItem('a', 'message')
    target.openItem('a', 'reasoning')
    expect(target.isOpenItem('a')).toBe(true)
    expect(target.isOpenItem('b')).toBe(false)
    expect(written(target)).toHaveLength(2)
  })

  test('grows only while open', () => {
    const target = writer()
    target.append('a', 'early')
    target.openItem('a', 'message', { initial_content: '>' })
    target.append('a', 'x')
    target.append('a', '')
    expect(target.textOf('a')).toBe('>x')
    target.finishItem('a')
    target.finishItem('a')
    target.append('a', 'late')
    target.failItem('a', { code: 'X', message: 'x' })
    expect(target.textOf('a')).toBe('')
    expect(written(target).slice(1)).toEqual(['start run:1 message', 'delta run:1 x', 'done run:1'])
  })

  test('may reopen under a free key, as another item', () => {
    const target = writer()
    target.openItem('a', 'message')
    target.finishItem('a')
    target.openItem('a', 'message')
    expect(written(target).at(-1)).toBe('start run:2 message')
  })

  test('may be cancelled with all others while the response continues', () => {
    const target = writer()
    target.openItem('a', 'message')
    target.openItem('b', 'reasoning')
    target.cancelOpenItems('attempt_reset')
    expect(target.isOpen).toBe(true)
    target.finish('stop', null)
    expect(written(target).slice(3)).toEqual([
      'cancelled run:1 attempt_reset',
      'cancelled run:2 attempt_reset',
      'end run stop null',
    ])
  })
})

describe('a final item', () => {
  type Finish = Parameters<ResponseWriter['finishItem']>[1]
  type Open = Parameters<ResponseWriter['openItem']>
  const rows: [
    name: string,
    type: Open[1],
    start: Open[2],
    text: string,
    end: Finish,
    final: unknown,
  ][] = [
    ['message', 'message', {}, 'Hi', {}, { content: 'Hi', origin: 'agent' }],
    [
      'message of the user',
      'message',
      { origin: 'user' },
      'Hi',
      {},
      { content: 'Hi', origin: 'user' },
    ],
    [
      'message whose final text differs',
      'message',
      {},
      'H',
      { content: 'Ho' },
      { content: 'Ho', origin: 'agent' },
    ],
    ['reasoning', 'reasoning', {}, 'Hm', {}, { content: 'Hm', origin: 'agent' }],
    [
      'call',
      'function_call',
      { name: 'f', call_id: 'c' },
      '[1]',
      {},
      { name: 'f', call_id: 'c', arguments: '[1]' },
    ],
    [
      'call that is known late',
      'function_call',
      {},
      '',
      { name: 'f', call_id: 'c', content: '[2]' },
      { name: 'f', call_id: 'c', arguments: '[2]' },
    ],
    [
      'call without arguments',
      'function_call',
      { name: 'f' },
      '',
      {},
      { name: 'f', call_id: '', arguments: '{}' },
    ],
    [
      'output',
      'function_call_output',
      { call_id: 'c' },
      'out',
      {},
      { call_id: 'c', output: 'out', success: true },
    ],
    [
      'output of a failure',
      'function_call_output',
      { call_id: 'c' },
      '',
      { success: false },
      { call_id: 'c', output: '', success: false },
    ],
    ['error', 'error', { code: 'X' }, 'oops', {}, { code: 'X', message: 'oops' }],
  ]

  test.each(rows)('%s', (_, type, start, text, end, final) => {
    const target = writer()
    target.openItem('a', type, start)
    target.append('a', text)
    target.finishItem('a', end)
    target.finish('stop', null)
    const payloads = target.drain()
    checkPayloads(payloads)
    const done = payloads.find((payload) => payload.type === 'item_done')
    expect(done).toEqual({
      type: 'item_done',
      item_id: 'run:1',
      final_item: { type, id: 'run:1', ...(final as object) },
    })
  })

  test('has the metadata of its start and its end', () => {
    const target = writer()
    target.openItem('a', 'message', { provider_metadata: { x: { a: 1 }, y: 1 } })
    target.finishItem('a', { provider_metadata: { x: { b: 2 } } })
    const [, start, done] = target.drain()
    expect(start).toMatchObject({ provider_metadata: { x: { a: 1 }, y: 1 } })
    expect(done).toMatchObject({ final_item: { provider_metadata: { x: { b: 2 }, y: 1 } } })
  })

  test('has no metadata by default', () => {
    const target = writer()
    target.openItem('a', 'message', { provider_metadata: {} })
    target.finishItem('a', { provider_metadata: {} })
    expect(JSON.stringify(target.drain())).not.toContain('provider_metadata')
  })
})
