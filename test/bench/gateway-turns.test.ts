import { expect, test } from 'vitest'
import { recordingOf, textOf } from '../../bench/gateway-turns.mjs'
import { ResponseReducer } from '../../src/reducer/response-reducer.ts'

const PACE = { atOnce: 100, tokens: 30, perSecond: 30 }

test('a recording says its text token by token, and the same at its end', () => {
  const recording = recordingOf(PACE)
  const deltas = recording.flatMap(({ payload }) =>
    payload.type === 'item_delta' ? [payload.delta_content] : [],
  )
  expect(deltas).toHaveLength(130)
  expect(new Set(deltas).size).toBe(130)
  expect(deltas.join('')).toBe(textOf(PACE))
  const reducer = new ResponseReducer()
  for (const event of recording) reducer.apply(event)
  expect(reducer.response).toMatchObject({
    status: 'complete',
    output_items: [{ type: 'message', content: textOf(PACE) }],
  })
})

test('it has its pace: the first tokens at once, the others so many a second', () => {
  const times = recordingOf(PACE).flatMap(({ type, timestamp }) =>
    type === 'item_delta' ? [timestamp] : [],
  )
  expect(times.slice(0, PACE.atOnce).every((time) => time === 0)).toBe(true)
  expect(times.at(-1)).toBeCloseTo(1000, 6)
  expect(times.toSorted((a, b) => a - b)).toEqual(times)
})
