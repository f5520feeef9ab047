/** Which described of an error a log may have: none of what was asked and answered, unless an operator wants it. */

import { describe, expect, test } from 'vitest'
import * as z from 'zod'
import {
  ERROR_CODES,
  type ErrorCode,
  ResponseStreamError,
  TurnstreamError,
} from '../../../../core/src/index.ts'
import { decode } from '../../../../core/src/schemas/decode.ts'
import { describeError, describeErrorWithoutContent } from '../../../src/cli/serve/logger.ts'

const CONTENT = 'Where is the treasure'

function thrownBy(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  throw new Error('it did not throw')
}

/** What holds content, made as it comes about. */
const FOREIGN: Record<string, unknown> = {
  'a parser that quotes': thrownBy(() => JSON.parse(CONTENT)),
  'a parser that quotes what has quotes': thrownBy(() => JSON.parse(`"a" ${CONTENT} "b"`)),
  'a tool': new Error(`no city ${CONTENT}`),
  'a message with a line that looks like a place': new Error(`x\n    at ${CONTENT}\n`),
  'a schema': thrownBy(() => z.literal('a').parse(CONTENT)),
  'a schema with names that were sent': thrownBy(() => z.strictObject({}).parse({ [CONTENT]: 1 })),
  'a name that cannot be used': thrownBy(() => new Headers({ [CONTENT]: 'x' })),
  'a value that cannot be used': thrownBy(() => new Headers({ a: `${CONTENT}\n.` })),
  'an argument': thrownBy(() => new URL(CONTENT)),
  'an argument of Node': thrownBy(() => Buffer.alloc(CONTENT as unknown as number)),
  'a Redis that repeats arguments': new TurnstreamError(
    'STORE_FAILED',
    `ERR unknown command 'X', with args beginning with: '${CONTENT}' 'b'`,
  ),
  'a stream error with a code of its thrower': new ResponseStreamError(CONTENT, 'MY_CODE'),
  'a word that somebody threw': CONTENT,
  'an object that somebody threw': { message: CONTENT },
  nothing: undefined,
  'an object without anything': Object.create(null) as unknown,
}

describe('prompts and answers are not in the description of', () => {
  test.each(Object.entries(FOREIGN))('%s', (_name, error) => {
    expect(JSON.stringify(describeErrorWithoutContent(error))).not.toContain('treasure')
    const cause = new TurnstreamError('TOOL_FAILED', CONTENT, { cause: error })
    expect(JSON.stringify(describeErrorWithoutContent(cause))).not.toContain('treasure')
    const inner = new TurnstreamError('STORE_FAILED', 'x', { cause })
    expect(JSON.stringify(describeErrorWithoutContent(inner))).not.toContain('treasure')
  })

  test.each(
    (Object.keys(ERROR_CODES) as ErrorCode[]).filter((code) =>
      /^(UPSTREAM|TOOL_FAILED|STREAM_ERROR|INTERNAL|REQUEST|COLLECTION)/.test(code),
    ),
  )('%s', (code) => {
    const described = describeErrorWithoutContent(new TurnstreamError(code, `it said ${CONTENT}`))
    expect(described).toEqual({ code, message: ERROR_CODES[code].summary })
  })

  test('the reason from a schema, behind an error code', () => {
    const decoded = decode(z.object({ a: z.enum(['b']) }), { a: CONTENT })
    const error = new TurnstreamError('EVENT_INVALID', decoded.ok ? '' : decoded.reason)
    expect(describeErrorWithoutContent(error).message).toContain('a: Invalid')
    expect(describeErrorWithoutContent(error).message).not.toContain('treasure')
  })
})

describe('keeps for operators', () => {
  test('the class of an error and where it was thrown', () => {
    expect(describeErrorWithoutContent(new RangeError('too much'))).toEqual({
      message: 'too much',
      at: expect.stringContaining('error-descriptions.test.ts'),
    })
    expect(describeErrorWithoutContent(FOREIGN['a parser that quotes'])).toEqual({
      message: 'SyntaxError; message not logged',
      at: expect.stringMatching(/^at /),
    })
  })

  test('system error messages', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6379'), {
      code: 'ECONNREFUSED',
    })
    expect(
      describeErrorWithoutContent(new TurnstreamError('STORE_UNAVAILABLE', 'x', { cause })),
    ).toEqual({
      message: 'The store is unavailable: x',
      code: 'STORE_UNAVAILABLE',
      cause: 'connect ECONNREFUSED 127.0.0.1:6379',
    })
  })

  test('where a tool failed', () => {
    const described = describeErrorWithoutContent(
      new TurnstreamError('TOOL_FAILED', 'weather: x', { cause: new Error('x') }),
    )
    expect(described).toEqual({
      message: 'The tool failed',
      code: 'TOOL_FAILED',
      cause: 'Error; message not logged',
      at: expect.stringContaining('error-descriptions.test.ts'),
    })
  })
})

describe('in full', () => {
  test.each(Object.entries(FOREIGN))('nothing throws for %s', (_name, error) => {
    expect(describeError(error).message).toEqual(expect.any(String))
  })

  test('a message is kept unchanged', () => {
    expect(describeError(new Error(CONTENT)).message).toBe(CONTENT)
    expect(describeError(CONTENT).message).toBe(CONTENT)
  })
})
