import { expect, test } from 'vitest'
import {
  countTokens,
  createRecording,
  emissionsAt,
  modelPaces,
  turnText,
} from '../../bench/gateway-turns.mjs'
import { ResponseReducer } from '../../packages/core/src/index.ts'

const PACE = { atOnce: 100, tokens: 30, perSecond: 30 }

test('a recording has its text token by token and complete at the end', () => {
  const recording = createRecording(PACE)
  const deltas = recording.flatMap(({ payload }) =>
    payload.type === 'item_delta' ? [payload.delta_content] : [],
  )
  expect(deltas).toHaveLength(130)
  expect(new Set(deltas).size).toBe(130)
  expect(deltas.join('')).toBe(turnText(PACE))
  const reducer = new ResponseReducer()
  for (const event of recording) reducer.apply(event)
  expect(reducer.response).toMatchObject({
    status: 'complete',
    output_items: [{ type: 'message', content: turnText(PACE) }],
  })
})

test('it keeps its pace: first tokens at once, the others at a fixed rate', () => {
  const times = createRecording(PACE).flatMap(({ type, timestamp }) =>
    type === 'item_delta' ? [timestamp] : [],
  )
  expect(times.slice(0, PACE.atOnce).every((time) => time === 0)).toBe(true)
  expect(times.at(-1)).toBeCloseTo(1000, 6)
  expect(times.toSorted((a, b) => a - b)).toEqual(times)
})

test('a text of any number of tokens is counted', () => {
  for (const tokens of [0, 1, 36, 37, 600, 2000]) {
    expect(countTokens(turnText({ ...PACE, atOnce: 0, tokens }))).toBe(tokens)
  }
})

test('all models of a pace have the same text', () => {
  const paces = Object.values(modelPaces(PACE))
  expect(new Set(paces.map(turnText))).toEqual(new Set([turnText(PACE)]))
  expect(new Set(paces.map(({ atOnce }) => atOnce)).size).toBeGreaterThan(15)
})

test('the emissions of a paced turn grow to its complete text, at most 3 s apart', async () => {
  const pace = { atOnce: 0, tokens: 600, perSecond: 30 }
  const emissions = await emissionsAt(pace)
  const texts = emissions.flatMap(({ output }) => output['content'] ?? []).map(String)
  expect(texts.map(countTokens)).toEqual(emissions.slice(1, -1).map(({ tokens }) => tokens))
  expect(texts.at(-1)).toBe(turnText(pace))
  const gaps = emissions
    .slice(1)
    .map(({ tokens }, index) => tokens - (emissions[index]?.tokens ?? 0))
  expect(Math.max(...gaps)).toBeLessThanOrEqual(3.1 * pace.perSecond)
})
