import type { Clock } from '../async/clock.ts'
import type { ClientError } from './errors.ts'
import type { Context, Share } from './live.ts'
import { currentClock, currentPage, type Page } from './page.ts'
import { path } from './paths.ts'
import { createRequests, type OnAuth, type Token } from './requests.ts'
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
import { createTurn, type Turn } from './turn.ts'

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
  /** How to stop submits that are not answered yet, by turn. Until then turn and thread are not collected. */
  const unsent = new Map<string, { cancel: () => void; turn: Turn; thread: OpenThread }>()

  const post = (to: string, body: object, onCancel?: (cancel: () => void) => void) =>
    deliver(to, { method: 'POST', body }, onCancel)

  const openThread = (threadId: string) =>
    threads.get(threadId) ?? threads.set(threadId, createThread(context, threadId))

  const client: Client = {
    turn(turnId) {
      const known = turns.get(turnId) ?? unsent.get(turnId)?.turn
      return known ?? turns.set(turnId, createTurn(context, turnId))
    },

    thread: openThread,

    async threads(page = {}) {
      const query = new URLSearchParams(page as Record<string, string>)
      return (await send(`/api/v2/threads?${query}`)).json()
    },

    submit(request) {
      const { turnId = newId(), threadId = newId() } = request
      const body = { ...request, turnId, threadId }
      const optimistic = optimisticTurn(body)
      const thread = openThread(threadId)
      let stop: (() => void) | undefined
      const accepted = post('/api/v2/submit', body, (cancel) => {
        stop = cancel
      }).finally(() => unsent.delete(turnId))
      const turn = turns.set(turnId, createTurn(context, turnId, optimistic, accepted))
      unsent.set(turnId, { cancel: () => stop?.(), turn, thread })
      thread.add(optimistic, accepted)
      return turn
    },

    answer(threadId, answers, settings) {
      return client.submit({ ...settings, threadId, input: answers.map(toInput) })
    },

    async cancel(turnId, reason) {
      const sending = unsent.get(turnId)
      sending?.cancel()
      try {
        await post(path`/api/v2/runs/${turnId}/cancel`, { reason })
      } catch (error) {
        // It may not have reached the gateway.
        if (!sending) throw error
      }
    },

    async approve(turnId, approvalId, answer) {
      try {
        await post(path`/api/v2/runs/${turnId}/approvals/${approvalId}`, answer)
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
        await deliver(path`/api/v2/threads/${threadId}`, { method: 'DELETE' })
      } catch (error) {
        if ((error as ClientError).status !== 404) throw error
      }
    },
  }
  return client
}

function createContext({ baseUrl = '', streamArguments, ...rest }: ClientOptions): Context {
  const options = {
    clock: currentClock,
    page: currentPage,
    ...rest,
    baseUrl: baseUrl.replace(/\/+$/, ''),
  }
  const query = `/stream?${streamArguments ? 'arguments=stream' : ''}`
  return { ...options, ...createRequests(options), query }
}

/** Values by key, as long as somebody else holds them. */
function weakValues<T extends object>() {
  const references = new Map<string, WeakRef<T>>()
  return {
    get: (key: string) => references.get(key)?.deref(),
    set(key: string, value: T) {
      for (const [each, reference] of references) if (!reference.deref()) references.delete(each)
      references.set(key, new WeakRef(value))
      return value
    },
  }
}
