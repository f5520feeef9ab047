import { ErrorReply } from '@redis/client'
import { describe, expect, test } from 'vitest'
import { TurnstreamError } from '../../../../core/src/index.ts'
import {
  failureOf,
  parseEntries,
  parseEpochs,
  parseState,
  storeError,
  text,
} from '../../../src/log/redis/replies.ts'

describe('server replies', () => {
  test.each([
    ['OOM command not allowed when used memory > maxmemory', 'final', 'STORE_FULL'],
    ['NOSCRIPT No matching script', 'noscript', 'STORE_FAILED'],
    ['READONLY You can not write against a read only replica', 'passing', 'STORE_UNAVAILABLE'],
    ['LOADING Redis is loading the dataset in memory', 'passing', 'STORE_UNAVAILABLE'],
    ['MASTERDOWN Link with MASTER is down', 'passing', 'STORE_UNAVAILABLE'],
    ['CLUSTERDOWN The cluster is down', 'passing', 'STORE_UNAVAILABLE'],
    ['MOVED 3999 127.0.0.1:6381', 'passing', 'STORE_UNAVAILABLE'],
    ['TRYAGAIN Multiple keys request during rehashing', 'passing', 'STORE_UNAVAILABLE'],
    ['NOAUTH Authentication required', 'final', 'STORE_UNAVAILABLE'],
    ['WRONGPASS invalid username-password pair', 'final', 'STORE_UNAVAILABLE'],
    ['NOPERM this user has no permissions', 'final', 'STORE_UNAVAILABLE'],
    ['MISCONF Errors writing to the AOF file', 'final', 'STORE_FAILED'],
    ['ERR syntax error', 'final', 'STORE_FAILED'],
    ['no word in capitals', 'final', 'STORE_FAILED'],
  ])('"%s" is %s and becomes %s', (said, failure, code) => {
    const error = new ErrorReply(said)
    expect(failureOf(error)).toBe(failure)
    expect(storeError(error)).toMatchObject({ code, cause: error })
  })

  test('a quoted command is removed because it may contain a password', () => {
    const said = "ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'me' 's e c' "
    expect(storeError(new ErrorReply(said)).message).toMatch(
      /ERR unknown command …, with args beginning with: … … … … $/,
    )
  })

  test('connection errors are retried and finally STORE_UNAVAILABLE', () => {
    const error = new Error('Socket closed unexpectedly')
    expect(failureOf(error)).toBe('passing')
    expect(storeError(error)).toMatchObject({ code: 'STORE_UNAVAILABLE' })
    expect(storeError('text')).toMatchObject({ code: 'STORE_UNAVAILABLE' })
  })

  test('our own errors are passed through', () => {
    const error = new TurnstreamError('STORE_CLOSED', 'the log was closed')
    expect(storeError(error)).toBe(error)
  })

  test.each([
    ['a state', () => parseState('1-5')],
    ['epochs', () => parseEpochs('1')],
    ['no epochs', () => parseEpochs(null)],
    ['entries', () => parseEntries('1-1')],
    ['an id', () => parseEntries([['1', []]])],
    ['a text', () => text(null)],
  ])('an unreadable %s is STORE_CORRUPT', (_what, parse) => {
    expect(parse).toThrow(expect.objectContaining({ code: 'STORE_CORRUPT' }))
  })
})
