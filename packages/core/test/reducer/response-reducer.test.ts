import { describe, expect, test } from 'vitest'
import { ResponseReducer } from '../../src/index.ts'
import {
  delta,
  end,
  eventAt,
  eventsOf,
  heartbeat,
  message,
  open,
  responseTo,
  start,
} from './events.ts'

const turn = [start(), open('a'), delta('a', 'Hi'), end()]

describe('ResponseReducer', () => {
  test('equals reduce after every event', () => {
    const reducer = new ResponseReducer()
    for (const [index, event] of eventsOf(turn).entries()) {
      expect(reducer.apply(event).response).toEqual(responseTo(turn.slice(0, index + 1)))
    }
  })

  test('returns the same Response until a new event', () => {
    const reducer = new ResponseReducer()
    const first = reducer.apply(eventAt(0, open('a'))).response
    expect(reducer.response).toBe(first)
    expect(reducer.apply(eventAt(0, open('a'))).apply(eventAt(1, heartbeat)).response).toBe(first)
    const second = reducer.apply(eventAt(2, delta('a', 'Hi'))).response
    expect(second).not.toBe(first)
    expect(first.output_items).toEqual([message('a', '')])
  })

  test('starts empty, independent of others', () => {
    expect(new ResponseReducer().response).toEqual(responseTo([]))
  })
})
