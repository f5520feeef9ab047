import { type Client, createClient } from '@turnstream/client'
import { failureReason, readBounded, tooLate } from '@turnstream/conformance/internal/endpoint/http'
import { type Clock, sleep } from '@turnstream/core/internal/async/clock'
import { calculateRetryDelay } from '@turnstream/core/internal/async/retry'
import { bearer } from '@turnstream/core/internal/formats/vendor-request'
import { isRecord, parseJsonObject } from '@turnstream/core/internal/protocol/json'
import { HEADERS } from '@turnstream/core/internal/protocol/names'
import { parseUrl } from '@turnstream/core/internal/protocol/url'
import { SseDecoder, type SseEvent } from '@turnstream/core/internal/sse/decode'
import { isKey } from '../server/auth/key-ring.ts'
import { CommandError, UsageError } from './command.ts'
import { readSecret } from './serve/secrets.ts'
import type { Terminal } from './terminal.ts'

export const DEFAULT_URL = 'http://127.0.0.1:4010'

export const URL_OPTION = {
  value: 'url',
  about: `gateway URL (TURNSTREAM_URL, or ${DEFAULT_URL})`,
} as const

export const ABOUT_KEYS =
  'The API key is read from TURNSTREAM_KEY, or from the file that TURNSTREAM_KEY_FILE names.'

/** The gateway of `--url`, TURNSTREAM_URL or this machine, with the API key of the environment. */
export function openGateway(option: string | undefined, { env, clock }: Terminal): Gateway {
  const url = option ?? (env['TURNSTREAM_URL']?.trim() || DEFAULT_URL)
  if (!/^https?:\/\//.test(url) || parseUrl(url) === undefined) {
    const origin = option === undefined ? 'TURNSTREAM_URL' : '--url'
    throw new UsageError(`${origin} must be an http:// or https:// URL, got '${url}'`)
  }
  // There is no option for the key: command lines are visible to every user of the machine.
  return new Gateway(url, clock, environmentKey(env, 'TURNSTREAM_KEY'))
}

/** Refuses keys that are not valid in a header. The error of `fetch` would print them. */
export function environmentKey(env: Terminal['env'], variable: string): string | undefined {
  const key = readSecret(env, variable)
  if (key === undefined || isKey(key)) return key
  throw new UsageError(`${variable} must be a key: printable characters on one line`)
}

const MAX_ATTEMPTS = 10
const RECONNECT_BASE_MS = 500
const RECONNECT_MAX_MS = 10_000

// A gateway responds when the turn is durable, which depends on its store.
const ANSWER_LIMIT_MS = 15_000

// Three default heartbeat intervals: a connection that is silent for longer is dead.
const MAX_SILENCE_MS = 45_000

// Far more than any refusal of a gateway. Another server may send anything.
const MAX_REFUSAL_BYTES = 64 * 1024

/** Retryable: the gateway is busy or temporarily unavailable. */
const PASSING = new Set([408, 425, 429, 500, 502, 503, 504])

/** A gateway, with the client and what the client does not do: raw streams, advice, and giving up. */
export class Gateway {
  readonly url: string
  /** Its errors say what to do. It gives up after a number of attempts without progress. */
  readonly client: Client
  readonly #clock: Clock
  readonly #key: string | undefined
  /** Attempts without progress, by path. */
  readonly #attempts = new Map<string, number>()
  #isReached = false

  /** `url` may have a path prefix. */
  constructor(url: string, clock: Clock, key?: string) {
    this.url = url.replace(/\/+$/, '')
    this.#clock = clock
    this.#key = key
    this.client = createClient({
      baseUrl: this.url,
      token: key,
      clock,
      fetch: (address, init = {}) =>
        this.#fetchForClient(address as string, init).catch((error: unknown) => {
          if (!(error instanceof CommandError)) throw error
          // The client does not repeat such a request.
          const { code, message } = error
          return Response.json({ error: { code, message } }, { status: 400 })
        }),
    })
  }

  async get(path: string): Promise<Response> {
    const request = this.#send(this.url + path, { headers: bearer(this.#key) })
    const response = await request.catch((error: unknown) => {
      throw error instanceof CommandError ? error : this.#lost(failureReason(error), error)
    })
    if (!response.ok) throw await readRefusal(response)
    this.progressed()
    return response
  }

  /** The frames after a cursor, over any number of connections, until the gateway returns 204 or refuses. */
  async *frames(
    path: string,
    from?: string,
    onBreak?: (ms: number) => void,
  ): AsyncGenerator<SseEvent, void> {
    const at = { cursor: from }
    for (;;) {
      try {
        if (yield* this.#readStream(path, at)) return
      } catch (error) {
        if (error instanceof CommandError) throw error
      }
      const attempts = this.#attempts.get(new URL(this.url + path).pathname) ?? 1
      const delay = calculateRetryDelay(attempts - 1, RECONNECT_BASE_MS, RECONNECT_MAX_MS)
      // Jitter keeps many readers from reconnecting at the same time.
      const ms = Math.round(delay * (0.5 + Math.random() / 2))
      if (attempts < MAX_ATTEMPTS) onBreak?.(ms)
      await sleep(attempts < MAX_ATTEMPTS ? ms : 0, this.#clock)
    }
  }

  /** Returns true when there is nothing left to read. */
  async *#readStream(
    path: string,
    at: { cursor: string | undefined },
  ): AsyncGenerator<SseEvent, boolean> {
    const abort = new AbortController()
    const start = () => this.#clock.after(MAX_SILENCE_MS, () => abort.abort())
    let stopTimer = start()
    try {
      const cursor = at.cursor !== undefined && { [HEADERS.lastEventId]: at.cursor }
      const headers = { ...bearer(this.#key), accept: 'text/event-stream', ...cursor }
      const response = await this.#send(this.url + path, { headers, signal: abort.signal })
      if (!response.ok || response.status === 204) return response.ok
      const decoder = new SseDecoder()
      for await (const chunk of response.body ?? []) {
        stopTimer()
        stopTimer = start()
        // The others only have an id.
        for (const event of decoder.feed(chunk).filter(({ data }) => data !== '')) {
          at.cursor = event.id || at.cursor
          this.progressed()
          yield event
        }
        at.cursor = decoder.lastEventId || at.cursor
      }
      return false
    } finally {
      stopTimer()
      abort.abort()
    }
  }

  /** Starts counting attempts from the beginning: something new has arrived. */
  progressed(): void {
    this.#attempts.clear()
  }

  async #fetchForClient(address: string, init: RequestInit): Promise<Response> {
    const response = await this.#send(address, init)
    if (!response.ok) return response
    if (init.method !== undefined) {
      this.progressed()
      return response
    }
    if (response.status === 204) {
      throw turnLost(decodeURIComponent(new URL(address).pathname.split('/').at(-2) ?? ''))
    }
    if (response.headers.get('content-type')?.startsWith('text/event-stream')) return response
    throw new CommandError('ANSWER_INVALID', `${this.url} is not a turnstream gateway`)
  }

  /** Returns a response that is not a refusal. Throws a CommandError when there is no sense in another attempt. */
  async #send(address: string, init: RequestInit): Promise<Response> {
    const { pathname } = new URL(address)
    const attempt = (this.#attempts.get(pathname) ?? 0) + 1
    this.#attempts.set(pathname, attempt)
    if (attempt > MAX_ATTEMPTS) throw this.#lost(`${MAX_ATTEMPTS} attempts to resume failed`)
    const limit = new AbortController()
    const stopWaiting = this.#clock.after(ANSWER_LIMIT_MS, () => {
      limit.abort(new Error(tooLate(ANSWER_LIMIT_MS).reason))
    })
    try {
      const signals = [limit.signal, init.signal].flatMap((signal) => signal ?? [])
      const signal = AbortSignal.any(signals)
      // Redirects could send a prompt and a key anywhere.
      const response = await fetch(address, { ...init, redirect: 'manual', signal })
      this.#isReached = true
      const isPassing = PASSING.has(response.status) && attempt < MAX_ATTEMPTS
      if (response.ok || isPassing) return response
      throw await readRefusal(response)
    } catch (error) {
      if (error instanceof CommandError) throw error
      const isPost = init.method !== undefined
      if (isRefused(error) && (isPost || !this.#isReached)) throw unreachable(this.url, error)
      throw attempt < MAX_ATTEMPTS ? error : this.#lost(failureReason(error), error)
    } finally {
      stopWaiting()
    }
  }

  #lost(reason: string, cause?: unknown): CommandError {
    const message = `lost the connection to ${this.url}: ${reason}`
    return new CommandError('CONNECTION_LOST', message, { cause })
  }
}

export function path(route: string, ...ids: readonly string[]): string {
  return ids.reduce((filled, id) => filled.replace(/:\w+/, () => encodeURIComponent(id)), route)
}

export function turnLost(turnId: string): CommandError {
  return new CommandError('TURN_LOST', `the stream of turn ${turnId} ended before the turn did`)
}

/** No server listens there. Not retryable. */
export function unreachable(url: string, cause: unknown): CommandError {
  const port = new URL(url).port || '4010'
  const start = port === '4010' ? 'turnstream serve' : `turnstream serve --port ${port}`
  const message = `no gateway at ${url}: start one with "${start}", or pass --url`
  return new CommandError('GATEWAY_UNREACHABLE', message, { cause })
}

const REFUSED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'])

function isRefused(error: unknown): boolean {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if ('code' in at && REFUSED.has(String(at.code))) return true
    // Several addresses were tried, such as the two of localhost.
    if (at instanceof AggregateError && at.errors.length > 0) return at.errors.every(isRefused)
  }
  return false
}

/** Advice for errors whose gateway message does not mention the command line. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'KEY_REQUIRED',
    'the gateway needs an API key: set TURNSTREAM_KEY or TURNSTREAM_KEY_FILE; ' +
      'its operator creates keys with "turnstream keys add"',
  ],
  [
    'KEY_INVALID',
    'the gateway rejected TURNSTREAM_KEY: the key is unknown or revoked. Ask its operator for a new one.',
  ],
])

/** A proxy in front of the gateway may use any other format. */
async function readRefusal(response: Response): Promise<CommandError> {
  const { status, url } = response
  const location = response.headers.get('location')
  if (status >= 300 && status < 400 && location !== null) {
    await response.body?.cancel()
    const to = URL.parse(location, url)?.origin ?? location.slice(0, 200)
    const message = `${url} redirects to ${to}, and redirects are not followed. Pass --url ${to} if you trust it.`
    return new CommandError('REDIRECTED', message)
  }
  const body = await readBounded(response.body, MAX_REFUSAL_BYTES).catch(() => '')
  const error = parseJsonObject(body)?.['error']
  const { code, message } = isRecord(error) ? error : {}
  if (typeof code !== 'string') {
    return new CommandError(`HTTP_${status}`, `${url} returned status ${status}`)
  }
  const text = typeof message === 'string' ? message : code
  return new CommandError(code, ADVICE.get(code) ?? text)
}
