import { printable } from '../printable.ts'
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

/** Nobody listens there: not a matter of trying again. */
export function unreachable(url: string, cause: unknown): RemoteError {
  const port = new URL(url).port || '4010'
  const start = port === '4010' ? 'turnstream serve' : `turnstream serve --port ${port}`
  const message = `no gateway answers at ${url}: start one with "${start}", or name another with --url`
  return new RemoteError('GATEWAY_UNREACHABLE', message, { cause })
}

/** Somebody was there, and then the connection broke: the same call may do better. */
export function lost(url: string, cause: unknown): RemoteError {
  let reason = 'for an unknown reason'
  for (let at = cause; at instanceof Error; at = at.cause) reason = at.message
  return new RemoteError('CONNECTION_LOST', `the connection to ${url} broke: ${reason}`, { cause })
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

/** Says a RemoteError where it belongs, and rethrows what is none. */
export async function tellRemoteError(
  error: unknown,
  terminal: Pick<Terminal, 'status' | 'write' | 'writeError'>,
  json: boolean,
): Promise<void> {
  if (!(error instanceof RemoteError)) throw error
  const { code, message } = error
  terminal.status('')
  if (json) await terminal.write(`${JSON.stringify({ error: { code, message } })}\n`)
  else terminal.writeError(`turnstream: ${printable(message)}\n`)
}
