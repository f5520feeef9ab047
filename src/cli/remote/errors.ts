import { isRecord, parseJsonSafe } from '../../protocol/json.ts'
import { type ExitCode, reportFailure } from '../command.ts'
import { failureReason, readBounded } from '../http.ts'
import type { Terminal } from '../terminal.ts'

/** A gateway refused, or nobody answered; the message says it to people. */
export class RemoteError extends Error {
  override readonly name = 'RemoteError'
  /** Of the gateway, or one of ours: GATEWAY_UNREACHABLE, CONNECTION_LOST. */
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Reports a RemoteError, and rethrows any other. */
export async function reportRemoteError(
  error: unknown,
  terminal: Terminal,
  json: boolean,
): Promise<ExitCode> {
  if (error instanceof RemoteError) return reportFailure(error, terminal, json)
  throw error
}

/** Nobody listens there: trying again will not help. */
export function unreachable(url: string, cause: unknown): RemoteError {
  const port = new URL(url).port || '4010'
  const start = port === '4010' ? 'turnstream serve' : `turnstream serve --port ${port}`
  const message = `no gateway answers at ${url}: start one with "${start}", or name another with --url`
  return new RemoteError('GATEWAY_UNREACHABLE', message, { cause })
}

/** The connection broke: trying again may help. */
export function lost(url: string, cause: unknown): RemoteError {
  const message = `the connection to ${url} broke: ${failureReason(cause)}`
  return new RemoteError('CONNECTION_LOST', message, { cause })
}

const REFUSED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'])

/** Whether a failed call never reached anybody. */
export function isRefused(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if ('code' in at && REFUSED.has(String(at.code))) return true
    // Several addresses were tried: localhost is two.
    if (at instanceof AggregateError && at.errors.length > 0) return at.errors.every(isRefused)
  }
  return false
}

/** What the gateway's own message would not tell whoever sits at a terminal. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'KEY_REQUIRED',
    'the gateway needs a key: put one into TURNSTREAM_KEY, or name a file with TURNSTREAM_KEY_FILE; ' +
      'its operator makes them with "turnstream keys add"',
  ],
  [
    'KEY_INVALID',
    'the gateway does not know the key of TURNSTREAM_KEY, or no longer: ask its operator for another',
  ],
])

// The largest error of a gateway is far smaller. A server that is not a gateway may send anything.
const MAX_BODY_BYTES = 64 * 1024

/** The error that a gateway answered with. A proxy in front of it may answer in any other way. */
export async function toRemoteError(response: Response): Promise<RemoteError> {
  const { status, url } = response
  const location = response.headers.get('location')
  if (status >= 300 && status < 400 && location !== null) {
    await response.body?.cancel()
    const to = URL.parse(location, url)?.origin ?? location.slice(0, 200)
    const message = `${url} redirects to ${to}, and redirects are not followed. Pass --url ${to} if you trust it.`
    return new RemoteError('REDIRECTED', message)
  }
  const body = parseJsonSafe(await readBounded(response.body, MAX_BODY_BYTES).catch(() => ''))
  const error = isRecord(body) ? body['error'] : undefined
  if (isRecord(error) && typeof error['code'] === 'string') {
    const { code, message } = error
    const text = typeof message === 'string' ? message : code
    return new RemoteError(code, ADVICE.get(code) ?? text)
  }
  return new RemoteError(`HTTP_${status}`, `${url} answered with the status ${status}`)
}
