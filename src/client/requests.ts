import { ClientError } from './errors.ts'
import { happeningOf, Link, type LinkDeps } from './link.ts'

/** A key, or a function that is called for every request. */
export type Token = string | (() => string | Promise<string>)

/** Returns a new token, or undefined to give up. When it throws, the request is tried again later. */
export type OnAuth = (error: ClientError) => string | undefined | Promise<string | undefined>

export interface RequestsOptions extends LinkDeps {
  readonly baseUrl: string
  readonly token: Token | undefined
  readonly onAuth: OnAuth | undefined
  readonly fetch: typeof fetch
}

export interface RequestInit {
  readonly method?: 'GET' | 'POST' | 'DELETE'
  /** Sent as JSON. */
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** A gateway waits no longer than this with good reason. */
const MAX_RETRY_AFTER_MS = 3_600_000

/** Sends requests with the current token. */
export class Requests {
  readonly options: RequestsOptions
  #fresh: string | undefined
  #refreshing: Promise<string | undefined> | undefined

  constructor(options: RequestsOptions) {
    this.options = options
  }

  /** Sends a request once. Throws ClientError unless the response is 2xx. */
  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const { token, onAuth } = this.options
    const sent = typeof token === 'function' ? await token() : (this.#fresh ?? token)
    try {
      return await this.#sendWith(sent, path, init)
    } catch (error) {
      const isRefused =
        error instanceof ClientError && (error.status === 401 || error.status === 403)
      const fresh = isRefused && onAuth ? await this.#refresh(onAuth, error, sent) : undefined
      if (fresh === undefined) throw error
      return await this.#sendWith(fresh, path, init)
    }
  }

  /** Sends an idempotent request until it is answered, over lost connections. ABORTED when `signal` aborts. */
  sendUntilAnswered(path: string, init: RequestInit): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let answer: unknown
      const { signal } = init
      const abort = () => {
        link.dispatch({ type: 'close' })
        reject(new ClientError('The request was cancelled', { code: 'ABORTED', status: 499 }))
      }
      const link = new Link(
        this.options,
        async (signal) => {
          try {
            const response = await this.send(path, { ...init, signal })
            const text = await response.text()
            answer = text === '' ? undefined : JSON.parse(text)
            return { type: 'over' }
          } catch (error) {
            return happeningOf(error)
          }
        },
        () => {
          if (!link.isSettled) return
          signal?.removeEventListener('abort', abort)
          if (link.state.status === 'ended') resolve(answer)
          else reject(link.state.cause)
        },
      )
      if (signal?.aborted) return abort()
      signal?.addEventListener('abort', abort)
      link.dispatch({ type: 'open' })
    })
  }

  async #sendWith(
    token: string | undefined,
    path: string,
    { method = 'GET', body, signal }: RequestInit,
  ): Promise<Response> {
    const { baseUrl, fetch } = this.options
    const response = await fetch(baseUrl + path, {
      method,
      cache: 'no-store',
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    })
    if (!response.ok) throw await toError(response)
    return response
  }

  /** Requests that are refused at the same time share one call of `onAuth`. */
  async #refresh(onAuth: OnAuth, error: ClientError, sent: string | undefined) {
    if (this.#fresh !== undefined && this.#fresh !== sent) return this.#fresh
    this.#refreshing ??= Promise.resolve(onAuth(error)).finally(() => {
      this.#refreshing = undefined
    })
    this.#fresh = (await this.#refreshing) ?? this.#fresh
    return this.#fresh === sent ? undefined : this.#fresh
  }
}

async function toError(response: Response): Promise<ClientError> {
  const { status } = response
  const { code = `HTTP_${status}`, message, requestId } = await readError(response)
  const seconds = Number(response.headers.get('retry-after')) || 0
  return new ClientError(message ?? `Status ${status}`, {
    status,
    code,
    requestId,
    retryAfterMs: Math.min(seconds * 1000, MAX_RETRY_AFTER_MS),
  })
}

/** Proxies send pages in place of our errors. */
async function readError(response: Response): Promise<Partial<Record<string, string>>> {
  try {
    const body = (await response.json()) as { error?: Record<string, string> } | null
    return body?.error ?? {}
  } catch {
    return {}
  }
}
