/** The tables of docs/adapters.md describe what the router of notifications does. */

import { describe, expect, test } from 'vitest'
import { read } from '../../../../../test/repository/sources.ts'
import { section, tableRows } from '../../../../../test/repository/tables.ts'
import { NOTIFICATION_ROUTES } from '../../../src/formats/response-notifications/decode.ts'
import { translateResponseNotifications } from '../../../src/index.ts'
import { context } from '../replay.ts'
import {
  added,
  argumentsDelta,
  call,
  type Fields,
  itemsOf,
  note,
  wireCall,
} from './notifications.ts'

const doc = read('docs/adapters.md')
const tables = tableRows(section(doc, 'Response notifications'))
const documentedRoutes = tables
  .filter((cells) => cells.length === 3)
  .flatMap(([action = '', types = '']) =>
    types.split(', ').map((type): [string, string] => [unquote(type), action]),
  )

function unquote(cell: string): string {
  return cell.replaceAll('`', '')
}

/** One of each type, as it comes after what has to come before it. */
const message = { type: 'message', id: 'm' }
const open = added(message, { output_index: 0 })
const openReasoning = added({ type: 'reasoning', id: 'r' }, { output_index: 0 })
const part = { part: { type: 'output_text', text: 'Hi' }, output_index: 0 }
const summary = { part: { type: 'summary_text', text: 'Hi' }, output_index: 0 }
const delta = { delta: 'Hi', output_index: 0 }
const samples: Record<string, [before: Fields[], fields: Fields, output?: string]> = {
  'response.created': [[], {}, 'response_start'],
  'response.queued': [[], {}],
  'response.in_progress': [[], {}],
  'response.output_item.added': [[], { item: wireCall('c') }, 'item_start'],
  'response.output_item.done': [[added(wireCall('c'))], { item: wireCall('c') }, 'item_done'],
  'response.content_part.added': [[], { part: { type: 'output_text', text: '' } }, 'item_start'],
  'response.content_part.done': [[open], part, 'item_delta'],
  'response.output_text.delta': [[open], delta, 'item_delta'],
  'response.output_text.done': [[open], { text: 'Hi', output_index: 0 }, 'item_delta'],
  'response.refusal.delta': [[open], delta, 'item_delta'],
  'response.refusal.done': [[open], { refusal: 'Hi', output_index: 0 }, 'item_delta'],
  'response.reasoning_text.delta': [[openReasoning], delta, 'item_delta'],
  'response.reasoning_text.done': [[openReasoning], { text: 'Hi', output_index: 0 }, 'item_delta'],
  'response.reasoning_summary_part.added': [
    [],
    { part: { type: 'summary_text', text: '' } },
    'item_start',
  ],
  'response.reasoning_summary_part.done': [[openReasoning], summary, 'item_delta'],
  'response.reasoning_summary_text.delta': [[openReasoning], delta, 'item_delta'],
  'response.reasoning_summary_text.done': [
    [openReasoning],
    { text: 'Hi', output_index: 0 },
    'item_delta',
  ],
  'response.function_call_arguments.delta': [
    [added(wireCall('c'))],
    { call_id: 'c', delta: '{' },
    'item_delta',
  ],
  'response.function_call_arguments.done': [[added(wireCall('c'))], { call_id: 'c' }],
  'response.completed': [[], {}, 'response_done'],
  'response.done': [[], {}, 'response_done'],
  'response.incomplete': [[], {}, 'response_done'],
  'response.failed': [[], {}, 'response_error'],
  'response.error': [[], {}, 'response_error'],
  error: [[], {}, 'response_error'],
}

describe('the table of types', () => {
  test('has exactly the types the router knows, with their actions', () => {
    const byType = ([one]: readonly string[], [other]: readonly string[]) =>
      `${one}` < `${other}` ? -1 : 1
    expect(documentedRoutes.toSorted(byType)).toEqual([...NOTIFICATION_ROUTES].toSorted(byType))
  })
})

describe('in an open response', () => {
  test('every type has a sample', () => {
    expect(Object.keys(samples).toSorted()).toEqual([...NOTIFICATION_ROUTES.keys()].toSorted())
  })

  test.each(Object.entries(samples))('%s emits its payload', (type, [before, fields, output]) => {
    const translation = translateResponseNotifications(context)
    const begin = type === 'response.created' ? [] : [note('created')]
    for (const each of [...begin, ...before]) translation.translate(each)
    const payloads = translation.translate({ type, ...fields })
    expect(payloads.map((payload) => payload.type)).toEqual(output === undefined ? [] : [output])
  })
})

const item = (fields: Fields) => ({ type: 'function_call', call_id: 'c', ...fields })
/** `function.name` is a name inside of a name. */
const nested = (path: string, value: unknown): Fields => {
  const [outer = '', inner] = path.split('.')
  return { [outer]: inner === undefined ? value : { [inner]: value } }
}
const ids = { call_id: 'c', output_index: 4, item_id: 'fc', id: 'fc' }
const fragment = (names: Fields, field = 'delta') =>
  note('function_call_arguments.delta', { ...names, [field]: '{"a":1}' })

describe('the table of fields', () => {
  const aliases = new Map(
    tables
      .filter((cells) => cells.length === 2)
      .map(([field = '', names = '']) => [field, names.split(', ').map(unquote)]),
  )
  const namesOf = (field: string) => aliases.get(field) ?? []
  test('has the fields tested here', () => {
    expect([...aliases.keys()]).toEqual([
      'item',
      'name of a call',
      'arguments of a call',
      'id of a call',
      'fragment of arguments',
      'id of a text',
    ])
  })

  test.each(namesOf('item'))('the item is read from %s', (name) => {
    const events = [note('output_item.done', { [name]: item({ name: 'f', arguments: '{}' }) })]
    expect(itemsOf(events)).toMatchObject([{ type: 'function_call', call_id: 'c', name: 'f' }])
  })

  test.each(namesOf('name of a call'))('its name is read from %s', (path) => {
    expect(itemsOf([note('output_item.done', { item: item(nested(path, 'f')) })])).toMatchObject([
      { name: 'f' },
    ])
  })

  test.each(namesOf('arguments of a call'))('its arguments are read from %s', (path) => {
    const events = [note('output_item.done', { item: item(nested(path, '{"b":2}')) })]
    expect(itemsOf(events)).toMatchObject([{ arguments: '{"b":2}' }])
  })

  test.each(namesOf('id of a call'))('a call is identified by %s', (name) => {
    const first = added(item({ id: 'fc', name: 'f' }), { output_index: 4 })
    const second = added({ type: 'function_call', call_id: 'd', name: 'g' }, { output_index: 5 })
    const named = fragment({ [name]: ids[name as keyof typeof ids] })
    expect(itemsOf([first, second, named])).toMatchObject([{ arguments: '{"a":1}' }, { name: 'g' }])
  })

  test.each(namesOf('fragment of arguments'))('a fragment is read from %s', (name) => {
    expect(itemsOf([added(item({})), fragment({ call_id: 'c' }, name)])).toMatchObject([
      { arguments: '{"a":1}' },
    ])
  })

  test.each(namesOf('id of a text'))('text is identified by %s', (name) => {
    const events = [
      added({ type: 'message', id: 'm1' }, { output_index: 4 }),
      added({ type: 'message', id: 'm2' }, { output_index: 5 }),
      note('output_text.delta', { [name]: name === 'item_id' ? 'm1' : 4, delta: 'Hi' }),
    ]
    expect(itemsOf(events)).toMatchObject([{ content: 'Hi' }, { content: '' }])
  })

  test('a call without any name is the last one', () => {
    const events = [...call('c', '{}'), added(item({ call_id: 'd' })), argumentsDelta('{"a":1}')]
    expect(itemsOf(events)).toMatchObject([{ arguments: '{}' }, { arguments: '{"a":1}' }])
  })
})
