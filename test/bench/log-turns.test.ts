import { deflateRawSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { eventTexts, snapshotsOf, TOKEN_CHARS, turnOf } from '../../bench/log-turns.mjs'
import {
  DEFAULT_BATCH_GRADIENT,
  initialReducerState,
  isStreamEvent,
  reduce,
  toResponse,
} from '../../packages/core/src/index.ts'
import { eventIdsOf } from '../../packages/core/src/protocol/ids.ts'
import { streamOutputSchema } from '../../packages/core/src/schemas.ts'

test('a turn has valid events whose deltas of four characters form its text', () => {
  const turn = turnOf(7, 1000)
  const events = [...turn.events()]
  expect(events.filter((event) => !isStreamEvent(event))).toEqual([])
  const deltas = events.flatMap(({ payload }) =>
    payload.type === 'item_delta' ? [payload.delta_content] : [],
  )
  expect(new Set(deltas.map(({ length }) => length))).toEqual(new Set([TOKEN_CHARS]))
  expect(deltas).toHaveLength(1000)
  expect(deltas.join('')).toBe(turn.text)
  expect(Buffer.byteLength(turn.text)).toBe(4000)
})

test('a turn starts and ends once and reduces to a complete response', () => {
  const turn = turnOf(7, 100)
  const events = [...turn.events()]
  expect(events.map(({ type }) => type).filter((type) => type.startsWith('response_'))).toEqual([
    'response_start',
    'response_done',
  ])
  expect(events[0]?.type).toBe('response_start')
  expect(events.at(-1)?.type).toBe('response_done')
  const response = toResponse(events.reduce(reduce, initialReducerState()))
  expect(response).toMatchObject({ status: 'complete' })
  expect(response.output_items.map((item) => 'content' in item && item.content)).toEqual([
    'What is a turn?',
    turn.text,
  ])
})

test('its ids belong to the run, and its timestamps have a realistic pace', () => {
  const turn = turnOf(3, 500)
  const events = [...turn.events()]
  const nextId = eventIdsOf(turn.turnId)
  expect(events.map(({ event_id }) => event_id)).toEqual(events.map(() => nextId()))
  const steps = events.slice(1).map(({ timestamp }, index) => timestamp - events[index]!.timestamp)
  expect(Math.min(...steps)).toBeGreaterThanOrEqual(20)
  expect(Math.max(...steps)).toBeLessThanOrEqual(46)
})

test('the same number gives the same turn, byte for byte', () => {
  expect(eventTexts(turnOf(5, 200))).toEqual(eventTexts(turnOf(5, 200)))
  const turns = Array.from({ length: 500 }, (_, number) => turnOf(number, 20))
  expect(new Set(turns.map(({ turnId }) => turnId)).size).toBe(500)
  expect(new Set(turns.map(({ threadId }) => threadId)).size).toBe(500)
  expect(new Set(turns.map(({ text }) => text)).size).toBe(500)
})

test('the text compresses like prose, so no store has an advantage', () => {
  const ratio = (text: string) => text.length / deflateRawSync(text).length
  // Of the GPL 1 kB becomes 1.94 times as small, and 40 kB 2.91 times.
  expect(ratio(turnOf(0, 256).text)).toBeCloseTo(1.9, 0)
  expect(ratio(turnOf(0, 10_000).text)).toBeCloseTo(2.9, 0)
})

test('the text contains characters that JSON escapes', () => {
  const { text } = turnOf(1, 1000)
  expect(text).toMatch(/"/)
  expect(text).toMatch(/\n/)
})

test('its snapshots follow the default gradient, the last with the complete text', async () => {
  const turn = turnOf(2, 10_000)
  const messages = await snapshotsOf(turn)
  const outputs = messages.map(({ payload }) => streamOutputSchema.parse(JSON.parse(payload)))
  expect(outputs[0]?.type).toBe('turn_started')
  expect(outputs.at(-1)?.type).toBe('turn_complete')
  const answer = outputs.filter((output) => 'content' in output && output.itemId.endsWith(':1'))
  expect(answer.at(-1)).toMatchObject({ status: 'complete', content: turn.text })
  // 6,920 tokens are all steps of the gradient, then it goes on by its last one.
  expect(answer).toHaveLength(DEFAULT_BATCH_GRADIENT.length + 1 + 1)
  expect(new Set(messages.map(({ eventId }) => eventId)).size).toBe(messages.length)
})
