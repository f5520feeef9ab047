import { describe, expect, test } from 'vitest'
import { checkPayloads, outcomesOf } from '../outcome.ts'
import { calls, chunk, DONE, role, stop, text, translate } from './chunks.ts'

describe('a malformed chunk ends the response with the reason', () => {
  const rows: [event: unknown, reason: string][] = [
    [null, 'it is not an object'],
    [[], 'it is not an object'],
    ['text', 'it is not an object'],
    [7, 'it is not an object'],
    [{ choices: 'x' }, 'choices is not an array'],
    [{ choices: [null] }, 'an element of choices is not an object'],
    [chunk('x'), 'choices[0].delta is not an object'],
    [chunk({}, 7), 'choices[0].finish_reason is not a string'],
    [text(7), 'delta.content is neither text nor parts'],
    [text([7]), 'a part of delta.content is not an object'],
    [chunk({ tool_calls: {} }), 'delta.tool_calls is not an array'],
    [calls(null), 'an element of delta.tool_calls is not an object'],
    [calls({ function: 'f' }), 'delta.tool_calls[].function is not an object'],
    [chunk({ function_call: 'f' }), 'delta.function_call is not an object'],
  ]

  test.each(rows)('%j', (event, reason) => {
    const payloads = translate([role, text('Half'), event, text('lost'), stop, DONE])
    const end = `error UPSTREAM_MALFORMED: chat.completion.chunk: ${reason}`
    expect(outcomesOf(payloads)).toEqual([{ items: ['message Half !UPSTREAM_MALFORMED'], end }])
    checkPayloads(payloads)
  })

  test('except after the finish reason', () => {
    expect(outcomesOf(translate([text('All'), stop, null, DONE]))).toEqual([
      { items: ['message All'], end: 'complete stop (stop)' },
    ])
  })

  test('even when it is the first', () => {
    expect(outcomesOf(translate([null]))).toEqual([
      { items: [], end: 'error UPSTREAM_MALFORMED: chat.completion.chunk: it is not an object' },
    ])
  })
})

describe('an incomplete chunk is read as far as possible', () => {
  const rows: [name: string, event: unknown][] = [
    ['no index of the choice', { choices: [{ delta: { content: 'x' } }] }],
    ['a message instead of a delta', { choices: [{ index: 0, message: { content: 'x' } }] }],
    ['text as parts', text([{ type: 'text', text: 'x' }, { type: 'image_url' }])],
    ['parts that are strings', text(['x'])],
    ['an empty role', chunk({ role: '', content: 'x' })],
    ['a finish reason of no characters', chunk({ content: 'x' }, '')],
    ['a call that is none', chunk({ content: 'x', tool_calls: null })],
    ['reasoning that is no text', chunk({ content: 'x', reasoning: { effort: 'low' } })],
  ]

  test.each(rows)('%s', (_, event) => {
    expect(outcomesOf(translate([event, stop]))).toEqual([
      { items: ['message x'], end: 'complete stop (stop)' },
    ])
  })
})

describe("an error chunk has the server's code and message", () => {
  const rows: [error: unknown, expected: string][] = [
    [{ message: 'm', type: 't', code: 'c' }, 'c: m'],
    [{ message: 'm', type: 't', code: null }, 't: m'],
    [{ message: 'm', code: 503 }, '503: m'],
    [{ message: 'm' }, 'error: m'],
    ['overloaded', 'error: overloaded'],
    [{}, 'error: The provider reported an error without a message'],
  ]

  test.each(rows)('%j', (error, expected) => {
    const end = `error ${expected}`
    expect(outcomesOf(translate([{ error }]))).toEqual([{ items: [], end }])
    expect(outcomesOf(translate([{ error, choices: [] }, DONE]))).toEqual([{ items: [], end }])
    expect(outcomesOf(translate([{ choices: [{ index: 0, error }] }]))).toEqual([
      { items: [], end },
    ])
  })

  test('a null error is ignored', () => {
    const event = { ...text('x'), error: null }
    expect(outcomesOf(translate([event, stop]))[0]?.end).toBe('complete stop (stop)')
  })
})
