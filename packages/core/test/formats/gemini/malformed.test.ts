import { describe, expect, test } from 'vitest'
import { checkPayloads, outcomesOf } from '../outcome.ts'
import { call, event, stop, text, translate } from './events.ts'

describe('a malformed event ends the response with the reason', () => {
  const rows: [json: unknown, reason: string][] = [
    [null, 'it is not an object'],
    ['x', 'it is not an object'],
    [[[]], 'it is not an object'],
    [{ candidates: {} }, 'candidates is not an array'],
    [{ candidates: [7] }, 'an element of candidates is not an object'],
    [{ candidates: [{ content: 'x' }] }, 'candidates[0].content is not an object'],
    [{ candidates: [{ finishReason: 7 }] }, 'candidates[0].finishReason is not a string'],
    [{ candidates: [{ content: { parts: 'x' } }] }, 'content.parts is not an array'],
    [event([null]), 'an element of content.parts is not an object'],
    [text(7), 'the text of a part is not a string'],
    [event([{ functionCall: 'f' }]), 'functionCall is not an object'],
    [call({ name: 'f', args: 'x' }), 'functionCall.args is not an object'],
    [call({ args: {} }), 'functionCall has no name'],
    [call({ name: 'f', partialArgs: {} }), 'functionCall.partialArgs is not an array'],
    [
      call({ name: 'f', partialArgs: [{}] }),
      'an element of functionCall.partialArgs has no jsonPath',
    ],
    [event([{ executableCode: 'x' }]), 'executableCode is not an object'],
    [event([{ codeExecutionResult: 'x' }]), 'codeExecutionResult is not an object'],
  ]

  test.each(rows)('%j', (json, reason) => {
    const payloads = translate([text('Half'), json, text('lost'), stop])
    const [outcome, ...others] = outcomesOf(payloads)
    expect(outcome?.end).toBe(`error UPSTREAM_MALFORMED: GenerateContentResponse: ${reason}`)
    expect(others).toEqual([])
    checkPayloads(payloads)
  })

  test('except after the finish reason', () => {
    expect(outcomesOf(translate([text('All'), stop, null]))).toEqual([
      { items: ['message All'], end: 'complete stop (STOP)' },
    ])
  })
})

describe('an incomplete event is read as far as possible', () => {
  const rows: [name: string, json: unknown][] = [
    ['no index of the candidate', { candidates: [{ content: { parts: [{ text: 'x' }] } }] }],
    ['parts of null', { candidates: [{ content: { parts: null } }, { index: 1 }] }],
    ['no candidates', { candidates: null, usageMetadata: 7 }],
    ['feedback without a reason to block', { promptFeedback: { safetyRatings: [] } }],
  ]

  test.each(rows)('%s', (_, json) => {
    const [outcome] = outcomesOf(translate([json, stop]))
    expect(outcome?.end).toBe('complete stop (STOP)')
  })
})

describe("an error has the vendor's status and message", () => {
  const rows: [error: unknown, expected: string][] = [
    [{ code: 503, message: 'm', status: 'UNAVAILABLE' }, 'UNAVAILABLE: m'],
    [{ code: 503, message: 'm' }, '503: m'],
    ['m', 'error: m'],
    [{}, 'error: The provider reported an error without a message'],
  ]

  test.each(rows)('%j', (error, expected) => {
    const end = `error ${expected}`
    expect(outcomesOf(translate([{ error }]))).toEqual([{ items: [], end }])
    expect(outcomesOf(translate([[{ error }]]))).toEqual([{ items: [], end }])
    const late = translate([text('Half'), stop, { error }])
    expect(outcomesOf(late)[0]?.end).toBe(end)
  })
})
