import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  added,
  call,
  completed,
  created,
  done,
  inputDelta,
  itemsOf,
  plain,
  text,
  translate,
  wireCall,
  wireCustom,
} from './events.ts'
import { callRows } from './rows-calls.ts'
import { reasoningRows, textRows } from './rows-items.ts'
import { toolRows } from './rows-tools.ts'

describe('items', () => {
  test.each([...textRows, ...reasoningRows, ...callRows, ...toolRows])('$name', (row) => {
    expect(itemsOf(row.events)).toEqual(row.items)
  })

  test('text is passed on as it arrives', () => {
    const payloads = translate([created, ...text(0, 'a', 'b'), completed])
    expect(payloads.map(({ type }) => type)).toEqual([
      'response_start',
      'item_start',
      'item_delta',
      'item_delta',
      'item_done',
      'response_done',
    ])
  })

  test('fragments of a custom tool are the start of its JSON', () => {
    const events = [
      added(0, wireCustom('c', 'sql', '')),
      inputDelta(0, 'a"\ud83d'),
      inputDelta(0, '\ude00'),
      done(0, wireCustom('c', 'sql', 'a"😀')),
    ]
    const payloads = translate([created, ...events, completed])
    const fragments = payloads.map((each) => (each.type === 'item_delta' ? each.delta_content : ''))
    expect(JSON.parse(fragments.join(''))).toEqual({ input: 'a"😀' })
    expect(itemsOf(events)[0]).toMatchObject({ arguments: '{"input":"a\\"😀"}' })
  })

  test('a call starts with its name and id, a vendor tool also with its executor', () => {
    const payloads = translate([
      added(0, wireCall('c1', 'f')),
      added(1, { type: 'web_search_call', id: 'ws' }),
    ])
    const starts = payloads.filter(({ type }) => type === 'item_start')
    expect(starts).toMatchObject([
      { item_type: 'function_call', call_id: 'c1', name: 'f' },
      {
        item_type: 'function_call',
        call_id: 'ws',
        name: 'web_search_call',
        provider_metadata: { executed_by: 'provider' },
      },
    ])
  })

  test('only the call with oversized arguments fails', () => {
    const payloads = translate(
      [
        created,
        ...call(0, 'c1', 'big', '{"a":"', 'xxxxx"}'),
        ...call(1, 'c2', 'f', '{}'),
        completed,
      ],
      { maxArgumentChars: 10 },
    )
    expect(responsesOf(payloads)[0]?.output_items.map(plain)).toMatchObject([
      {
        call_id: 'c1',
        arguments: '{"a":"',
        error: {
          code: 'TOOL_ARGUMENTS_TOO_LARGE',
          message: 'the arguments of big exceed 10 characters',
        },
      },
      { call_id: 'c2', arguments: '{}' },
    ])
    expect(payloads.at(-1)).toMatchObject({ type: 'response_done', finish_reason: 'tool_calls' })
  })

  test('unserialisable parameters do not break the turn', () => {
    // How deeply JSON may be nested depends on the engine; a circle can be written by none.
    const action: Record<string, unknown> = {}
    action['self'] = action
    const payloads = translate([
      created,
      done(0, { type: 'web_search_call', id: 'ws', status: 'completed', query: action }),
      completed,
    ])
    const [response] = responsesOf(payloads)
    expect(response?.output_items[0]).toMatchObject({ name: 'web_search_call', arguments: '{}' })
    expect(response?.status).toBe('complete')
  })
})
