import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import { ToolCallAggregator } from '../../src/index.ts'

/** The ways in which a fragment may name its call. */
const NAMES = [
  (at: number) => ({ call_id: `call_${at}` }),
  (at: number) => ({ item_id: `fc_${at}` }),
  (at: number) => ({ output_index: at }),
  (at: number) => ({ item_id: `new_${at}`, output_index: at }),
]

test('random cuts and interleavings of N calls reassemble exactly', () => {
  const texts = fc.array(fc.string({ unit: 'grapheme', maxLength: 40 }), {
    minLength: 1,
    maxLength: 8,
  })
  fc.assert(
    fc.property(texts, fc.infiniteStream(fc.nat()), (args, random) => {
      const next = (below: number) => (random.next().value as number) % below
      const aggregator = new ToolCallAggregator()
      for (const at of args.keys()) {
        const item = {
          type: 'function_call',
          id: `fc_${at}`,
          call_id: `call_${at}`,
          name: `f${at}`,
        }
        aggregator.ingestDelta({ type: 'response.output_item.added', item, output_index: at })
      }
      const rest = args.map((text, at) => ({ text, at }))
      while (rest.length > 0) {
        const place = next(rest.length)
        const call = rest[place]
        if (call === undefined) throw new Error('out of range')
        const size = 1 + next(4)
        const name = NAMES[next(NAMES.length)]?.(call.at)
        if (call.text === '') {
          const item = { type: 'function_call', call_id: `call_${call.at}` }
          aggregator.ingestDelta({ type: 'response.output_item.done', item })
          rest.splice(place, 1)
          continue
        }
        const fragment = call.text.slice(0, size)
        call.text = call.text.slice(size)
        aggregator.ingestDelta({
          type: 'response.function_call_arguments.delta',
          delta: fragment,
          ...name,
        })
      }
      const calls = aggregator.drainCompletedCalls().map(({ id, args: whole }) => [id, whole])
      expect(calls).toEqual(args.map((text, at) => [`call_${at}`, text === '' ? '{}' : text]))
    }),
  )
})

test('no notification makes ingest throw', () => {
  const type = fc.constantFrom(
    'response.output_item.added',
    'response.function_call_arguments.delta',
    'response.function_call_arguments.done',
    'response.output_item.done',
    'response.other',
  )
  const name = fc.oneof(
    fc.constantFrom<unknown>('a', 'b', 0, 1, -1, 0.5, '', '__proto__'),
    fc.jsonValue(),
  )
  const item = fc.record(
    { type: fc.constant('function_call'), id: name, call_id: name, name, arguments: name },
    { requiredKeys: ['type'] },
  )
  const notification = fc
    .record(
      {
        item: fc.oneof(item, fc.jsonValue()),
        call_id: name,
        item_id: name,
        output_index: name,
        delta: name,
        arguments: name,
      },
      { requiredKeys: [] },
    )
    .chain((fields) => type.map((each) => ({ ...fields, type: each })))
  fc.assert(
    fc.property(fc.array(notification, { maxLength: 30 }), (notifications) => {
      const aggregator = new ToolCallAggregator({ maxArgumentChars: 10 })
      const opened = new Set<string>()
      for (const each of notifications) {
        for (const { change, key } of aggregator.ingest(each)) {
          expect(opened.has(key)).toBe(change !== 'opened')
          if (change === 'opened') opened.add(key)
          if (change === 'completed' || change === 'failed') opened.delete(key)
        }
      }
      expect(opened.size).toBe(aggregator.size)
      for (const call of aggregator.drainCompletedCalls()) expect(call.args).not.toBe('')
    }),
    { numRuns: caseCount(500) },
  )
})

test('T5 only the ids of the last 1,000 of 10,000 drained calls are kept', () => {
  const aggregator = new ToolCallAggregator()
  for (let at = 0; at < 10_000; at++) {
    const item = { type: 'function_call', id: `fc_${at}`, call_id: `call_${at}`, name: 'f' }
    aggregator.ingestDelta({ type: 'response.output_item.added', item, output_index: at })
    expect(aggregator.size).toBe(1)
    aggregator.ingestDelta({ type: 'response.output_item.done', item, output_index: at })
    expect(aggregator.drainCompletedCalls()).toHaveLength(1)
  }
  expect(aggregator.size).toBe(0)
  expect(aggregator.drainCompletedCalls()).toEqual([])
  // A name that is still known would belong to its old call, and open nothing.
  const type = 'response.function_call_arguments.delta'
  for (let at = 0; at < 9000; at += 99) {
    for (const name of [{ call_id: `call_${at}` }, { item_id: `fc_${at}` }, { output_index: at }]) {
      const [change] = aggregator.ingest({ type, delta: 'x', ...name })
      expect(change?.change).toBe('opened')
    }
  }
  for (let at = 9000; at < 10_000; at += 9) {
    expect(aggregator.ingest({ type, delta: 'x', call_id: `call_${at}` })).toEqual([])
    expect(aggregator.ingest({ type, delta: 'x', item_id: `fc_${at}` })).toEqual([])
  }
})
