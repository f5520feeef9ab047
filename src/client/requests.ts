import { ClientError } from './errors.ts'
import { createLink, type LinkDeps } from './link.ts'

/** A key, or a function that is called for every request; undefined sends none. */
export type Token = string | (() => string | undefined | Promise<string | undefined>)

/** Returns a new token, or undefined to give up. When it throws, the request is tried again later. */
export type OnAuth = (error: ClientError) => string | undefined | Promise<string | undefined>

export interface RequestsOptions extends LinkDeps {
  readonly baseUrl: string
  readonly token?: Token | undefined
  readonly onAuth?: OnAuth | undefined
  readonly fetch?: typeof fetch
}

interface RequestInit {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: object
  readonly signal?: AbortSignal | null
}

export interface Requests {
  /** Returns the token that a request would have. */
  readonly token: () => Promise<string | undefined>
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

export function createRequests(options: RequestsOptions): Requests {
  const { baseUrl, token, onAuth, fetch = globalThis.fetch, clock } = options
  let fresh: string | undefined
  let refreshing: Promise<void> | undefined

  const currentToken = async () => (typeof token === 'function' ? token() : (fresh ?? token))

  async function refresh(error: ClientError): Promise<void> {
    fresh = (await onAuth?.(error)) ?? fresh
  }

  async function send(path: string, init: RequestInit = {}, retried?: string): Promise<Response> {
    const { body } = init
    const sent = retried ?? (await currentToken())
    const response = await fetch(baseUrl + path, {
      ...init,
      headers: {
        ...(sent && { authorization: `Bearer ${sent}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      body: JSON.stringify(body),
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
      const dispatch = createLink(options, attempt, ({ status, cause }) => {
        if (status === 'failed') reject(cause)
      })
      dispatch('open')
      onCancel?.(() => {
        const cause = new ClientError('Cancelled', { code: 'ABORTED', status: 499 })
        dispatch('refused', { cause })
      })
    })

  return { token: currentToken, send, deliver }
}

async function toError(response: Response, now: number): Promise<ClientError> {
  const { status } = response
  // Proxies send pages in place of our errors.
  const body = await response.json().catch(() => {})
  const code = `HTTP_${status}`
  // A gateway waits no longer than this with good reason.
  const maxMs = 3_600_000
  // In seconds, or a date.
  const after = response.headers.get('retry-after') ?? ''
  const wait = Number(after) * 1000 || Math.max(0, Date.parse(after) - now) || 0
  const retryAfterMs = Math.min(wait, maxMs)
  return new ClientError(code, { code, ...body?.error, status, retryAfterMs })
}
