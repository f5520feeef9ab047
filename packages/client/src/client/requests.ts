import { type ConnectionState, LONG_MS } from './connection.ts'
import { ClientError } from './errors.ts'
import { type Attempt, createLink, type LinkDeps } from './link.ts'

/** A key, or a function that is called for every request; undefined sends none. */
export type Token = string | (() => string | undefined | Promise<string | undefined>)

/** Returns a new token, or undefined to give up. When it throws, the request is tried again later. */
export type OnAuth = (error: ClientError) => string | undefined | Promise<string | undefined>

/** A submit or another command, which is sent until the gateway answers. */
export interface Delivery extends ConnectionState {
  /** `connecting` until it is answered, with the cause and `retryAt` while it waits. Then `ended` or `failed`. */
  readonly status: ConnectionState['status']
  readonly path: string
  readonly body: object | undefined
  /** Sends it at once instead of waiting, unless the gateway asked to wait. */
  readonly retry: () => void
}

export interface RequestsOptions extends LinkDeps {
  readonly baseUrl: string
  readonly token?: Token | undefined
  readonly onAuth?: OnAuth | undefined
  readonly onDelivery?: ((delivery: Delivery) => void) | undefined
  readonly fetch?: typeof fetch
}

interface RequestInit {
  readonly method?: 'POST' | 'DELETE'
  /** JSON. */
  readonly body?: string | undefined
  readonly signal?: AbortSignal | null
}

export interface Requests {
  /** Returns the token that a request would have. */
  readonly token: () => Promise<string | undefined>
  /** Sends a request once. Throws ClientError unless the response is 2xx. */
  readonly send: (path: string, init?: RequestInit) => Promise<Response>
  /** Posts a body, or deletes without one, until it is answered. Rejects with `ABORTED` once it is abandoned. */
  readonly deliver: (
    path: string,
    body?: object,
    onStart?: (abandon: () => void) => void,
  ) => Promise<void>
}

export const createRequests = (options: RequestsOptions): Requests => {
  const { baseUrl, token, onAuth, onDelivery, fetch = globalThis.fetch, clock } = options
  let fresh: string | undefined
  let refreshing: Promise<void> | undefined

  const currentToken = async () => (typeof token === 'function' ? token() : (fresh ?? token))

  const refresh = async (error: ClientError): Promise<void> => {
    fresh = (await onAuth?.(error)) ?? fresh
  }

  const send = async (path: string, init: RequestInit = {}): Promise<Response> => {
    let sent = await currentToken()
    let isLast = false
    for (;;) {
      const response = await fetch(baseUrl + path, {
        ...init,
        headers: {
          ...(sent && { authorization: `Bearer ${sent}` }),
          ...(init.body && { 'content-type': 'application/json' }),
        },
      } as globalThis.RequestInit)
      if (response.ok) return response
      const error = await toError(response, clock.now())
      if (isLast || ![401, 403].includes(error.status)) throw error
      isLast = !fresh || fresh === sent
      if (isLast) {
        // Requests that are refused at the same time share one call of `onAuth`.
        refreshing ??= refresh(error).finally(() => {
          refreshing = undefined
        })
        await refreshing
      }
      if (!fresh || fresh === sent) throw error
      sent = fresh
    }
  }

  const deliver: Requests['deliver'] = (path, body, onStart) =>
    new Promise((resolve, reject) => {
      // Undefined without a body.
      const json = JSON.stringify(body) as string | undefined
      const attempt: Attempt = async (signal, report) => {
        // Uploads report no progress: allow for 8 bytes per ms.
        report('heard', { pingMs: LONG_MS + (json?.length ?? 0) / 16 })
        await (await send(path, { method: json ? 'POST' : 'DELETE', body: json, signal })).text()
        resolve()
      }
      const retry = () => dispatch('open')
      const dispatch = createLink(options, attempt, (connection) => {
        if (connection.status === 'failed') reject(connection.cause)
        onDelivery?.({ ...connection, path, body, retry })
      })
      retry()
      onStart?.(() => {
        const cause = new ClientError('Cancelled', { code: 'ABORTED', status: 499 })
        dispatch('refused', { cause })
      })
    })

  return { token: currentToken, send, deliver }
}

const toError = async (response: Response, now: number): Promise<ClientError> => {
  const { status } = response
  // Proxies send pages in place of our errors.
  const body = await response.json().catch(() => {})
  const code = `HTTP_${status}`
  // In seconds, or a date. Without it neither parses.
  const after = response.headers.get('retry-after') as string
  const wait = Number(after) * 1000 || Date.parse(after) - now || 0
  // A gateway asks for no more than an hour with good reason.
  const retryAfterMs = Math.max(0, Math.min(wait, 3_600_000))
  return new ClientError(code, { code, ...body?.error, status, retryAfterMs })
}
