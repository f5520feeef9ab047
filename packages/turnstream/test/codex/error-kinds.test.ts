/** The kinds of errors that codex names, as each API reports them. */

import { expect, test } from 'vitest'
import { errorOf } from '../../../core/src/formats/codex/errors.ts'
import { ResponseStream, type StreamEventPayload } from '../../../core/src/index.ts'
import type { Provider } from '../../src/index.ts'
import { startServer } from '../server/support.ts'

const status = (httpStatusCode: number) => ({ httpConnectionFailed: { httpStatusCode } })

const CUT = 'stream disconnected before completion: stream closed before response.completed'

type Expected = [
  chat: number,
  messages: number,
  shouldRetry?: 'false' | undefined,
  retryAfter?: string,
]

const ROWS: [kind: unknown, message: string, code: string, ...Expected][] = [
  ['badRequest', 'no', 'HTTP_400', 400, 400],
  [status(404), 'unexpected status 404 Not Found: no, url: http://x', 'model_not_found', 404, 404],
  [status(429), 'try again in 3.5s', 'rate_limit_exceeded', 429, 429, undefined, '4'],
  ['usageLimitExceeded', 'no', 'insufficient_quota', 429, 402, 'false'],
  ['contextWindowExceeded', 'no', 'context_length_exceeded', 400, 400],
  ['unauthorized', 'no', 'HTTP_401', 502, 502, 'false'],
  ['serverOverloaded', 'no', 'server_is_overloaded', 503, 529],
  ['internalServerError', 'no', 'HTTP_500', 502, 502],
  [{ responseStreamDisconnected: {} }, CUT, 'UPSTREAM_TRUNCATED', 502, 502],
  ['other', CUT, 'UPSTREAM_TRUNCATED', 502, 502],
  ['other', 'It broke.', 'other', 502, 502, 'false'],
]

function failing(kind: unknown, message: string): Provider {
  const error = errorOf({ message, codexErrorInfo: kind })
  const failure: StreamEventPayload = { type: 'response_error', response_id: 'r', error }
  return { id: 'codex', stream: () => ResponseStream.fromEvents([failure]) }
}

const messages = [{ role: 'user', content: 'Hi' }]
const DOORS: [path: string, body: object][] = [
  ['chat/completions', { messages }],
  ['responses', { input: 'Hi' }],
  ['messages', { messages, max_tokens: 9 }],
]

test.each(ROWS)('%j: %s is %s', async (kind, message, code, ...expected) => {
  const [openai, anthropic, shouldRetry = null, retryAfter = null] = expected
  const server = await startServer({ more: [failing(kind, message)] })
  for (const [path, body] of DOORS) {
    for (const stream of [false, true]) {
      const response = await fetch(`${server.url}/v1/${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'codex/m', stream, ...body }),
      })
      const { error } = (await response.json()) as { error: { code?: string } }
      const { headers } = response
      expect([
        path,
        response.status,
        headers.get('x-should-retry'),
        headers.get('retry-after'),
      ]).toEqual([path, path === 'messages' ? anthropic : openai, shouldRetry, retryAfter])
      if (path !== 'messages') expect(error.code).toBe(code)
    }
  }
})
