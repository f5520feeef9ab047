import { hasCode, TurnstreamError } from '../protocol/errors.ts'
import type { ErrorObject } from '../protocol/stream-event.ts'

/**
 * What readers are told of a provider that threw, although it should not. Messages of ours are made to be
 * read by anybody; what others throw may hold anything, and stays with the operator.
 */
export function providerFault(error: unknown): ErrorObject {
  const inner = hasCode(error, 'STREAM_ERROR') ? error.cause : error
  if (hasCode(inner, 'TIMEOUT')) return { code: 'UPSTREAM_TIMEOUT', message: inner.message }
  if (inner instanceof TurnstreamError) return { code: inner.code, message: inner.message }
  return { code: 'STREAM_ERROR', message: 'The stream of the provider failed' }
}
