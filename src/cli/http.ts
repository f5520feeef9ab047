/** The text of a body, or as much as fits into `maxBytes`. Stops reading there. */
export async function boundedText(response: Response, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes >= maxBytes) break
  }
  return Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8')
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nobody listens there (ECONNREFUSED)',
  ENOTFOUND: 'there is no such host (ENOTFOUND)',
  EAI_AGAIN: 'the name of the host cannot be looked up (EAI_AGAIN)',
  ECONNRESET: 'the connection was closed without an answer (ECONNRESET)',
  UND_ERR_SOCKET: 'the connection was closed without an answer',
  EHOSTUNREACH: 'there is no way to that host (EHOSTUNREACH)',
  ENETUNREACH: 'there is no way to that network (ENETUNREACH)',
}

/** The innermost cause of a failed fetch; its own message says only that it failed. */
export function failureReason(error: unknown): string {
  let reason = 'for an unknown reason'
  for (let at = error; at instanceof Error; at = at.cause) {
    const code = 'code' in at ? String(at.code) : ''
    reason = REASONS[code] ?? (at.message || code || at.name)
    // Several addresses were tried, each with a reason of its own: that of the first will do.
    if (at instanceof AggregateError && at.errors.length > 0) return failureReason(at.errors[0])
  }
  return reason
}
