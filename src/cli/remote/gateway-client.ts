import * as z from 'zod'
import { type Clock, sleep } from '../../async/clock.ts'
import { calculateRetryDelay } from '../../async/retry.ts'
import { decodeText } from '../../protocol/decode.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import { isKey } from '../../server/auth/key-ring.ts'
import { UsageError } from '../command.ts'
import { readBounded } from '../http.ts'
import { readSecret } from '../serve/configuration.ts'
import type { Terminal } from '../terminal.ts'
import { isRefused, lost, RemoteError, toRemoteError, unreachable } from './errors.ts'
import { EventFeed, type EventFeedOptions } from './event-feed.ts'

export const DEFAULT_URL = 'http://127.0.0.1:4010'

/** The gateway that `--url` or TURNSTREAM_URL names, or the one on this machine, with the key of the environment. */
export function createGatewayClient(option: string | undefined, terminal: Terminal): GatewayClient {
  const url = option ?? (terminal.env['TURNSTREAM_URL']?.trim() || DEFAULT_URL)
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
    const origin = option === undefined ? 'TURNSTREAM_URL' : '--url'
    throw new UsageError(`${origin} takes an http:// or https:// address, got '${url}'`)
  }
  return new GatewayClient(url, terminal.clock, keyHeaders(terminal))
}

/** Empty without a key. A key on the command line could be seen by every user of the machine. */
export function keyHeaders({ env }: Pick<Terminal, 'env'>): Readonly<Record<string, string>> {
  const key = environmentKey(env, 'TURNSTREAM_KEY')
  return key === undefined ? {} : { authorization: `Bearer ${key}` }
}

/** A key that can stand in a header. What cannot would be repeated by the error that says so. */
export function environmentKey(env: Terminal['env'], variable: string): string | undefined {
  const key = readSecret(env, variable)
  if (key === undefined || isKey(key)) return key
  throw new UsageError(`${variable} takes a key: visible characters, in one line`)
}

const submittedSchema = z.object({ runId: z.string(), turnId: z.string(), threadId: z.string() })

const ATTEMPTS = 4
const RETRY_BASE_MS = 250
const RETRY_MAX_MS = 2000

// A gateway answers when the turn is durable, which takes as long as its store at most.
const ANSWER_LIMIT_MS = 15_000
const MAX_ANSWER_BYTES = 64 * 1024

/** The calls of a gateway. */
export class GatewayClient {
  readonly url: string
  readonly #clock: Clock
  readonly #headers: Readonly<Record<string, string>>

  /** `url` may have a path before those of the API; `headers` are sent with every call. */
  constructor(url: string, clock: Clock, headers: Readonly<Record<string, string>> = {}) {
    this.url = url.replace(/\/+$/, '')
    this.#clock = clock
    this.#headers = headers
  }

  /** The URL of a route. */
  address(route: string, params: Readonly<Record<string, string>> = {}): string {
    const path = route.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(params[name] ?? ''),
    )
    return `${this.url}${path}`
  }

  /** The frames of a stream; see `EventFeed`. */
  stream(
    route: string,
    params: Readonly<Record<string, string>>,
    options: Pick<EventFeedOptions, 'from' | 'onBreak'>,
  ): EventFeed {
    const url = this.address(route, params)
    return new EventFeed({ ...options, url, headers: this.#headers, clock: this.#clock })
  }

  /** Rejects when nobody is there. */
  async check(): Promise<void> {
    const response = await this.#send(this.address(ROUTES.health))
    if (!response.ok) throw await toRemoteError(response)
  }

  /** The caller makes the id of the turn, so that a submit may be repeated. */
  async submit(body: {
    readonly turnId: string
    readonly prompt: string
    readonly model?: string
    readonly threadId?: string
  }): Promise<z.infer<typeof submittedSchema>> {
    const response = await this.#post(this.address(ROUTES.submit), body)
    const text = await readBounded(response.body, MAX_ANSWER_BYTES)
    const submitted = decodeText(submittedSchema, text)
    if (submitted.ok) return submitted.value
    throw new RemoteError('ANSWER_INVALID', `${this.url} does not answer like a gateway`)
  }

  async hasThread(threadId: string): Promise<boolean> {
    const address = `${this.address(ROUTES.thread, { threadId })}?limit=1`
    const response = await this.#send(address)
    await (response.ok ? response.body?.cancel() : undefined)
    if (response.ok) return true
    const refusal = await toRemoteError(response)
    if (refusal.code === 'THREAD_UNKNOWN') return false
    throw refusal
  }

  async cancel(runId: string, reason: string): Promise<void> {
    await this.#post(this.address(ROUTES.runCancel, { runId }), { reason })
  }

  /** Both may be sent again: a turn has the caller's id, and a cancel is the same however often. */
  async #post(address: string, body: unknown): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt + 1 === ATTEMPTS
      try {
        const response = await this.#send(address, JSON.stringify(body))
        if (response.ok) return response
        if (response.status !== 503 || isLast) throw await toRemoteError(response)
      } catch (error) {
        const isLost = error instanceof RemoteError && error.code === 'CONNECTION_LOST'
        if (isLast || !isLost) throw error
      }
      await sleep(calculateRetryDelay(attempt, RETRY_BASE_MS, RETRY_MAX_MS), this.#clock)
    }
  }

  /** A POST of `body`, or a GET without it. */
  async #send(address: string, body?: string): Promise<Response> {
    const limit = new AbortController()
    const stopWaiting = this.#clock.after(ANSWER_LIMIT_MS, () => {
      limit.abort(new Error(`no answer within ${ANSWER_LIMIT_MS / 1000} s`))
    })
    try {
      // A redirect could send the prompt and the key to anybody.
      const call = { redirect: 'manual', signal: limit.signal } as const
      if (body === undefined) return await fetch(address, { ...call, headers: this.#headers })
      const more = { 'content-type': 'application/json', [HEADERS.requestId]: crypto.randomUUID() }
      const headers = { ...this.#headers, ...more }
      return await fetch(address, { ...call, method: 'POST', headers, body })
    } catch (error) {
      throw isRefused(error) ? unreachable(this.url, error) : lost(this.url, error)
    } finally {
      stopWaiting()
    }
  }
}
