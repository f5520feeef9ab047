import type { Clock } from '../../async/clock.ts'

/** How long one look over the network may take. */
export const LOOK_LIMIT_MS = 5000

/** More than any list of models. */
const MAX_BYTES = 4 * 1024 * 1024

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
  /** Milliseconds since the epoch, by our clock. */
  readonly askedAt: number
  readonly answeredAt: number
}

/** What came of asking: an answer, or why there is none. */
export type Looked = { readonly answer: Answer } | { readonly reason: string }

export interface Look {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly clock: Clock
}

/** One GET, bounded in time and size, that follows nobody elsewhere: a key is in its headers. */
export async function look({ url, headers, clock }: Look): Promise<Looked> {
  const limit = new AbortController()
  const stopWaiting = clock.after(LOOK_LIMIT_MS, () => limit.abort())
  const askedAt = clock.now()
  try {
    const response = await fetch(url, { headers, redirect: 'manual', signal: limit.signal })
    const answeredAt = clock.now()
    const body = await boundedText(response)
    const { status, headers: told } = response
    return { answer: { status, headers: told, body, askedAt, answeredAt } }
  } catch (error) {
    if (limit.signal.aborted) return { reason: `no answer within ${LOOK_LIMIT_MS / 1000} s` }
    return { reason: reasonOf(error) }
  } finally {
    stopWaiting()
    limit.abort()
  }
}

async function boundedText(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > MAX_BYTES) break
  }
  return text
}

/** What lies at the bottom of a failed fetch; its own words say only that it failed. */
export function reasonOf(error: unknown): string {
  let reason = 'for an unknown reason'
  for (let at = error; at instanceof Error; at = at.cause) {
    const code = 'code' in at ? String(at.code) : ''
    reason = WORDS[code] ?? (at.message || code || at.name)
    // Several addresses were tried, each with a reason of its own: that of the first will do.
    if (at instanceof AggregateError && at.errors.length > 0) return reasonOf(at.errors[0])
  }
  return reason
}

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nobody listens there (ECONNREFUSED)',
  ENOTFOUND: 'there is no such host (ENOTFOUND)',
  EAI_AGAIN: 'the name of the host cannot be looked up (EAI_AGAIN)',
  ECONNRESET: 'the connection was closed without an answer (ECONNRESET)',
  UND_ERR_SOCKET: 'the connection was closed without an answer',
  EHOSTUNREACH: 'there is no way to that host (EHOSTUNREACH)',
  ENETUNREACH: 'there is no way to that network (ENETUNREACH)',
}
