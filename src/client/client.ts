import { type Clock, systemClock } from '../async/clock.ts'
import {
  APPROVAL_ROUTE,
  CANCEL_ROUTE,
  fillRoute,
  SUBMIT_ROUTE,
  THREAD_ROUTE,
  THREADS_ROUTE,
} from '../protocol/names.ts'
import type { ClientError } from './errors.ts'
import type { Context, Share } from './live.ts'
import { currentPage, type Page } from './page.ts'
import { createRequests, type Delivery, type OnAuth, type Token } from './requests.ts'
import {
  type ApprovalAnswer,
  newId,
  optimisticTurn,
  type SubmitRequest,
  type ThreadList,
  type ToolAnswer,
  type TurnSettings,
  toInput,
} from './submit.ts'
import { createThread, type OpenThread, type Thread } from './thread.ts'
import { createTurn, type Submission, type Turn } from './turn.ts'

export interface ClientOptions {
  /** Of the gateway, such as `https://gateway.example.com`. Default: that of the page. */
  readonly baseUrl?: string
  /** An API key, or a function that returns one and is called for every request. */
  readonly token?: Token | undefined
  /** Called when a request is refused with 401 or 403, also while reconnecting; returns the token to try once more with. */
  readonly onAuth?: OnAuth | undefined
  /** Shows tool calls while the model still writes their arguments, as `toolArgumentsText`. Default false. */
  readonly streamArguments?: boolean
  /** Uses one connection for all pages of the browser: `shareConnections()` of `turnstream/client/share`. */
  readonly share?: Share
  readonly fetch?: typeof fetch
  readonly clock?: Clock
  /** From 0 to 1, for jitter. Default `Math.random`. */
  readonly random?: () => number
  /** What is known of the page. Default: the browser's. */
  readonly page?: Page
}

export interface Client {
  /** Returns the turn with this id. Callers with the same id share a connection. */
  readonly turn: (turnId: string) => Turn
  /** Returns the thread with this id. Callers with the same id share a connection. */
  readonly thread: (threadId: string) => Thread
  /** Lists threads, the most recently changed first. */
  readonly threads: (page?: { limit?: number; cursor?: string }) => Promise<ThreadList>
  /**
   * Submits a turn and returns it at once, with the messages of the user in it and in its thread. The request is sent
   * again until the gateway answers: its ids make that safe. `turn.accepted()` says what the answer is.
   */
  readonly submit: (request: SubmitRequest) => Turn
  /** Answers tool calls of the last turn, which starts the next one. */
  readonly answer: (
    threadId: string,
    answers: readonly ToolAnswer[],
    settings?: TurnSettings,
  ) => Turn
  /** Stops a turn, wherever it runs. What was written stays. Leaving the page does not stop it. */
  readonly cancel: (turnId: string, reason?: string) => Promise<void>
  /** Allows or declines a tool call that waits for approval. The first answer counts. */
  readonly approve: (turnId: string, approvalId: string, answer: ApprovalAnswer) => Promise<void>
  /** Deletes a thread and its turns. One that does not exist is deleted already. */
  readonly delete: (threadId: string) => Promise<void>
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
  const context = createContext(options)
  const { send, deliver } = context
  const turns = weakValues<Turn>()
  const threads = weakValues<OpenThread>()
  /** Not answered yet, by turn. */
  const submissions = new Map<string, Submission & Delivery>()

  const post = (path: string, body: object) => deliver(path, { method: 'POST', body })

  const client: Client = {
    turn: (turnId) => turns.get(turnId) ?? turns.set(turnId, createTurn(context, turnId)),

    thread(threadId) {
      const known = threads.get(threadId)
      if (known) return known
      const thread = threads.set(threadId, createThread(context, threadId))
      for (const each of submissions.values()) {
        if (each.optimistic.threadId === threadId) thread.add(each)
      }
      return thread
    },

    async threads(page = {}) {
      const query = new URLSearchParams(page as Record<string, string>)
      return (await send(`${THREADS_ROUTE}?${query}`)).json()
    },

    submit(request) {
      const { turnId = newId(), threadId = newId() } = request
      const body = { ...request, turnId, threadId }
      const delivery = post(SUBMIT_ROUTE, body)
      const accepted = delivery.answered.finally(() => submissions.delete(turnId))
      // Whoever wants to know calls `accepted`.
      accepted.catch(() => {})
      const submission = { ...delivery, accepted, optimistic: optimisticTurn(body) }
      submissions.set(turnId, submission)
      threads.get(threadId)?.add(submission)
      return turns.set(turnId, createTurn(context, turnId, submission))
    },

    answer(threadId, answers, settings) {
      return client.submit({ ...settings, threadId, input: answers.map(toInput) })
    },

    async cancel(turnId, reason) {
      const submission = submissions.get(turnId)
      submission?.cancel()
      const body = reason === undefined ? {} : { reason }
      try {
        await post(fillRoute(CANCEL_ROUTE, turnId), body).answered
      } catch (error) {
        // It may not have reached the gateway.
        if (!submission) throw error
      }
    },

    async approve(turnId, approvalId, answer) {
      try {
        await post(fillRoute(APPROVAL_ROUTE, turnId, approvalId), answer).answered
      } catch (error) {
        // Sent again after a lost response, it may be the answer that counts.
        const { status, reason } = (error as ClientError).approval ?? {}
        const isSame =
          status === (answer.approved ? 'approved' : 'declined') && reason === answer.reason
        if (!isSame) throw error
      }
    },

    async delete(threadId) {
      try {
        await deliver(fillRoute(THREAD_ROUTE, threadId), { method: 'DELETE' }).answered
      } catch (error) {
        if ((error as ClientError).status !== 404) throw error
      }
    },
  }
  return client
}

function createContext({
  baseUrl = '',
  token,
  onAuth,
  streamArguments,
  share,
  // Called as a method it would not work.
  fetch = (...args) => globalThis.fetch(...args),
  clock = systemClock,
  random = Math.random,
  page = currentPage,
}: ClientOptions): Context {
  const options = {
    baseUrl: baseUrl.replace(/\/+$/, ''),
    token,
    onAuth,
    fetch,
    clock,
    random,
    page,
  }
  const query = `?arguments=${streamArguments ? 'stream' : 'final'}`
  return { ...options, ...createRequests(options), share, query }
}

/** Values by key, as long as somebody else holds them. */
function weakValues<T extends object>() {
  const references = new Map<string, WeakRef<T>>()
  const get = (key: string) => references.get(key)?.deref()
  const collected = new FinalizationRegistry((key: string) => {
    if (!get(key)) references.delete(key)
  })
  const set = (key: string, value: T) => {
    references.set(key, new WeakRef(value))
    collected.register(value, key)
    return value
  }
  return { get, set }
}
