import { type Clock, systemClock } from '../async/clock.ts'
import { CLIENT_ROUTES } from '../protocol/names.ts'
import { currentPage, type Page } from './page.ts'
import { type OnAuth, Requests, type Token } from './requests.ts'
import {
  type ApprovalAnswer,
  newId,
  optimisticTurn,
  type SubmitRequest,
  type ThreadList,
  type ToolAnswer,
  type TurnSettings,
} from './submit.ts'
import { Thread } from './thread.ts'
import { type Submission, Turn } from './turn.ts'

export interface ClientOptions {
  /** Of the gateway, such as `https://gateway.example.com`. Default: that of the page. */
  readonly baseUrl?: string
  /** An API key, or a function that returns one and is called for every request. */
  readonly token?: Token | undefined
  /** Called when a request is refused with 401 or 403, also while reconnecting; returns the token to try once more with. */
  readonly onAuth?: OnAuth | undefined
  readonly fetch?: typeof fetch
  readonly clock?: Clock
  /** From 0 to 1, for jitter. Default `Math.random`. */
  readonly random?: () => number
  /** What is known of the page. Default: the browser's. */
  readonly page?: Page
}

/**
 * Creates a client of a gateway.
 *
 * @example
 * const client = createClient({ baseUrl: 'http://127.0.0.1:4010' })
 * const turn = client.submit({ prompt: 'Hello' })
 * for await (const { turn: view } of turn) console.log(view?.items.at(-1)?.content)
 */
export function createClient(options: ClientOptions = {}): Client {
  return new Client(options)
}

export class Client {
  readonly #requests: Requests
  readonly #turns = new WeakValues<Turn>()
  readonly #threads = new WeakValues<Thread>()
  /** Not answered yet, by turn. */
  readonly #submissions = new Map<string, Submission & { readonly abort: AbortController }>()

  constructor(options: ClientOptions) {
    this.#requests = new Requests({
      baseUrl: (options.baseUrl ?? '').replace(/\/+$/, ''),
      token: options.token,
      onAuth: options.onAuth,
      // Called as a method it would not work.
      fetch: options.fetch ?? ((...args) => fetch(...args)),
      clock: options.clock ?? systemClock,
      random: options.random ?? Math.random,
      page: options.page ?? currentPage,
    })
  }

  /** Returns the turn with this id. Callers with the same id share a connection. */
  turn(turnId: string): Turn {
    return this.#turns.get(turnId, () => new Turn(this.#requests, turnId))
  }

  /** Returns the thread with this id. Callers with the same id share a connection. */
  thread(threadId: string): Thread {
    return this.#threads.get(threadId, () => {
      const submissions = [...this.#submissions.values()]
      const own = submissions.filter(({ optimistic }) => optimistic.threadId === threadId)
      return new Thread(this.#requests, threadId, own)
    })
  }

  /** Lists threads, the most recently changed first. */
  async threads(page: { limit?: number; cursor?: string } = {}): Promise<ThreadList> {
    const query = new URLSearchParams()
    for (const [name, value] of Object.entries(page)) query.set(name, String(value))
    const response = await this.#requests.send(`${CLIENT_ROUTES.threads}?${query}`)
    return await response.json()
  }

  /**
   * Submits a turn and returns it at once, with the messages of the user in it and in its thread. The request is sent
   * again until the gateway answers: its ids make that safe. `turn.accepted()` says what the answer is.
   */
  submit(request: SubmitRequest): Turn {
    const body = {
      ...request,
      turnId: request.turnId ?? newId(),
      threadId: request.threadId ?? newId(),
    }
    const { turnId, threadId } = body
    const abort = new AbortController()
    const accepted = this.#post(CLIENT_ROUTES.submit, body, abort.signal).finally(() =>
      this.#submissions.delete(turnId),
    )
    // Whoever wants to know calls `accepted`.
    accepted.catch(() => {})
    const submission = { optimistic: optimisticTurn(body), accepted, abort }
    this.#submissions.set(turnId, submission)
    const turn = this.#turns.set(turnId, new Turn(this.#requests, turnId, submission))
    this.#threads.peek(threadId)?.add(submission)
    return turn
  }

  /** Answers tool calls of the last turn, which starts the next one. */
  answer(threadId: string, answers: readonly ToolAnswer[], settings: TurnSettings = {}): Turn {
    const input = answers.map(({ callId, output, success = true }) => ({
      ...({ type: 'function_call_output', call_id: callId } as const),
      output: typeof output === 'string' ? output : JSON.stringify(output),
      success,
    }))
    return this.submit({ ...settings, threadId, input })
  }

  /** Stops a turn, wherever it runs. What was written stays. Leaving the page does not stop it. */
  async cancel(turnId: string, reason?: string): Promise<void> {
    const submission = this.#submissions.get(turnId)
    submission?.abort.abort()
    const path = CLIENT_ROUTES.runCancel.replace(':runId', encodeURIComponent(turnId))
    try {
      await this.#post(path, reason === undefined ? {} : { reason })
    } catch (error) {
      // It may not have reached the gateway.
      if (submission === undefined) throw error
    }
  }

  /** Allows or declines a tool call that waits for approval. The first answer counts. */
  async approve(turnId: string, approvalId: string, answer: ApprovalAnswer): Promise<void> {
    const path = CLIENT_ROUTES.runApproval
      .replace(':runId', encodeURIComponent(turnId))
      .replace(':approvalId', encodeURIComponent(approvalId))
    await this.#post(path, answer)
  }

  /** Deletes a thread and its turns. */
  async delete(threadId: string): Promise<void> {
    const path = CLIENT_ROUTES.thread.replace(':threadId', encodeURIComponent(threadId))
    await this.#requests.sendUntilAnswered(path, { method: 'DELETE' })
  }

  async #post(path: string, body: object, signal?: AbortSignal): Promise<void> {
    const init = { method: 'POST', body, ...(signal && { signal }) } as const
    await this.#requests.sendUntilAnswered(path, init)
  }
}

/** Values by key, as long as somebody else holds them. */
class WeakValues<T extends object> {
  readonly #values = new Map<string, WeakRef<T>>()
  readonly #collected = new FinalizationRegistry((key: string) => {
    if (this.peek(key) === undefined) this.#values.delete(key)
  })

  peek(key: string): T | undefined {
    return this.#values.get(key)?.deref()
  }

  get(key: string, create: () => T): T {
    return this.peek(key) ?? this.set(key, create())
  }

  set(key: string, value: T): T {
    this.#values.set(key, new WeakRef(value))
    this.#collected.register(value, key)
    return value
  }
}
