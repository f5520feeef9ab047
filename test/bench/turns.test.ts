import { expect, test } from 'vitest'
import { itemStart, messageTurn, sortableId, TEXT, tokenDeltas } from '../../bench/turns.mjs'
import { estimateTokenCount, isStreamEvent } from '../../packages/core/src/index.ts'

test('the deltas are valid events of one token each, with unique ids', () => {
  const deltas = tokenDeltas(2500, 32)
  expect(deltas).toHaveLength(2500)
  expect(deltas.every(isStreamEvent)).toBe(true)
  expect(new Set(deltas.map(({ event_id }) => event_id)).size).toBe(2500)
  for (const { payload } of deltas) {
    expect(estimateTokenCount('delta_content' in payload ? payload.delta_content : '')).toBe(1)
  }
})

test('they rotate over the items', () => {
  const counts = new Map<string, number>()
  for (const { payload } of tokenDeltas(320, 32)) {
    if (!('item_id' in payload)) throw new Error('not a delta')
    counts.set(payload.item_id, (counts.get(payload.item_id) ?? 0) + 1)
  }
  expect([...counts.values()]).toEqual(Array.from({ length: 32 }, () => 10))
  expect(isStreamEvent(itemStart('item-0', 'message', 'text'))).toBe(true)
})

test('a turn of messages has an item at fixed intervals, with ids that sort', () => {
  const turn = messageTurn(200, 50, sortableId)
  expect(turn.every(isStreamEvent)).toBe(true)
  expect(turn.filter(({ type }) => type === 'item_start')).toHaveLength(4)
  expect(turn.filter(({ type }) => type === 'item_delta')).toHaveLength(196)
  for (const [index, { event_id }] of turn.entries()) {
    expect(event_id > (turn[index - 1]?.event_id ?? '')).toBe(true)
  }
  for (const { payload } of turn) {
    expect(Object.values(payload)).toContain(TEXT)
  }
})
