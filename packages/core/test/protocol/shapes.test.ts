import { describe, expect, test } from 'vitest'
import { generateEventId } from '../../src/index.ts'
import { ERROR_CODES, TurnstreamError, unreachable } from '../../src/protocol/errors.ts'
import { isRecord, parseJsonObject, parseJsonSafe } from '../../src/protocol/json.ts'

describe('P19 utilities', () => {
  test.each([
    ['{"a":1}', { a: 1 }],
    ['[1]', [1]],
    ['null', null],
    ['{"a"', '{"a"'],
    ['', ''],
  ])('parseJsonSafe(%j)', (text, value) => {
    expect(parseJsonSafe(text)).toEqual(value)
  })

  test.each([
    ['{"a":1}', { a: 1 }],
    ['[1]', undefined],
    ['null', undefined],
    ['{"a"', undefined],
  ])('parseJsonObject(%j)', (text, value) => {
    expect(parseJsonObject(text)).toEqual(value)
  })

  test('isRecord accepts only plain objects', () => {
    expect([{}, [], null, 'x', () => {}].map(isRecord)).toEqual([true, false, false, false, false])
  })

  test('generateEventId generates unique UUIDs', () => {
    const made = new Set(Array.from({ length: 100 }, generateEventId))
    expect(made.size).toBe(100)
    for (const id of made) expect(id).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  })
})

describe('errors', () => {
  test.each(Object.entries(ERROR_CODES))('%s has a status and a summary', (_code, row) => {
    expect(row.status).toBeGreaterThanOrEqual(400)
    expect(row.status).toBeLessThan(600)
    expect(row.summary).not.toBe('')
  })

  test('have their code, summary and cause', () => {
    const cause = new Error('below')
    const error = new TurnstreamError('EVENT_INVALID', 'no payload', { cause })
    expect(error).toMatchObject({ name: 'TurnstreamError', code: 'EVENT_INVALID', cause })
    expect(error.message).toBe('The event is malformed: no payload')
  })

  test('an impossible variant is reported', () => {
    expect(() => unreachable({ type: 'x' } as never)).toThrow('unhandled variant: {"type":"x"}')
  })
})
