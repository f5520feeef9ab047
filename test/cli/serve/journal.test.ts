import { describe, expect, test } from 'vitest'
import { createJournal } from '../../../src/cli/serve/journal.ts'
import { redacting } from '../../../src/cli/serve/secrets.ts'
import { TurnstreamError } from '../../../src/protocol/errors.ts'
import { fakeTerminal } from '../fake-terminal.ts'

function lineOf(json: boolean, error: unknown, about = {}): string {
  const { terminal, errors } = fakeTerminal()
  const journal = createJournal(terminal, { json, redact: redacting(['sk-secret']) })
  journal.error(error, about)
  return errors()
}

const time = '1970-01-01T00:00:00.000Z'

describe('an error', () => {
  test.each([
    [
      'of ours has its code and what it is about',
      new TurnstreamError('STORE_FAILED', 'disk'),
      { turnId: 'turn-1' },
      `${time} The store failed: disk code=STORE_FAILED turnId=turn-1\n`,
    ],
    [
      'has what lies behind it',
      new TurnstreamError('STORE_FAILED', 'disk', { cause: new Error('EIO\nsecond line') }),
      { requestId: 'r' },
      `${time} The store failed: disk code=STORE_FAILED requestId=r cause=EIO second line\n`,
    ],
    ['may be no error at all', 'just a word', {}, `${time} just a word\n`],
    [
      'never repeats a secret',
      new TurnstreamError('STORE_FAILED', 'with sk-secret', { cause: new Error('sk-secret') }),
      {},
      `${time} The store failed: with [redacted] code=STORE_FAILED cause=[redacted]\n`,
    ],
  ])('%s', (_name, error, about, line) => {
    expect(lineOf(false, error, about)).toBe(line)
  })

  test('that nobody foresaw says where it was thrown, in one line', () => {
    const line = lineOf(false, new TypeError('x is not\na function'))
    expect(line).toMatch(/^\S+ x is not a function at=at .*journal\.test\.ts.*\n$/)
  })

  test('is one JSON object for programs', () => {
    const error = new TurnstreamError('STORE_FULL', 'sk-secret')
    expect(JSON.parse(lineOf(true, error, { turnId: 't', requestId: 'r' }))).toEqual({
      time,
      level: 'error',
      message: 'The store has no room left: [redacted]',
      code: 'STORE_FULL',
      turnId: 't',
      requestId: 'r',
    })
  })
})

test('a secret that JSON would write otherwise does not break the line', () => {
  const { terminal, errors } = fakeTerminal()
  const journal = createJournal(terminal, { json: true, redact: redacting(['"quoted\\']) })
  journal.info('it is "quoted\\ here')
  expect(JSON.parse(errors())).toEqual({ time, level: 'info', message: 'it is [redacted] here' })
})
