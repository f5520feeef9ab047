import fc from 'fast-check'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { caseCount } from '../../../../test/case-count.ts'
import type { ItemSnapshot, StreamOutput } from '../../src/index.ts'
import { streamOutputSchema } from '../../src/schemas.ts'
import { runRules } from './scenario.ts'
import { setUp } from './sinks.ts'
import { type RandomTurn, randomTurn } from './turns.ts'

const unhandled: unknown[] = []
const note = (reason: unknown) => unhandled.push(reason)

beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})
afterEach(() => {
  process.off('unhandledRejection', note)
})

const TERMINALS = new Set(['turn_complete', 'turn_error'])

/** What a reader is promised, whatever the sink did. Answers whether every final text came through. */
function checkPromises(accepted: StreamOutput[], { streamed, finals }: RandomTurn): boolean {
  expect(accepted[0]?.type).toBe('turn_started')
  expect(accepted.filter(({ type }) => type === 'turn_started')).toHaveLength(1)
  expect(accepted.filter(({ type }) => TERMINALS.has(type))).toHaveLength(1)
  expect(TERMINALS.has(accepted.at(-1)?.type ?? '')).toBe(true)

  const latest = new Map<string, ItemSnapshot>()
  for (const output of accepted) {
    expect(streamOutputSchema.safeParse(output).success).toBe(true)
    if (!('itemId' in output)) continue
    const before = latest.get(output.itemId)
    latest.set(output.itemId, output)
    expect(['create', 'update']).toContain(before?.status ?? 'create')
    if (output.status === 'create') expect(before).toBeUndefined()
    if (output.status === 'update') expect(before).toBeDefined()
    if (output.type === 'tool_call') continue
    if (output.status === 'complete') {
      expect(output.content).toBe(finals.get(output.itemId))
      continue
    }
    const whole = streamed.get(output.itemId) ?? ''
    expect(whole.startsWith(output.content)).toBe(true)
    if (output.status === 'update') {
      expect(output.content.length).toBeGreaterThan(before?.content.length ?? 0)
    }
    if (output.status === 'error') expect(output.content).toBe(whole)
  }
  return [...finals.keys()].every((itemId) => latest.get(itemId)?.status === 'complete')
}

const options = fc.record({
  batchGradient: fc.constantFrom([], [1], [2, 3], [10, 10, 20]),
  batchTimeoutMs: fc.constantFrom(0, 5, 1000),
  maxLatencyMs: fc.constantFrom(0, 20, 3000),
})
const pauses = fc.array(fc.constantFrom(0, 0, 0, 1, 10, 1500), { minLength: 1, maxLength: 60 })

test('with any sink: content grows, one terminal, nothing after it, finals are final', async () => {
  await fc.assert(
    fc.asyncProperty(
      randomTurn,
      options,
      fc.nat({ max: 2 }),
      fc.array(fc.boolean(), { maxLength: 40 }),
      pauses,
      async (turn, shape, retryAttempts, failures, times) => {
        const { processor, clock, accepted } = setUp({ ...shape, retryAttempts }, async (count) => {
          await Promise.resolve()
          if (failures[count - 1] === true) throw new Error('down')
        })
        const taken: Promise<void>[] = []
        for (const [index, event] of turn.events.entries()) {
          taken.push(processor.processEvent(event))
          await clock.advance(times[index % times.length] ?? 0)
        }
        // Long enough for every backoff, then as often as a failing sink can demand.
        for (let tries = 0; tries <= failures.length; tries++) {
          await clock.advance(60_000)
          void processor.flush()
        }
        await clock.advance(60_000)
        const isWhole = checkPromises(accepted, turn)
        const outcomes = await Promise.allSettled(taken)
        // A text may be lost to a sink that is down for too long, but never without a word.
        if (!isWhole) expect(outcomes.map(({ status }) => status)).toContain('rejected')
        expect(clock.pending()).toBe(0)
      },
    ),
    { numRuns: caseCount(300) },
  )
  expect(unhandled).toEqual([])
})

test('with a slow sink and no awaiting: exactly the expected outputs, in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      randomTurn,
      options,
      fc.array(fc.nat({ max: 3 })),
      async (turn, shape, lags) => {
        const { processor, clock, accepted } = setUp(shape, async (count) => {
          for (let lag = lags[count % lags.length] ?? 0; lag > 0; lag--) await Promise.resolve()
        })
        for (const event of turn.events) void processor.processEvent(event)
        await clock.advance(0)
        const { shown } = runRules({ name: '', options: shape, script: turn.events, shows: [] })
        expect(accepted).toEqual(shown)
      },
    ),
    { numRuns: caseCount(300) },
  )
  expect(unhandled).toEqual([])
})

test('a sink that never accepts: nothing is emitted, every event settles, nothing leaks', async () => {
  await fc.assert(
    fc.asyncProperty(randomTurn, async (turn) => {
      const { processor, clock, accepted } = setUp({ retryAttempts: 0 }, () =>
        Promise.reject(new Error('down')),
      )
      const settled = Promise.allSettled(turn.events.map((event) => processor.processEvent(event)))
      await clock.advance(10_000)
      await settled
      await expect(processor.destroy()).rejects.toMatchObject({ code: 'RETRY_EXHAUSTED' })
      expect(accepted).toEqual([])
      expect(processor.getBufferState().size).toBe(0)
      expect(clock.pending()).toBe(0)
    }),
    { numRuns: caseCount(100) },
  )
  expect(unhandled).toEqual([])
})
