/** The errors of codex 0.169, as it reports them, and older ones. */
import { describe, expect, test } from 'vitest'
import { TurnFailedError } from '../../../src/formats/turn-failed-error.ts'
import { translate, turnFailed, turnStarted } from './events.ts'

const CUT = 'stream disconnected before completion'
const failed = (status: number | null) => ({ httpConnectionFailed: { httpStatusCode: status } })
const unexpected = (status: string, message: string) =>
  `unexpected status ${status}: ${message}, url: http://127.0.0.1:4000/v1/responses`

const rows: {
  message: string
  info: unknown
  error: object
  status: number
  isFinal?: boolean
}[] = [
  {
    message: '{"error":{"code":null,"message":"Bad thing","type":"invalid_request_error"}}',
    info: 'other',
    error: { code: 'HTTP_400', message: 'Bad thing' },
    status: 400,
  },
  {
    message: 'Codex ran out of room',
    info: 'contextWindowExceeded',
    error: { code: 'context_length_exceeded', message: 'Codex ran out of room' },
    status: 400,
  },
  {
    message: unexpected('401 Unauthorized', 'Incorrect API key'),
    info: failed(401),
    error: { code: 'HTTP_401', message: 'Incorrect API key' },
    status: 502,
    isFinal: true,
  },
  {
    message: unexpected('404 Not Found', 'no such route'),
    info: failed(404),
    error: { code: 'HTTP_404', message: 'no such route' },
    status: 404,
  },
  {
    message: 'The model m does not exist',
    info: 'modelNotFound',
    error: { code: 'model_not_found' },
    status: 404,
  },
  {
    message: unexpected('413 Payload Too Large', 'too large'),
    info: failed(413),
    error: { code: 'HTTP_413', message: 'too large' },
    status: 413,
  },
  {
    message: 'exceeded retry limit, last status: 429 Too Many Requests',
    info: { responseTooManyFailedAttempts: { httpStatusCode: 429 } },
    error: { code: 'HTTP_429' },
    status: 429,
  },
  {
    message: 'rate limit exceeded: Rate limit reached for m. Please try again in 3.5s. Visit',
    info: 'rateLimitExceeded',
    error: { code: 'rate_limit_exceeded', retry_after_ms: 3500 },
    status: 429,
  },
  {
    message: 'rate limit exceeded: Please try again in 20ms.',
    info: 'rateLimitExceeded',
    error: { retry_after_ms: 20 },
    status: 429,
  },
  ...(
    [
      ['6s', 6000],
      ['1m30s', 90_000],
      ['1h2m3.5s', 3_723_500],
      ['2m', 120_000],
      ['3m 5s', 185_000],
      ['90 seconds', 90_000],
      ['2 minutes', 120_000],
    ] as const
  ).map(([delay, retry_after_ms]) => ({
    message: `rate limit exceeded: Please try again in ${delay}.`,
    info: 'rateLimitExceeded',
    error: { retry_after_ms },
    status: 429,
  })),
  {
    message: 'Quota exceeded. Check your plan and billing details.',
    info: 'usageLimitExceeded',
    error: { code: 'insufficient_quota' },
    status: 429,
    isFinal: true,
  },
  { message: 'High demand', info: 'internalServerError', error: { code: 'HTTP_500' }, status: 502 },
  {
    message: 'At capacity',
    info: 'serverOverloaded',
    error: { code: 'server_is_overloaded' },
    status: 503,
  },
  {
    message: unexpected('503 Service Unavailable', 'busy'),
    info: failed(503),
    error: { code: 'HTTP_503', message: 'busy' },
    status: 503,
  },
  { message: 'nope', info: 'cyberPolicy', error: { code: 'cyber_policy' }, status: 400 },
  {
    message: 'nope',
    info: 'misalignmentPolicyViolation',
    error: { code: 'misalignment_policy_violation' },
    status: 400,
  },
  {
    message: 'nope',
    info: 'inferenceHookDenied',
    error: { code: 'inference_hook_denied' },
    status: 400,
  },
  ...['flexUnavailable', 'policyCapacityUnavailable'].map((info) => ({
    message: 'No capacity',
    info,
    error: { code: 'server_is_overloaded' },
    status: 503,
  })),
  {
    message: 'Spent',
    info: 'sessionBudgetExceeded',
    error: { code: 'session_budget_exceeded' },
    status: 502,
    isFinal: true,
  },
  {
    message: 'Denied too often',
    info: 'tooManyDenials',
    error: { code: 'too_many_denials' },
    status: 502,
    isFinal: true,
  },
  {
    message: 'No sandbox',
    info: 'sandboxError',
    error: { code: 'sandbox_error' },
    status: 502,
    isFinal: true,
  },
  {
    message: 'Connection failed: error sending request',
    info: failed(null),
    error: { code: 'UPSTREAM_UNREACHABLE' },
    status: 502,
  },
  ...['stream closed before response.completed', 'Transport error: network error'].map((why) => ({
    message: `${CUT}: ${why}`,
    info: 'other',
    error: { code: 'UPSTREAM_TRUNCATED', message: `${CUT}: ${why}` },
    status: 502,
  })),
  {
    message: `${CUT}: idle timeout waiting for SSE`,
    info: 'other',
    error: { code: 'UPSTREAM_TIMEOUT' },
    status: 504,
  },
  {
    message: `${CUT}: it broke`,
    info: 'other',
    error: { code: 'server_error', message: 'it broke' },
    status: 502,
  },
  {
    message: 'mid-stream model error',
    info: { response_stream_disconnected: { http_status_code: null } },
    error: { code: 'UPSTREAM_TRUNCATED', message: 'mid-stream model error' },
    status: 502,
  },
  // A prompt that was refused, or a fault of codex itself.
  {
    message: 'Not this prompt',
    info: 'other',
    error: { code: 'other', message: 'Not this prompt' },
    status: 502,
    isFinal: true,
  },
]

describe('an error of codex', () => {
  test.each(rows)('$info ($message) is $error, sent as $status', (row) => {
    const { message, info, status, isFinal = false } = row
    const last = translate([turnStarted(), turnFailed(message, info)]).at(-1)
    expect(last).toMatchObject({ type: 'response_error', error: row.error })
    if (last?.type !== 'response_error') throw new Error('not an error')
    const sent = new TurnFailedError(last.error, false)
    expect(sent.status).toBe(status)
    expect(sent.headers['x-should-retry']).toBe(isFinal ? 'false' : undefined)
    const delay = 'retry_after_ms' in last.error ? Number(last.error.retry_after_ms) : undefined
    const seconds = delay === undefined ? undefined : `${Math.ceil(delay / 1000)}`
    expect(sent.headers['retry-after']).toBe(seconds)
  })

  test.each(['2 months', 'a while', '1234567s'])('does not take %s for a delay', (delay) => {
    const failed = turnFailed(`Please try again in ${delay}.`, 'rateLimitExceeded')
    const last = translate([turnStarted(), failed]).at(-1)
    expect(last).toMatchObject({ error: { code: 'rate_limit_exceeded' } })
    expect(JSON.stringify(last)).not.toContain('retry_after_ms')
  })

  test('that reports a content filter is an end', () => {
    const message = `${CUT}: Incomplete response returned, reason: content_filter`
    const last = translate([turnStarted(), turnFailed(message, 'other')]).at(-1)
    expect(last).toMatchObject({ type: 'response_done', finish_reason: 'content_filter' })
  })
})
