import { describe, expect, test } from 'vitest'
import { TurnstreamError } from '../../../../core/src/index.ts'
import { redacting } from '../../../../core/src/protocol/redaction.ts'
import { createLogger } from '../../../src/cli/serve/logger.ts'
import { fakeTerminal } from '../fake-terminal.ts'

function loggerOf({ json = false, logContent = false, secrets = ['sk-secret'] } = {}) {
  const { terminal, errors } = fakeTerminal()
  const logger = createLogger(terminal, { json, logContent, redact: redacting(secrets) })
  return { logger, errors }
}

function lineOf(error: unknown, about = {}, options = {}): string {
  const { logger, errors } = loggerOf(options)
  logger.error(error, about)
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
      new TurnstreamError('STORE_FAILED', 'disk', {
        cause: systemError('EIO', 'EIO\nsecond line'),
      }),
      { requestId: 'r' },
      `${time} The store failed: disk code=STORE_FAILED requestId=r cause=EIO second line\n`,
    ],
    [
      'never repeats a secret',
      new TurnstreamError('STORE_FAILED', 'with sk-secret', {
        cause: systemError('EIO', 'redis://a:b@c and sk-secret'),
      }),
      { turnId: 'sk-secret', requestId: 'ts_0123456789' },
      `${time} The store failed: with [redacted] code=STORE_FAILED turnId=[redacted] requestId=[redacted] cause=redis://[redacted]@c and [redacted]\n`,
    ],
  ])('%s', (_name, error, about, line) => {
    expect(lineOf(error, about)).toBe(line)
  })

  test('that is unexpected is logged with its origin in one line', () => {
    const line = lineOf(new TypeError('x is not\na function'))
    expect(line).toMatch(/^\S+ x is not a function at=at .*logger\.test\.ts.*\n$/)
  })

  test('is one JSON object with --json', () => {
    const error = new TurnstreamError('STORE_FULL', 'sk-secret')
    const line = lineOf(error, { turnId: 't', requestId: 'r' }, { json: true })
    expect(JSON.parse(line)).toEqual({
      time,
      level: 'error',
      message: 'The store is full: [redacted]',
      code: 'STORE_FULL',
      turnId: 't',
      requestId: 'r',
    })
  })

  test('is logged in full with logContent, except secrets', () => {
    const error = new TurnstreamError('TOOL_FAILED', 'weather: no city "Ulm"', {
      cause: new Error('asked with sk-secret'),
    })
    expect(lineOf(error, {}, { logContent: true })).toBe(
      `${time} The tool failed: weather: no city "Ulm" code=TOOL_FAILED cause=asked with [redacted]\n`,
    )
    expect(lineOf(error)).not.toContain('Ulm')
  })

  test('is truncated to a readable length', () => {
    const line = lineOf(new TurnstreamError('STORE_FAILED', 'x'.repeat(1_000_000)))
    expect(line.length).toBeLessThan(2200)
  })
})

describe('a line', () => {
  test.each([true, false])('contains no line breaks whatever its content (JSON: %s)', (json) => {
    const { logger, errors } = loggerOf({ json })
    logger.info(`a\r\nb\u2028c\u001b[2Jd\u0000e\u202ef\u2066g`)
    logger.error(new TurnstreamError('STORE_FAILED', 'a\nb'), {
      turnId: 'x\ny',
      requestId: 'z\r\nw',
    })
    expect(errors().split('\n')).toHaveLength(3)
    expect(errors()).toContain('a b c [2Jd efg')
    expect(errors()).not.toMatch(/[^\P{Cc}\n]/u)
  })

  test('has its fields, redacted, with numbers as numbers', () => {
    const fields = { route: '/a', requestId: 'sk-secret\nx', status: 200 }
    const { logger, errors } = loggerOf()
    logger.info('request', fields)
    expect(errors()).toBe(`${time} request route=/a requestId=[redacted] x status=200\n`)
    const { logger: other, errors: json } = loggerOf({ json: true })
    other.info('request', fields)
    expect(JSON.parse(json())).toEqual({
      ...{ time, level: 'info', message: 'request' },
      ...{ route: '/a', requestId: '[redacted] x', status: 200 },
    })
  })

  test('is a warning by its level or its first word', () => {
    const { logger, errors } = loggerOf()
    logger.warn('the password can be seen')
    expect(errors()).toBe(`${time} warning: the password can be seen\n`)
    const { logger: other, errors: json } = loggerOf({ json: true })
    other.warn('the password can be seen')
    expect(JSON.parse(json())).toEqual({ time, level: 'warn', message: 'the password can be seen' })
  })

  test('stays valid JSON when a redacted secret needs escapes or has a line break', () => {
    const { logger, errors } = loggerOf({ json: true, secrets: ['"quoted\\', 'two\nlines'] })
    logger.info('it is "quoted\\ here, and two\nlines there')
    const message = 'it is [redacted] here, and [redacted] there'
    expect(JSON.parse(errors())).toEqual({ time, level: 'info', message })
  })
})

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}
