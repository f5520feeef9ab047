import { describe, expect, test } from 'vitest'
import { translateGemini } from '../../../src/index.ts'
import { checkPayloads, fixtureEvents, outcomesOf, responsesOf } from '../outcome.ts'
import { context } from '../replay.ts'
import { call, event, stop, text, translate, usage } from './events.ts'

function types(payloads: readonly { type: string }[]): string[] {
  return payloads.map(({ type }) => type)
}

describe('the end is emitted', () => {
  test('at the end of the input, with usage after the finish reason', () => {
    const translation = translateGemini(context)
    const late = usage({ promptTokenCount: 3, candidatesTokenCount: 2, totalTokenCount: 5 })
    for (const each of [text('Hi'), stop, late]) {
      expect(types(translation.translate(each))).not.toContain('response_done')
    }
    expect(translation.end()).toMatchObject([
      { type: 'item_done' },
      { type: 'response_done', usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } },
    ])
    expect(translation.end()).toEqual([])
  })

  test('before the event that starts a new response', () => {
    const translation = translateGemini(context)
    translation.translate(stop)
    const next = { ...text('Two'), responseId: 'r2' }
    expect(types(translation.translate(next))).toEqual([
      'response_done',
      'response_start',
      'item_start',
      'item_delta',
    ])
  })

  test('not for usage with another id', () => {
    const late = usage({ promptTokenCount: 1 }, { responseId: 'r2' })
    const [response, ...others] = responsesOf(translate([text('Hi'), stop, late]))
    expect(others).toEqual([])
    expect(response?.usage?.prompt_tokens).toBe(1)
  })

  test('once when more text follows the finish reason', () => {
    expect(outcomesOf(translate([event([{ text: 'One' }], 'STOP'), text(' two')]))).toEqual([
      { items: ['message One two'], end: 'complete stop (STOP)' },
    ])
  })

  test('even when the connection broke after the finish reason', () => {
    const translation = translateGemini(context)
    translation.translate(stop)
    expect(types(translation.end({ code: 'X', message: 'x' }))).toEqual(['response_done'])
  })

  test('as the known error without a finish reason', () => {
    const translation = translateGemini(context)
    translation.translate(text('Half'))
    const fault = { code: 'UPSTREAM_TIMEOUT', message: 'too slow' }
    expect(translation.end(fault)).toMatchObject([{ error: fault }, { error: fault }])
  })

  test('as truncated when nothing meaningful arrived', () => {
    const end = 'error UPSTREAM_TRUNCATED: The provider stream ended early'
    for (const events of [[], ['[DONE]'], [{ kind: 'ping' }]]) {
      expect(outcomesOf(translate(events))).toEqual([{ items: [], end }])
    }
  })

  test('once after an error, until another response starts', () => {
    const error = { error: { code: 500, message: 'oops', status: 'INTERNAL' } }
    const next = { ...event([{ text: 'Two' }], 'STOP'), responseId: 'r2' }
    const payloads = translate([text('One'), error, text('lost'), stop, error, next])
    expect(outcomesOf(payloads)).toEqual([
      { items: ['message One !INTERNAL'], end: 'error INTERNAL: oops' },
      { items: ['message Two'], end: 'complete stop (STOP)' },
    ])
  })
})

describe("the finish reason is normalised and the vendor's word kept", () => {
  const rows: [word: string, expected: string][] = [
    ['STOP', 'stop'],
    ['MAX_TOKENS', 'length'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['BLOCKLIST', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['SPII', 'content_filter'],
    ['IMAGE_SAFETY', 'content_filter'],
    ['LANGUAGE', 'other'],
    ['OTHER', 'other'],
    ['MALFORMED_FUNCTION_CALL', 'other'],
    ['UNEXPECTED_TOOL_CALL', 'other'],
    ['A_WORD_OF_TOMORROW', 'other'],
  ]

  test.each(rows)('%s', (word, expected) => {
    const end = `complete ${expected} (${word})`
    expect(outcomesOf(translate([event([], word)]))).toEqual([{ items: [], end }])
  })

  test('a call changes STOP to tool_calls, and nothing else', () => {
    const ends = ['STOP', 'MAX_TOKENS', 'SAFETY'].map(
      (word) => outcomesOf(translate([call({ name: 'f' }), event([], word)]))[0]?.end,
    )
    expect(ends).toEqual([
      'complete tool_calls (STOP)',
      'complete length (MAX_TOKENS)',
      'complete content_filter (SAFETY)',
    ])
  })
})

describe('usage', () => {
  const rows: [name: string, counts: Record<string, unknown>[], expected: unknown][] = [
    [
      'counts thoughts as written',
      [
        {
          promptTokenCount: 4,
          candidatesTokenCount: 3,
          thoughtsTokenCount: 9,
          totalTokenCount: 16,
        },
      ],
      { prompt_tokens: 4, completion_tokens: 12, total_tokens: 16, reasoning_tokens: 9 },
    ],
    [
      'says what was read from the cache',
      [{ promptTokenCount: 4, cachedContentTokenCount: 2 }],
      { prompt_tokens: 4, completion_tokens: 0, total_tokens: 4, cached_tokens: 2 },
    ],
    [
      'is the latest of each count, not the sum',
      [
        { promptTokenCount: 4, thoughtsTokenCount: 5, candidatesTokenCount: 1 },
        { promptTokenCount: 4, candidatesTokenCount: 3 },
      ],
      { prompt_tokens: 4, completion_tokens: 8, total_tokens: 12, reasoning_tokens: 5 },
    ],
    ['of impossible numbers is none', [{ promptTokenCount: -1, totalTokenCount: 'x' }], undefined],
  ]

  test.each(rows)('%s', (_, counts, expected) => {
    const events = counts.map((each) => usage(each))
    expect(responsesOf(translate([text('Hi'), ...events, stop]))[0]?.usage).toEqual(expected)
  })
})

describe('the metadata of an item', () => {
  const rows: [fixture: string, expected: unknown[]][] = [
    [
      'signature-at-the-end',
      [
        {
          google: {
            responseId: 'resp-A1',
            thoughtSignature: 'c2lnLTE=',
            parts: [{ length: 14 }, { length: 0, thoughtSignature: 'c2lnLTE=' }],
          },
        },
      ],
    ],
    [
      'signatures-of-two-texts',
      [
        {
          google: {
            responseId: 'resp-A1',
            thoughtSignature: 'c2lnLTE=',
            parts: [{ length: 4, thoughtSignature: 'c2lnLTE=' }, { length: 6 }],
          },
        },
        { google: { responseId: 'resp-A1', thoughtSignature: 'c2lnLTI=' } },
      ],
    ],
    ['function-call', [{ google: { responseId: 'resp-A1', thoughtSignature: 'c2lnLTE=' } }]],
    ['call-with-id', [{ google: { responseId: 'resp-A1', id: 'fc-77' } }]],
    [
      'code-execution-fails',
      [
        {
          executed_by: 'provider',
          google: {
            responseId: 'resp-A1',
            executableCode: { id: 'ce-1', language: 'PYTHON', code: '1/0' },
          },
        },
        {
          executed_by: 'provider',
          google: {
            responseId: 'resp-A1',
            codeExecutionResult: {
              id: 'ce-1',
              outcome: 'OUTCOME_FAILED',
              output: 'ZeroDivisionError',
            },
          },
        },
        { google: { responseId: 'resp-A1' } },
      ],
    ],
    [
      'inline-data',
      [
        { google: { responseId: 'resp-A1' } },
        {
          google: {
            responseId: 'resp-A1',
            attachments: [{ inlineData: { mimeType: 'image/png', data: 'iVBORw0KGgo=' } }],
          },
        },
        { google: { responseId: 'resp-A1' } },
      ],
    ],
    [
      'grounding',
      [
        {
          google: {
            responseId: 'resp-A1',
            groundingMetadata: {
              webSearchQueries: ['rain'],
              groundingChunks: [{ web: { uri: 'https://example.org', title: 'Example' } }],
            },
          },
        },
      ],
    ],
  ]

  test.each(rows)('keeps what the vendor needs back: %s', (fixture, expected) => {
    const [response] = responsesOf(translate(fixtureEvents('gemini', fixture)))
    expect(response?.output_items.map((item) => item.provider_metadata)).toEqual(expected)
  })

  test('keeps a signature that arrives alone', () => {
    const [response] = responsesOf(translate([event([{ thoughtSignature: 's' }], 'STOP')]))
    expect(response?.output_items).toMatchObject([
      { type: 'message', content: '', provider_metadata: { google: { thoughtSignature: 's' } } },
    ])
  })
})

test('the model is the one the vendor reports', () => {
  const payloads = translate([event([], 'STOP', { modelVersion: 'real' })])
  expect(responsesOf(payloads)[0]?.model_id).toBe('real')
})

test('unknown types are reported once per type', () => {
  const unknown: string[] = []
  const odd = event([{ hologram: {} }, { hologram: {}, thought: true }])
  translate([{ ping: 1 }, { ping: 2 }, {}, odd, odd, stop], {
    onUnknown: (type) => unknown.push(type),
  })
  expect(unknown).toEqual(['ping', 'an empty object', 'part.hologram'])
})

const partial = (stringValue: string) => ({
  partialArgs: [{ jsonPath: '$.s', stringValue }],
  willContinue: true,
})

test('A5 only an oversized call fails', () => {
  const payloads = translate(
    [
      call({ name: 'big', args: { s: 'x'.repeat(50) } }),
      call({ name: 'small', args: { n: 1 } }),
      call({ name: 'slow', willContinue: true }),
      call(partial('x'.repeat(50))),
      call({ name: 'last' }),
      stop,
    ],
    { maxArgumentChars: 20 },
  )
  expect(outcomesOf(payloads)).toEqual([
    {
      items: [
        'call call_run_1 big  !TOOL_ARGUMENTS_TOO_LARGE',
        'call call_run_2 small {"n":1}',
        'call call_run_3 slow  !TOOL_ARGUMENTS_TOO_LARGE',
        'call call_run_4 last {}',
      ],
      end: 'complete tool_calls (STOP)',
    },
  ])
  checkPayloads(payloads)
})

test('A5 a call that grows value by value fails at the limit', () => {
  const translation = translateGemini({ ...context, maxArgumentChars: 20 })
  translation.translate(call({ name: 'slow', willContinue: true }))
  expect(translation.translate(call(partial('x')))).toEqual([])
  expect(translation.translate(call(partial('x'.repeat(50))))).toMatchObject([
    { type: 'item_error', error: { code: 'TOOL_ARGUMENTS_TOO_LARGE' } },
  ])
})
