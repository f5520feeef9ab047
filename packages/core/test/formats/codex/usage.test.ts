import { describe, expect, test } from 'vitest'
import { responsesOf } from '../outcome.ts'
import {
  counts,
  note,
  rawCompleted,
  tokenUsage,
  translate,
  turnCompleted,
  turnFailed,
  turnStarted,
} from './events.ts'

const usageOf = (...events: unknown[]) =>
  responsesOf(translate([turnStarted(), ...events, turnCompleted()])).at(-1)?.usage

describe('usage', () => {
  test('sums all responses of the turn, although codex repeats itself', () => {
    expect(
      usageOf(
        tokenUsage(counts(100, 10), counts(100, 10)),
        tokenUsage(counts(100, 10), counts(100, 10)),
        tokenUsage(counts(250, 30), counts(150, 20)),
      ),
    ).toMatchObject({ prompt_tokens: 250, completion_tokens: 30, total_tokens: 280 })
  })

  test('excludes earlier turns of the thread', () => {
    expect(usageOf(tokenUsage(counts(1000, 100), counts(50, 5)))).toMatchObject({
      prompt_tokens: 50,
      completion_tokens: 5,
      total_tokens: 55,
    })
  })

  test("of the next turn is the increase of the thread's total", () => {
    const payloads = translate([
      turnStarted(),
      tokenUsage(counts(100, 10), counts(100, 10)),
      turnCompleted(),
      turnStarted('v'),
      note('thread/tokenUsage/updated', {
        turnId: 'v',
        tokenUsage: { total: counts(160, 17), last: counts(0, 0) },
      }),
      turnCompleted('completed', { id: 'v' }),
    ])
    expect(responsesOf(payloads).map(({ usage }) => usage?.total_tokens)).toEqual([110, 67])
  })

  /** What codex writes in the place of its counts when a request did not fit. */
  const filled = (totalTokens: number) => ({ ...counts(0, 0), totalTokens })

  test('is not the context window, which codex reports as the total when it is exceeded', () => {
    const used = tokenUsage(counts(100, 10), counts(100, 10))
    for (const last of [filled(258_290), counts(0, 0)]) {
      expect(usageOf(used, tokenUsage(filled(258_400), last))).toMatchObject({
        prompt_tokens: 100,
        completion_tokens: 10,
        total_tokens: 110,
      })
      expect(usageOf(tokenUsage(filled(258_400), last))).toBeUndefined()
    }
  })

  test('continues after the context window was exceeded', () => {
    const payloads = translate([
      turnStarted(),
      tokenUsage(counts(100, 10), counts(100, 10)),
      tokenUsage(filled(258_400), filled(258_290)),
      turnFailed('too long', 'contextWindowExceeded'),
      turnStarted('v'),
      note('thread/tokenUsage/updated', {
        turnId: 'v',
        tokenUsage: {
          total: { ...counts(20, 5), totalTokens: 258_425 },
          last: counts(20, 5),
        },
      }),
      turnCompleted('completed', { id: 'v' }),
    ])
    expect(responsesOf(payloads).map(({ usage }) => usage)).toMatchObject([
      { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 },
      { prompt_tokens: 20, completion_tokens: 5, total_tokens: 25 },
    ])
  })

  test("is not codex's estimate after a compaction", () => {
    expect(
      usageOf(
        tokenUsage(counts(1000, 100), counts(100, 10)),
        tokenUsage(counts(1000, 100), filled(400)),
        tokenUsage(counts(1050, 105), counts(50, 5)),
      ),
    ).toMatchObject({ prompt_tokens: 150, completion_tokens: 15, total_tokens: 165 })
    expect(usageOf(tokenUsage(counts(1000, 100), filled(400)))).toBeUndefined()
  })

  test('sums the raw responses when codex reports nothing else', () => {
    expect(usageOf(rawCompleted(counts(10, 1)), rawCompleted(counts(20, 2)))).toMatchObject({
      prompt_tokens: 30,
      completion_tokens: 3,
      total_tokens: 33,
    })
  })

  test('includes a response that was not counted raw', () => {
    expect(
      usageOf(
        rawCompleted(counts(10, 1)),
        tokenUsage(counts(10, 1), counts(10, 1)),
        tokenUsage(counts(40, 4), counts(0, 0)),
      ),
    ).toMatchObject({ total_tokens: 44 })
  })

  test('includes cached and reasoning tokens', () => {
    const all = {
      ...counts(10, 5),
      cachedInputTokens: 4,
      cacheWriteInputTokens: 3,
      reasoningOutputTokens: 2,
    }
    expect(usageOf(tokenUsage(all, all))).toEqual({
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 15,
      cached_tokens: 4,
      cache_write_tokens: 3,
      reasoning_tokens: 2,
    })
  })

  test.each([
    ['absent', undefined],
    ['null', null],
    ['text', { inputTokens: '1', outputTokens: '2' }],
    ['negative', counts(-1, 2)],
    ['without end', { inputTokens: Infinity, outputTokens: 1 }],
    ['not a number', { inputTokens: Number.NaN, outputTokens: 1 }],
  ])('that is %s is ignored', (_, total) => {
    expect(usageOf(tokenUsage(total, total), rawCompleted(total))).toBeUndefined()
  })

  test('precedes the end of a failed or aborted turn', () => {
    const counted = tokenUsage(counts(1, 2), counts(1, 2))
    for (const end of [turnFailed('x'), turnCompleted('interrupted')]) {
      const payloads = translate([turnStarted(), counted, end])
      expect(payloads.at(-2)).toMatchObject({ type: 'usage_update', usage: { total_tokens: 3 } })
    }
  })
})
