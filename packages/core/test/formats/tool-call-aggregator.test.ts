import { describe, expect, test } from 'vitest'
import { ToolCallAggregator } from '../../src/index.ts'

type Notification = { type: string; [field: string]: unknown }
type Fields = Record<string, unknown>

function added(item: Fields, more: Fields = {}): Notification {
  return { type: 'response.output_item.added', item: { type: 'function_call', ...item }, ...more }
}
function done(item: Fields, more: Fields = {}): Notification {
  return { ...added(item, more), type: 'response.output_item.done' }
}
function delta(fragment: unknown, more: Fields): Notification {
  return { type: 'response.function_call_arguments.delta', delta: fragment, ...more }
}
function argsDone(more: Fields): Notification {
  return { type: 'response.function_call_arguments.done', ...more }
}

/** The calls that are whole after these notifications: id, name, arguments. */
function callsOf(...notifications: Notification[]): string[] {
  const aggregator = new ToolCallAggregator()
  for (const notification of notifications) aggregator.ingestDelta(notification)
  return drained(aggregator)
}

function drained(aggregator: ToolCallAggregator): string[] {
  return aggregator.drainCompletedCalls().map(({ id, name, args }) => `${id} ${name} ${args}`)
}

const f = { id: 'fc_1', call_id: 'call_1', name: 'f' }

describe('T1 a call is found under all its names', () => {
  const rows: [name: string, more: Fields][] = [
    ['call_id', { call_id: 'call_1' }],
    ['item_id', { item_id: 'fc_1' }],
    ['output_index', { output_index: 0 }],
    ['id', { id: 'fc_1' }],
    ['an item_id that is new each time, with the output_index', { item_id: 'x', output_index: 0 }],
    ['the call_id under the name of the item_id', { item_id: 'call_1' }],
  ]

  test.each(rows)('%s', (_, more) => {
    const whole = done({ id: 'fc_1', call_id: 'call_1' }, { output_index: 0 })
    const pieces = [delta('{"n":', more), delta('1}', more), argsDone(more), whole]
    expect(callsOf(added(f, { output_index: 0 }), ...pieces)).toEqual(['call_1 f {"n":1}'])
  })

  test.each([
    ['the call_id', { call_id: 'call_1' }, {}],
    ['the id of the item', { id: 'fc_1' }, {}],
    ['the call_id under the name of the id', { id: 'call_1' }, {}],
    ['call_id beside the item', {}, { call_id: 'call_1' }],
    ['item_id beside the item', {}, { item_id: 'fc_1' }],
    ['item_id beside an item with another id', { id: 'fc_x' }, { item_id: 'fc_1' }],
    ['call_id beside an item with another id', { id: 'fc_x' }, { call_id: 'call_1' }],
    ['output_index beside an item with another id', { id: 'fc_x' }, { output_index: 0 }],
  ])('output_item.done reaches it by %s', (_, item, more) => {
    const first = [added(f, { output_index: 0 }), delta('[1]', { item_id: 'fc_1' })]
    const other = added({ id: 'fc_2', call_id: 'call_2', name: 'g' }, { output_index: 1 })
    expect(callsOf(...first, other, done(item, more))).toEqual(['call_1 f [1]'])
  })

  test.each<[string, Fields]>([
    ['its call_id in an item without a type', { item: { call_id: 'call_1' } }],
    ['its id in an item without a type', { outputItem: { id: 'fc_1' } }],
    ['its call_id in an item with a null type', { item: { type: null, call_id: 'call_1' } }],
    ['call_id beside an empty item', { item: {}, call_id: 'call_1' }],
    ['call_id without an item', { call_id: 'call_1' }],
    ['item_id without an item', { item_id: 'fc_1' }],
    ['output_index without an item', { output_index: 0 }],
  ])('output_item.done completes it by %s', (_, fields) => {
    const first = [added(f, { output_index: 0 }), delta('[1]', { item_id: 'fc_1' })]
    const other = added({ id: 'fc_2', call_id: 'call_2', name: 'g' }, { output_index: 1 })
    const end = { type: 'response.output_item.done', ...fields }
    expect(callsOf(...first, other, end, end)).toEqual(['call_1 f [1]'])
  })

  test.each<[string, Notification[], id: string]>([
    [
      'call_id beside the item',
      [added({ name: 'f' }, { call_id: 'call_1' }), delta('[1]', { call_id: 'call_1' })],
      'call_1',
    ],
    [
      'item_id beside the item',
      [added({ name: 'f' }, { item_id: 'fc_1' }), delta('[1]', { item_id: 'fc_1' })],
      'fc_1',
    ],
    [
      'call_id of a fragment',
      [
        added({ name: 'f' }, { output_index: 0 }),
        delta('[1]', { call_id: 'call_1', output_index: 0 }),
      ],
      'call_1',
    ],
    [
      'call_id beside the item that is done',
      [added({ name: 'f' }, { output_index: 0 }), delta('[1]', { output_index: 0 })],
      'call_1',
    ],
  ])('it has the id that stands as %s', (_, first, id) => {
    const ids = id === 'fc_1' ? { item_id: id } : { call_id: id }
    const end = done({}, { ...ids, output_index: 0 })
    expect(callsOf(...first, end)).toEqual([`${id} f [1]`])
  })

  test.each<Fields>([
    {},
    { item: {} },
    { item: { id: 'msg_1' } },
    { call_id: 'call_9' },
    { item: { type: 'message', id: 'fc_1' } },
  ])('output_item.done with %j completes nothing', (fields) => {
    const end = { type: 'response.output_item.done', ...fields }
    expect(callsOf(added(f), end)).toEqual([])
  })

  test.each(['item', 'output_item', 'outputItem'])('its item may be called %s', (name) => {
    const { item, ...rest } = added(f)
    expect(callsOf({ ...rest, [name]: item }, done(f))).toEqual(['call_1 f {}'])
  })

  test('a fragment without a name belongs to the last opened call', () => {
    expect(callsOf(added(f), delta('{}', {}), done(f))).toEqual(['call_1 f {}'])
  })

  test('items that are not calls are ignored', () => {
    const message = { type: 'message', id: 'msg_1' }
    expect(callsOf(added(message), done(message))).toEqual([])
  })
})

describe('T2 arguments', () => {
  const at = { item_id: 'fc_1' }
  const rows: [name: string, notifications: Notification[], expected: string][] = [
    ['come as deltas', [delta('{"n"', at), delta(':1}', at), argsDone(at)], '{"n":1}'],
    [
      'come under the name arguments_delta',
      [{ type: 'response.function_call_arguments.delta', arguments_delta: '{}', ...at }],
      '{}',
    ],
    ['come only with .done', [argsDone({ ...at, arguments: '{"n":1}' })], '{"n":1}'],
    [
      'are the final text where that differs',
      [delta('{"n":', at), argsDone({ ...at, arguments: '{"n":2}' })],
      '{"n":2}',
    ],
    [
      'are not lost to an empty final text',
      [delta('{"n":1}', at), argsDone({ ...at, arguments: '' })],
      '{"n":1}',
    ],
    [
      'keep fragments that are alike',
      [delta('{"n":', at), delta('1', at), delta('1', at), delta('}', at)],
      '{"n":11}',
    ],
    ['are an empty object when there are none', [], '{}'],
    ['do not grow after .done', [argsDone({ ...at, arguments: '{}' }), delta('late', at)], '{}'],
    ['are not changed by what is no text', [delta(7, at), delta(null, at), delta('{}', at)], '{}'],
  ]

  test.each(rows)('%s', (_, notifications, expected) => {
    expect(callsOf(added(f), ...notifications, done(f))).toEqual([`call_1 f ${expected}`])
  })

  test('arrive with output_item.done only, and win there', () => {
    const whole = done({ ...f, arguments: '{"n":3}' })
    expect(callsOf(added(f), whole)).toEqual(['call_1 f {"n":3}'])
    expect(callsOf(added(f), delta('{', at), whole)).toEqual(['call_1 f {"n":3}'])
    expect(callsOf(whole)).toEqual(['call_1 f {"n":3}'])
  })

  test('are empty before the end', () => {
    const aggregator = new ToolCallAggregator()
    const [opened] = aggregator.ingest(added(f))
    expect(opened).toMatchObject({ change: 'opened', call: { args: '', argsDone: false } })
    aggregator.ingest(argsDone(at))
    expect(opened?.call).toMatchObject({ args: '', argsDone: true, outputItemDone: false })
    aggregator.ingest(done(f))
    expect(opened?.call).toMatchObject({ args: '{}', argsDone: true, outputItemDone: true })
  })
})

describe('T3', () => {
  test('a name may come late', () => {
    expect(callsOf(added({ id: 'fc_1', call_id: 'call_1' }), done(f))).toEqual(['call_1 f {}'])
    const named = argsDone({ item_id: 'fc_1', name: 'g', arguments: '{}' })
    expect(callsOf(added({ id: 'fc_1', call_id: 'call_1' }), named, done(f))).toEqual([
      'call_1 g {}',
    ])
  })

  test('a name may be nested', () => {
    expect(callsOf(done({ call_id: 'a', function: { name: 'f', arguments: '[]' } }))).toEqual([
      'a f []',
    ])
  })

  test('a call without an id gets one', () => {
    const index = { output_index: 3 }
    expect(callsOf(added({ name: 'f' }, index), delta('{}', index), done({}, index))).toEqual([
      'call_0 f {}',
    ])
    expect(callsOf(done({ id: '', call_id: '', name: 'f' }))).toEqual(['call_0 f {}'])
  })

  test('an item id serves as call id', () => {
    expect(callsOf(done({ id: 'fc_1', name: 'f' }))).toEqual(['fc_1 f {}'])
  })

  test('a call id may come late, and no item id replaces it', () => {
    const index = { output_index: 0 }
    expect(callsOf(delta('{}', index), done(f, index))).toEqual(['call_1 f {}'])
    expect(callsOf(added(f), argsDone({ item_id: 'fc_1' }), done({ id: 'fc_1' }))).toEqual([
      'call_1 f {}',
    ])
  })

  test('a call keeps its first id', () => {
    const at = { output_index: 0 }
    const shifted = [argsDone({ ...at, call_id: 'x', arguments: '{}' }), done({ call_id: 'y' }, at)]
    expect(callsOf(added(f, at), ...shifted)).toEqual(['call_1 f {}'])
  })

  test('an unannounced call is opened by its first fragment', () => {
    const aggregator = new ToolCallAggregator()
    const changes = aggregator.ingest(delta('{', { item_id: 'fc_9' }))
    expect(changes.map(({ change }) => change)).toEqual(['opened', 'grown'])
  })

  test('names of a complete call may be reused', () => {
    const aggregator = new ToolCallAggregator()
    const at = { output_index: 0 }
    aggregator.ingestDelta(done({ call_id: 'a', name: 'f', arguments: '1' }, at))
    aggregator.ingestDelta(added({ call_id: 'b', name: 'g' }, at))
    expect(drained(aggregator)).toEqual(['a f 1'])
    aggregator.ingestDelta(delta('2', at))
    aggregator.ingestDelta(done({ call_id: 'b' }, at))
    expect(drained(aggregator)).toEqual(['b g 2'])
  })

  test('a new call id on the index of an open call is another call', () => {
    const at = { output_index: 0 }
    const first = [added({ call_id: 'a', name: 'f' }, at), delta('1', at)]
    const second = [added({ call_id: 'b', name: 'g' }, at), delta('2', at)]
    const ends = [done({ call_id: 'b' }), done({ call_id: 'a' })]
    expect(callsOf(...first, ...second, ...ends)).toEqual(['a f 1', 'b g 2'])
  })

  test('late data for a complete call opens nothing', () => {
    const aggregator = new ToolCallAggregator()
    aggregator.ingestDelta(done(f))
    expect(aggregator.ingest(delta('x', { item_id: 'fc_1' }))).toEqual([])
    expect(drained(aggregator)).toEqual(['call_1 f {}'])
  })
})

describe('T4 and A5 arguments are limited', () => {
  function limited() {
    const aggregator = new ToolCallAggregator({ maxArgumentChars: 5 })
    aggregator.ingestDelta(added(f, { output_index: 0 }))
    aggregator.ingestDelta(added({ call_id: 'b', name: 'g' }, { output_index: 1 }))
    return aggregator
  }

  test('to a million characters, exactly', () => {
    const aggregator = new ToolCallAggregator()
    aggregator.ingestDelta(added(f))
    aggregator.ingestDelta(delta('x'.repeat(1_000_000), { item_id: 'fc_1' }))
    expect(() => aggregator.ingestDelta(delta('x', { item_id: 'fc_1' }))).toThrow(
      expect.objectContaining({ code: 'TOOL_ARGUMENTS_TOO_LARGE' }),
    )
  })

  const rows: [name: string, notification: Notification][] = [
    ['a fragment', delta('123456', { output_index: 0 })],
    ['the text of .done', argsDone({ output_index: 0, arguments: '123456' })],
    ['the text of output_item.done', done({ ...f, arguments: '123456' })],
  ]

  test.each(rows)('%s over it throws, keeps other calls, and leaves a tombstone', (_, over) => {
    const aggregator = limited()
    expect(() => aggregator.ingestDelta(over)).toThrow(
      expect.objectContaining({
        code: 'TOOL_ARGUMENTS_TOO_LARGE',
        message: expect.stringContaining('the arguments of f exceed 5 characters'),
      }),
    )
    expect(aggregator.size).toBe(1)
    for (const late of [delta('1', { output_index: 0 }), argsDone({ item_id: 'fc_1' }), done(f)]) {
      expect(aggregator.ingest(late)).toEqual([])
    }
    aggregator.ingestDelta(delta('12345', { output_index: 1 }))
    aggregator.ingestDelta(done({ call_id: 'b' }))
    expect(drained(aggregator)).toEqual(['b g 12345'])
  })

  test('ingest returns the failure instead of throwing', () => {
    const changes = limited().ingest(delta('123456', { output_index: 0 }))
    expect(changes).toMatchObject([
      { change: 'failed', call: { id: 'call_1' }, error: { code: 'TOOL_ARGUMENTS_TOO_LARGE' } },
    ])
  })

  test('the tombstone lasts until the response ends', () => {
    const aggregator = limited()
    aggregator.ingest(delta('123456', { output_index: 0 }))
    expect(aggregator.ingest(added(f, { output_index: 0 }))).toEqual([])
    aggregator.reset()
    expect(aggregator.ingest(added(f, { output_index: 0 }))).toMatchObject([{ change: 'opened' }])
  })
})

describe('T5 a drain', () => {
  test('returns each call once, in start order', () => {
    const aggregator = new ToolCallAggregator()
    for (const call_id of ['a', 'b', 'c']) aggregator.ingestDelta(added({ call_id, name: 'f' }))
    aggregator.ingestDelta(done({ call_id: 'c' }))
    aggregator.ingestDelta(done({ call_id: 'a' }))
    expect(drained(aggregator)).toEqual(['a f {}', 'c f {}'])
    expect(drained(aggregator)).toEqual([])
    aggregator.ingestDelta(done({ call_id: 'b' }))
    expect(aggregator.drainCompletedCalls()).toMatchObject([{ id: 'b', index: 1 }])
  })

  test.each([
    ['output_item.done', done(f, { output_index: 0 })],
    ['output_item.done with another item id', done({ ...f, id: 'fc_x' })],
    ['output_item.done without a call id', done({ id: 'fc_1', name: 'f' })],
    ['arguments.done', argsDone({ item_id: 'fc_1', output_index: 0, arguments: '{}' })],
    ['a late fragment', delta('x', { item_id: 'fc_1', output_index: 0 })],
  ])('returns a call once, though the vendor repeats %s', (_name, repeated) => {
    const aggregator = new ToolCallAggregator()
    aggregator.ingestDelta(added(f, { output_index: 0 }))
    aggregator.ingestDelta(done(f, { output_index: 0 }))
    expect(drained(aggregator)).toEqual(['call_1 f {}'])
    expect(aggregator.ingest(repeated)).toEqual([])
    expect(drained(aggregator)).toEqual([])
    expect(aggregator.size).toBe(0)
  })

  test('frees the slot of a call, and its ids for a new call', () => {
    const aggregator = new ToolCallAggregator()
    aggregator.ingestDelta(done(f, { output_index: 0 }))
    expect(drained(aggregator)).toEqual(['call_1 f {}'])
    aggregator.ingestDelta(done({ call_id: 'call_2', name: 'g' }, { output_index: 0 }))
    expect(drained(aggregator)).toEqual(['call_2 g {}'])
    aggregator.ingestDelta(added(f, { output_index: 0 }))
    aggregator.ingestDelta(done(f, { output_index: 0 }))
    expect(drained(aggregator)).toEqual(['call_1 f {}'])
  })
})

test('T9 unknown types are reported once per type', () => {
  const unknown: string[] = []
  const aggregator = new ToolCallAggregator({ onUnknown: (type) => unknown.push(type) })
  for (const type of ['response.a', 'response.b', 'response.a', 'response.b']) {
    aggregator.ingestDelta({ type })
  }
  expect(unknown).toEqual(['response.a', 'response.b'])
  expect(() => new ToolCallAggregator().ingestDelta({ type: 'response.a' })).not.toThrow()
})

test('finishAll finishes open calls in order', () => {
  const aggregator = new ToolCallAggregator()
  aggregator.open(['x'], { id: 'a', name: 'f' })
  aggregator.open(['y'], { id: 'b', name: 'g' })
  aggregator.append(['y'], '[2]')
  aggregator.append(['x'], '[1]')
  expect(
    aggregator.finishAll().map(({ change, call }) => `${change} ${call.id} ${call.args}`),
  ).toEqual(['completed a [1]', 'completed b [2]'])
  expect(aggregator.size).toBe(0)
})
