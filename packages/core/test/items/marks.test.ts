import { describe, expect, test } from 'vitest'
import { EXECUTED_BY_PROVIDER, isExecutedByProvider, isRefusal } from '../../src/items/marks.ts'

describe('marks in provider_metadata', () => {
  test.each([
    [undefined, false],
    [{}, false],
    [{ executed_by: 'client' }, false],
    [{ vendor: { executed_by: EXECUTED_BY_PROVIDER } }, false],
    [{ executed_by: EXECUTED_BY_PROVIDER, vendor: {} }, true],
  ])('%j: executed by the provider is %s', (metadata, expected) => {
    expect(isExecutedByProvider(metadata)).toBe(expected)
  })

  test.each([
    [undefined, false],
    [{}, false],
    [{ refusal: true }, false],
    [{ vendor: { refusal: 'true' } }, false],
    [{ vendor: null, other: [{ refusal: true }] }, false],
    [{ vendor: {}, other: { refusal: true } }, true],
  ])('%j: a refusal is %s', (metadata, expected) => {
    expect(isRefusal(metadata)).toBe(expected)
  })
})
