import { describe, expect, test } from 'vitest'
import { METRICS, type MetricName } from '../../../src/server/metrics/definitions.ts'
import { call, finishedTurn, startServer } from '../support.ts'
import { parseExposition } from './exposition.ts'
import { SERVER_ROWS } from './server-rows.ts'
import { scrape } from './support.ts'
import { TURN_ROWS } from './turn-rows.ts'

/** Every metric says what it promises. */
const ROWS: Record<`turnstream_${MetricName}`, () => Promise<void>> = {
  ...TURN_ROWS,
  ...SERVER_ROWS,
}

/** The type of each metric. */
const TYPES = Object.fromEntries(
  Object.entries(METRICS).map(([name, { type }]) => [`turnstream_${name}`, type]),
)

// Real connections, on a machine that runs everything else at the same time.
const PATIENCE = { timeout: 30_000 }

describe('the metric', PATIENCE, () => {
  test.each(Object.entries(ROWS))('%s', async (_name, check) => {
    expect.hasAssertions()
    await check()
  })

  test('every metric is tested above', () => {
    expect(Object.keys(ROWS).toSorted()).toEqual(Object.keys(TYPES).toSorted())
  })
})

describe('the response', () => {
  test('is Prometheus text with exactly the defined metrics', async () => {
    const server = await startServer()
    await finishedTurn(server)
    const { status, headers, json } = await call(server, 'GET /metrics')
    expect([status, headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ])
    const { types } = parseExposition(json)
    expect(Object.fromEntries(types)).toEqual(TYPES)
  })

  test('is per gateway, even in one process', async () => {
    const [one, other] = [await startServer(), await startServer()]
    await finishedTurn(one)
    expect((await scrape(one)).get('turnstream_turns_started_total')).toBe(1)
    expect((await scrape(other)).get('turnstream_turns_started_total')).toBe(0)
    expect((await scrape(other)).get('turnstream_events_written_total')).toBe(0)
  })
})
