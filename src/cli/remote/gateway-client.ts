import * as z from 'zod'
import { type Clock, sleep } from '../../async/clock.ts'
import { calculateRetryDelay } from '../../async/retry.ts'
import { decodeText } from '../../protocol/decode.ts'
import { HEADERS, ROUTES } from '../../protocol/names.ts'
import { isRefused, lost, RemoteError, unreachable } from './errors.ts'
import { boundedText, refusalOf } from './refusal.ts'

export interface SubmitBody {
  /** Made by the caller, so that a submit may be repeated. */
  readonly turnId: string
  readonly prompt: string
  readonly model?: string
  readonly threadId?: string
}

const submittedSchema = z.object({ runId: z.string(), turnId: z.string(), threadId: z.string() })
export type SubmittedTurn = z.infer<typeof submittedSchema>

const ATTEMPTS = 4
const RETRY_BASE_MS = 250
const RETRY_MAX_MS = 2000

// A gateway answers when the turn is durable, which takes as long as its store at the most.
const ANSWER_LIMIT_MS = 15_000
const MAX_ANSWER_BYTES = 64 * 1024

/** The calls of a gateway that answer at once. */
export class GatewayClient {
  readonly #url: string
  readonly #clock: Clock
  readonly #headers: Readonly<Record<string, string>>

  /** `url` may have a path before those of the API; `headers` come with every call. */
  constructor(url: string, clock: Clock, headers: Readonly<Record<string, string>> = {}) {
    this.#url = url.replace(/\/+$/, '')
    this.#clock = clock
    this.#headers = headers
  }

  /** The whole address of a route. */
  address(route: string, params: Readonly<Record<string, string>> = {}): string {
    const path = route.replaceAll(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(params[name] ?? ''),
    )
    return `${this.#url}${path}`
  }

  /** Rejects when nobody is there. */
  async check(): Promise<void> {
    const response = await this.#send(this.address(ROUTES.health), { headers: this.#headers })
    if (!response.ok) throw await refusalOf(response)
  }

  async submit(body: SubmitBody): Promise<SubmittedTurn> {
    const response = await this.#post(this.address(ROUTES.submit), body)
    const submitted = decodeText(submittedSchema, await boundedText(response, MAX_ANSWER_BYTES))
    if (submitted.ok) return submitted.value
    throw new RemoteError('ANSWER_INVALID', `${this.#url} does not answer like a gateway`)
  }

  async hasThread(threadId: string): Promise<boolean> {
    const address = `${this.address(ROUTES.thread, { threadId })}?limit=1`
    const response = await this.#send(address, { headers: this.#headers })
    await (response.ok ? response.body?.cancel() : undefined)
    if (response.ok) return true
    const refusal = await refusalOf(response)
    if (refusal.code === 'THREAD_UNKNOWN') return false
    throw refusal
  }

  /** False when the turn had ended already, or is unknown. */
  async cancel(runId: string, reason: string): Promise<void> {
    await this.#post(this.address(ROUTES.runCancel, { runId }), { reason })
  }

  /** Both may be sent again: a turn has the caller's id, and a cancel is the same however often. */
  async #post(address: string, body: unknown): Promise<Response> {
    for (let attempt = 0; ; attempt++) {
      const isLast = attempt + 1 === ATTEMPTS
      try {
        const response = await this.#send(address, {
          method: 'POST',
          headers: {
            ...this.#headers,
            'content-type': 'application/json',
            [HEADERS.requestId]: crypto.randomUUID(),
          },
          body: JSON.stringify(body),
        })
        if (response.ok) return response
        if (response.status !== 503 || isLast) throw await refusalOf(response)
      } catch (error) {
        if (isLast || !isPassing(error)) throw error
      }
      await sleep(calculateRetryDelay(attempt, RETRY_BASE_MS, RETRY_MAX_MS), this.#clock)
    }
  }

  async #send(address: string, init: RequestInit): Promise<Response> {
    const limit = new AbortController()
    const stopWaiting = this.#clock.after(ANSWER_LIMIT_MS, () => {
      limit.abort(new Error(`no answer within ${ANSWER_LIMIT_MS / 1000} s`))
    })
    try {
      // A redirect could send the prompt and the key to anybody.
      return await fetch(address, { ...init, redirect: 'manual', signal: limit.signal })
    } catch (error) {
      throw isRefused(error) ? unreachable(this.#url, error) : lost(this.#url, error)
    } finally {
      stopWaiting()
    }
  }
}

function isPassing(error: unknown): boolean {
  return error instanceof RemoteError && error.code === 'CONNECTION_LOST'
}
