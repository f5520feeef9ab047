/** docs/notifications.md and the router say the same, and the router does what both say. */
import { describe, expect, test } from 'vitest'
import { translateResponseNotifications } from '../../../src/adapters/response-notifications/translate.ts'
import { NOTIFICATION_ROUTES } from '../../../src/adapters/response-notifications/wire.ts'
import { read } from '../../repository/sources.ts'
import { section, tableRows } from '../../repository/tables.ts'
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

const doc = read('docs/notifications.md')
const rows = tableRows(section(doc, 'Types'))
const typeRows = rows
  .filter((cells) => cells.length === 3)
  .map(([type = '', action = '', output = '']) => ({
    type: unquote(type),
    action,
    output: [...output.matchAll(/`(\w+)`/g)].map(([, name]) => name),
  }))
const actionRows = rows.filter((cells) => cells.length === 2).map(([action = '']) => action)

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
const samples: Record<string, [before: Fields[], fields: Fields]> = {
  'response.created': [[], {}],
  'response.queued': [[], {}],
  'response.in_progress': [[], {}],
  'response.output_item.added': [[], { item: wireCall('c') }],
  'response.output_item.done': [[added(wireCall('c'))], { item: wireCall('c') }],
  'response.content_part.added': [[], { part: { type: 'output_text', text: '' } }],
  'response.content_part.done': [[open], part],
  'response.output_text.delta': [[open], delta],
  'response.output_text.done': [[open], { text: 'Hi', output_index: 0 }],
  'response.refusal.delta': [[open], delta],
  'response.refusal.done': [[open], { refusal: 'Hi', output_index: 0 }],
  'response.reasoning_text.delta': [[openReasoning], delta],
  'response.reasoning_text.done': [[openReasoning], { text: 'Hi', output_index: 0 }],
  'response.reasoning_summary_part.added': [[], { part: { type: 'summary_text', text: '' } }],
  'response.reasoning_summary_part.done': [[openReasoning], summary],
  'response.reasoning_summary_text.delta': [[openReasoning], delta],
  'response.reasoning_summary_text.done': [[openReasoning], { text: 'Hi', output_index: 0 }],
  'response.function_call_arguments.delta': [[added(wireCall('c'))], { call_id: 'c', delta: '{' }],
  'response.function_call_arguments.done': [[added(wireCall('c'))], { call_id: 'c' }],
  'response.completed': [[], {}],
  'response.done': [[], {}],
  'response.incomplete': [[], {}],
  'response.failed': [[], {}],
  'response.error': [[], {}],
  error: [[], {}],
}

/** The types of the payloads that a notification gives in a response that is open. */
function outputOf(type: string): string[] {
  const sample = samples[type]
  if (sample === undefined) throw new Error(`no sample of ${type}`)
  const [before, fields] = sample
  const translation = translateResponseNotifications(context)
  const begin = type === 'response.created' ? [] : [note('created')]
  for (const each of [...begin, ...before]) translation.translate(each)
  return translation.translate({ type, ...fields }).map((payload) => payload.type)
}

describe('the table of types', () => {
  test('has a row for each type that the router knows, with its action, and no other', () => {
    const documented = typeRows.map(({ type, action }) => [type, action])
    expect(documented).toEqual([...NOTIFICATION_ROUTES])
  })

  test.each(typeRows)('$type gives what its row says', ({ type, output }) => {
    expect(outputOf(type)).toEqual(output)
  })

  test('explains every action, and no other', () => {
    const used = NOTIFICATION_ROUTES.values()
    expect(actionRows.toSorted()).toEqual([...new Set(used)].toSorted())
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
    tableRows(section(doc, 'Fields')).map(([field = '', names = '']) => [
      field,
      names.split(', ').map(unquote),
    ]),
  )
  const namesOf = (field: string) => aliases.get(field) ?? []
  test('has the fields that are tested here', () => {
    expect([...aliases.keys()]).toEqual([
      'the item',
      'the name of a call',
      'the arguments of a call',
      'which call',
      'a fragment of arguments',
      'which text',
    ])
  })

  test.each(namesOf('the item'))('the item is read from %s', (name) => {
    const events = [note('output_item.done', { [name]: item({ name: 'f', arguments: '{}' }) })]
    expect(itemsOf(events)).toMatchObject([{ type: 'function_call', call_id: 'c', name: 'f' }])
  })

  test.each(namesOf('the name of a call'))('its name is read from %s', (path) => {
    expect(itemsOf([note('output_item.done', { item: item(nested(path, 'f')) })])).toMatchObject([
      { name: 'f' },
    ])
  })

  test.each(namesOf('the arguments of a call'))('its arguments are read from %s', (path) => {
    const events = [note('output_item.done', { item: item(nested(path, '{"b":2}')) })]
    expect(itemsOf(events)).toMatchObject([{ arguments: '{"b":2}' }])
  })

  test.each(namesOf('which call'))('a call is known by %s', (name) => {
    const first = added(item({ id: 'fc', name: 'f' }), { output_index: 4 })
    const second = added({ type: 'function_call', call_id: 'd', name: 'g' }, { output_index: 5 })
    const named = fragment({ [name]: ids[name as keyof typeof ids] })
    expect(itemsOf([first, second, named])).toMatchObject([{ arguments: '{"a":1}' }, { name: 'g' }])
  })

  test.each(namesOf('a fragment of arguments'))('a fragment is read from %s', (name) => {
    expect(itemsOf([added(item({})), fragment({ call_id: 'c' }, name)])).toMatchObject([
      { arguments: '{"a":1}' },
    ])
  })

  test.each(namesOf('which text'))('text is known by %s', (name) => {
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
