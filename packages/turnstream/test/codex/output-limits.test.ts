import { describe, expect, test } from 'vitest'
import type { Incoming, Params } from '../../src/codex/connection.ts'
import { OutputLimits } from '../../src/codex/output-limits.ts'

function output(itemId: string, delta: unknown): Incoming {
  return { method: 'item/commandExecution/outputDelta', params: { itemId, delta }, size: 100 }
}

function completed(item: unknown): Incoming {
  return { method: 'item/completed', params: { item }, size: 100 }
}

function textsOf(limits: OutputLimits, messages: readonly Incoming[]): unknown[] {
  return messages.map((message) => limits.apply(message)?.params['delta'])
}

function itemOf(limits: OutputLimits, item: Params): unknown {
  return limits.apply(completed(item))?.params['item']
}

describe('streamed output', () => {
  const MARK = '\n[output truncated]\n'

  test.each([
    [
      'ends in the middle of a delta',
      ['abc', 'defg', 'h', 'i'],
      ['abc', `de${MARK}`, undefined, undefined],
    ],
    ['ends between two deltas', ['abcde', 'f', 'g'], ['abcde', MARK, undefined]],
    ['ends before half a character', ['abcd', '😀', 'e'], ['abcd', MARK, undefined]],
    ['is complete up to the limit', ['abc', 'de', ''], ['abc', 'de', '']],
  ])('%s', (_what, deltas, expected) => {
    const messages = deltas.map((delta) => output('c', delta))
    expect(textsOf(new OutputLimits(5), messages)).toEqual(expected)
  })

  test('is limited for each command', () => {
    const limits = new OutputLimits(2)
    const messages = [output('a', 'xxx'), output('b', 'yy'), output('a', 'x')]
    expect(textsOf(limits, messages)).toEqual([`xx${MARK}`, 'yy', undefined])
    limits.apply(completed({ id: 'a', type: 'commandExecution' }))
    expect(textsOf(limits, [output('a', 'z')])).toEqual(['z'])
  })

  test('that is malformed is left to the decoder', () => {
    expect(textsOf(new OutputLimits(2), [output('a', 7)])).toEqual([7])
  })
})

describe('a finished item', () => {
  test('keeps the beginning and the end of its output', () => {
    const limits = new OutputLimits(6)
    expect(itemOf(limits, { id: 'a', aggregatedOutput: 'abcdefghij' })).toEqual({
      id: 'a',
      aggregatedOutput: 'abc\n[4 characters omitted]\nhij',
    })
    expect(itemOf(limits, { id: 'a', aggregatedOutput: 'ab😀cdefgh😀ij' })).toEqual({
      id: 'a',
      aggregatedOutput: 'ab\n[8 characters omitted]\nij',
    })
    expect(itemOf(limits, { id: 'a', aggregatedOutput: null })).toEqual({
      id: 'a',
      aggregatedOutput: null,
    })
  })

  test('keeps the beginning and the end of each diff', () => {
    const changes = [{ path: 'a', diff: 'abcdefghij' }, { path: 'b', diff: 'ok' }, { path: 'c' }]
    expect(itemOf(new OutputLimits(4), { id: 'a', changes })).toEqual({
      id: 'a',
      changes: [
        { path: 'a', diff: 'ab\n[6 characters omitted]\nij' },
        { path: 'b', diff: 'ok' },
        { path: 'c' },
      ],
    })
  })

  test('and other messages pass unchanged', () => {
    const limits = new OutputLimits(1)
    for (const message of [
      completed(7),
      completed({ id: 'm', text: 'long' }),
      { method: 'x', params: {}, size: 1 },
    ]) {
      expect(limits.apply(message)).toBe(message)
    }
  })
})
