import { ClientError } from './errors.ts'
import { createLink, type LinkDeps } from './link.ts'

/** A key, or a function that is called for every request; undefined sends none. */
export type Token = string | (() => string | undefined | Promise<string | undefined>)

/** Returns a new token, or undefined to give up. When it throws, the request is tried again later. */
export type OnAuth = (error: ClientError) => string | undefined | Promise<string | undefined>

export interface RequestsOptions extends LinkDeps {
  readonly baseUrl: string
  readonly token: Token | undefined
  readonly onAuth: OnAuth | undefined
  readonly fetch: typeof fetch
}

interface RequestInit {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: object
  readonly signal?: AbortSignal | undefined
}

export interface Requests {
  /** Returns the token that a request would have. */
  readonly currentToken: () => Promise<string | undefined>
  /** Sends a request once. Throws ClientError unless the response is 2xx. */
  readonly send: (path: string, init?: RequestInit) => Promise<Response>
  /**
   * Sends an idempotent request until it is answered, over lost connections. `onCancel` gets how to stop, which rejects
   * with ABORTED.
   */
  readonly deliver: (
    path: string,
    init: RequestInit,
    onCancel?: (cancel: () => void) => void,
  ) => Promise<void>
}

/** A gateway waits no longer than this with good reason. */
const MAX_RETRY_AFTER_MS = 3_600_000

export function createRequests(options: RequestsOptions): Requests {
  const { baseUrl, token, onAuth, fetch, clock } = options
  let fresh: string | undefined
  let refreshing: Promise<void> | undefined

  const currentToken = async () => (typeof token === 'function' ? token() : (fresh ?? token))

  async function refresh(error: ClientError): Promise<void> {
    fresh = (await onAuth?.(error)) ?? fresh
  }

  async function send(path: string, init: RequestInit = {}, retried?: string): Promise<Response> {
    const { method = 'GET', body, signal = null } = init
    const sent = retried ?? (await currentToken())
    const response = await fetch(baseUrl + path, {
      method,
      headers: {
        ...(sent && { authorization: `Bearer ${sent}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      body: body ? JSON.stringify(body) : null,
      signal,
    })
    if (response.ok) return response
    const error = await toError(response, clock.now())
    if (!retried && [401, 403].includes(error.status)) {
      if (!fresh || fresh === sent) {
        // Requests that are refused at the same time share one call of `onAuth`.
        refreshing ??= refresh(error).finally(() => {
          refreshing = undefined
        })
        await refreshing
      }
      if (fresh && fresh !== sent) return send(path, init, fresh)
    }
    throw error
  }

  const deliver: Requests['deliver'] = (path, init, onCancel) =>
    new Promise((resolve, reject) => {
      const attempt = async (signal: AbortSignal) => {
        await (await send(path, { ...init, signal })).text()
        resolve()
      }
      const link = createLink(options, attempt, () => {
        const { status, cause } = link.state()
        if (status === 'failed') reject(cause)
      })
      link.dispatch({ type: 'open' })
      onCancel?.(() => {
        const cause = new ClientError('Cancelled', { code: 'ABORTED', status: 499 })
        link.dispatch({ type: 'refused', cause })
      })
    })

  return { currentToken, send, deliver }
}

async function toError(response: Response, now: number): Promise<ClientError> {
  const { status, headers } = response
  // Proxies send pages in place of our errors.
  const body = await response.json().catch(() => {})
  const code = `HTTP_${status}`
  const { message = code, ...fields } = body?.error ?? {}
  // In seconds, or a date.
  const after = headers.get('retry-after') ?? ''
  const wait = Number(after) * 1000 || Date.parse(after) - now || 0
  const retryAfterMs = Math.min(Math.max(wait, 0), MAX_RETRY_AFTER_MS)
  return new ClientError(message, { code, ...fields, status, retryAfterMs })
}
