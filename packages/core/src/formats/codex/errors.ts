import type { ErrorObject } from '../../protocol/stream-event.ts'
import { vendorCode, vendorMessage } from '../call-faults.ts'
import { asFields, asNonEmpty, asString } from '../fields.ts'

/** Kinds of codex, in its older spelling, and the codes that all providers share. Other kinds are kept. */
const CODES: Readonly<Record<string, string>> = {
  bad_request: 'HTTP_400',
  context_window_exceeded: 'context_length_exceeded',
  flex_unavailable: 'server_is_overloaded',
  http_connection_failed: 'UPSTREAM_UNREACHABLE',
  internal_server_error: 'HTTP_500',
  policy_capacity_unavailable: 'server_is_overloaded',
  response_stream_connection_failed: 'UPSTREAM_UNREACHABLE',
  response_stream_disconnected: 'UPSTREAM_TRUNCATED',
  server_overloaded: 'server_is_overloaded',
  unauthorized: 'HTTP_401',
  usage_limit_exceeded: 'insufficient_quota',
}

/** The kind of what codex does not classify. */
const OTHER = 'other'

/** The code is the first name of `codexErrorInfo`: a string, or an object with one key. */
export function errorOf(value: unknown): ErrorObject {
  const fields = asFields(value)
  const info = fields['codexErrorInfo'] ?? fields['codex_error_info']
  const [[name, details] = []] = Object.entries(asFields(info))
  const kind = toSnakeCase(asNonEmpty(info) ?? name ?? OTHER)
  const message = asString(fields['message']) ?? 'codex reported an error without a message'
  const { httpStatusCode, http_status_code } = asFields(details)
  const status = httpStatusCode ?? http_status_code
  const delay = delayIn(message)
  if (typeof status === 'number') {
    return { code: `HTTP_${status}`, message: vendorText(message), ...delay }
  }
  return kind === OTHER ? unclassified(message) : { code: CODES[kind] ?? kind, message, ...delay }
}

function toSnakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** What the provider said, in a message that also has its status and address. */
function vendorText(message: string): string {
  return /^unexpected status \d+[^:]*: (.+?), url: /s.exec(message)?.[1] ?? message
}

const DISCONNECTED = /^stream disconnected before completion: (.*)$/s
const CUT = /^(?:stream closed|transport error|network error|error sending request|websocket)/i

/** The message may be the body of a 400. Unknown failures of the provider look like a lost connection. */
function unclassified(message: string): ErrorObject {
  if (message.startsWith('{')) {
    return { code: vendorCode(400, message), message: vendorMessage(message) || message }
  }
  const [, reason] = DISCONNECTED.exec(message) ?? []
  if (reason === undefined) return { code: OTHER, message }
  if (CUT.test(reason)) return { code: 'UPSTREAM_TRUNCATED', message }
  if (reason.startsWith('idle timeout')) return { code: 'UPSTREAM_TIMEOUT', message }
  return { code: 'server_error', message: reason }
}

const UNIT = String.raw`(?:ms|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])`
const DELAY = new RegExp(String.raw`try again in ((?:\d{1,6}(?:\.\d{1,6})? ?${UNIT} ?){1,4})`, 'i')
const DELAY_PART = /([\d.]+) ?(ms|[hms])/gi
const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/** OpenAI names the delay in the text: `3.5s`, `1m30s` or `20ms`. */
function delayIn(message: string): { retry_after_ms?: number } {
  const [, delay] = DELAY.exec(message) ?? []
  if (delay === undefined) return {}
  const parts = Array.from(
    delay.matchAll(DELAY_PART),
    ([, count, unit = '']) => Number(count) * (UNIT_MS[unit.toLowerCase()] ?? 0),
  )
  return { retry_after_ms: Math.ceil(parts.reduce((sum, ms) => sum + ms, 0)) }
}
