import { describe, expect, test } from 'vitest'
import type { Submission } from '../../../core/src/formats/submission.ts'
import type { TurnstreamError } from '../../../core/src/index.ts'
import { answer, end } from './payloads.ts'
import { newRig, PROMPT, puppet } from './rig.ts'

const ENDED = [[...answer('a', 'x'), end()]]

interface Row {
  name: string
  first: Partial<Submission>
  second: Partial<Submission>
  result: 'same' | 'other' | 'SUBMIT_CONFLICT' | 'THREAD_BUSY'
}

const OTHER_PROMPT = { type: 'message', origin: 'user', content: 'Ho' } as const

const rows: Row[] = [
  { name: 'the same run and body', first: { runId: 'a' }, second: { runId: 'a' }, result: 'same' },
  {
    name: 'the same turn and body',
    first: { turnId: 'a' },
    second: { turnId: 'a' },
    result: 'same',
  },
  {
    name: 'either id names both',
    first: { turnId: 'a' },
    second: { runId: 'a' },
    result: 'same',
  },
  {
    name: 'both ids again',
    first: { turnId: 'a', runId: 'b' },
    second: { turnId: 'a', runId: 'b' },
    result: 'same',
  },
  {
    name: 'another trace',
    first: { runId: 'a', traceContext: { traceparent: '1' } },
    second: { runId: 'a', traceContext: { traceparent: '2' } },
    result: 'same',
  },
  {
    name: 'settings in another order',
    first: { runId: 'a', settings: { temperature: 1, topP: 0.5 } },
    second: { runId: 'a', settings: { topP: 0.5, temperature: 1 } },
    result: 'same',
  },
  {
    name: 'another prompt',
    first: { runId: 'a' },
    second: { runId: 'a', input: [OTHER_PROMPT] },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'another model',
    first: { runId: 'a', model: 'small' },
    second: { runId: 'a', model: 'large' },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'another agent',
    first: { runId: 'a', agentId: 'x' },
    second: { runId: 'a', agentId: 'y' },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'other settings',
    first: { runId: 'a' },
    second: { runId: 'a', settings: { temperature: 1 } },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'another thread',
    first: { runId: 'a', threadId: 'h' },
    second: { runId: 'a', threadId: 'i' },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'the run of another turn',
    first: { turnId: 'a', runId: 'b' },
    second: { turnId: 'c', runId: 'b' },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'the turn of another run',
    first: { turnId: 'a', runId: 'b' },
    second: { turnId: 'a', runId: 'c' },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'the run of another turn, alone',
    first: { turnId: 'a', runId: 'b' },
    second: { runId: 'b' },
    result: 'SUBMIT_CONFLICT',
  },
  {
    name: 'another turn of another thread',
    first: { runId: 'a', threadId: 'h' },
    second: { runId: 'b', threadId: 'i' },
    result: 'other',
  },
  {
    name: 'no ids at all',
    first: { input: [PROMPT] },
    second: { input: [PROMPT] },
    result: 'other',
  },
]

const whileRunning: Row[] = [
  ...rows,
  {
    name: 'another turn of the same thread',
    first: { runId: 'a', threadId: 'h' },
    second: { runId: 'b', threadId: 'h' },
    result: 'THREAD_BUSY',
  },
  {
    name: 'the same turn of the same thread',
    first: { runId: 'a', threadId: 'h' },
    second: { runId: 'a', threadId: 'h' },
    result: 'same',
  },
]

async function outcome(first: unknown, second: Promise<unknown>): Promise<string> {
  try {
    return JSON.stringify(await second) === JSON.stringify(first) ? 'same' : 'other'
  } catch (error) {
    return (error as TurnstreamError).code
  }
}

describe('W7 a second submit', () => {
  test.each(rows)('after the end: $name', async ({ first, second, result }) => {
    const { runner, settled } = newRig({ rounds: [...ENDED, ...ENDED] })
    const ids = await runner.submit({ input: [PROMPT], ...first })
    await settled()
    expect(await outcome(ids, runner.submit({ input: [PROMPT], ...second }))).toBe(result)
  })

  test.each(whileRunning)('while the first runs: $name', async ({ first, second, result }) => {
    const { runner } = newRig()
    const ids = await runner.submit({ input: [PROMPT], ...first })
    expect(await outcome(ids, runner.submit({ input: [PROMPT], ...second }))).toBe(result)
  })

  test.each(whileRunning)('at the same time: $name', async ({ first, second, result }) => {
    const { runner } = newRig()
    const submits = [first, second].map((each) => runner.submit({ input: [PROMPT], ...each }))
    const settled = await Promise.allSettled(submits)
    const [one, two] = settled.map((each) =>
      each.status === 'fulfilled'
        ? JSON.stringify(each.value)
        : (each.reason as TurnstreamError).code,
    )
    expect(one).toMatch(/^\{/)
    if (result === 'same') expect(two).toBe(one)
    else if (result === 'other') expect(two).not.toBe(one)
    else expect(two).toBe(result)
  })

  test.each(rows.filter(({ result }) => result !== 'other'))(
    'while the server shuts down: $name',
    async ({ first, second, result }) => {
      const { runner, settled } = newRig({ rounds: ENDED })
      const ids = await runner.submit({ input: [PROMPT], ...first })
      await settled()
      await runner.shutdown(0)
      expect(await outcome(ids, runner.submit({ input: [PROMPT], ...second }))).toBe(result)
    },
  )

  test('is the same turn also when another process runs it', async () => {
    const one = newRig()
    const ids = await one.submit({ threadId: 'h' })
    const other = newRig({ log: one.log, clock: one.clock })
    expect(await other.submit({ threadId: 'h' })).toEqual(ids)
    expect(other.runner.running).toBe(0)
  })

  test('is the same turn even if its provider is no longer configured', async () => {
    const one = newRig({ rounds: ENDED })
    const submission = { runId: 'r', providerId: 'puppet', input: [PROMPT] }
    const ids = await one.runner.submit(submission)
    await one.settled()
    const other = newRig({ log: one.log, provider: puppet([], 'another') })
    expect(await other.runner.submit(submission)).toEqual(ids)
    const next = other.runner.submit({ ...submission, runId: 's' })
    await expect(next).rejects.toMatchObject({ code: 'MODEL_UNKNOWN' })
  })
})
