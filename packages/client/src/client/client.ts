import type { Clock } from '@turnstream/core/internal/async/clock'
import type { Context, Share } from './live.ts'
import { currentClock, type PageLifecycle, pageLifecycle } from './page.ts'
import { path } from './paths.ts'
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
import { createThread, type Thread } from './thread.ts'
import { createTurn, type Turn } from './turn.ts'

export interface ClientOptions {
  /** URL of the gateway, such as `https://gateway.example.com`. Default: the origin of the page. */
  readonly baseUrl?: string
  /** An API key, or a function that returns one and is called for every request. */
  readonly token?: Token | undefined
  /** Called when a request is refused with 401 or 403, also while reconnecting. Returns the token for one more try. */
  readonly onAuth?: OnAuth | undefined
  /** Called when a submit or another command is sent, waits to be sent again, and is answered. */
  readonly onDelivery?: ((delivery: Delivery) => void) | undefined
  /** Shows tool calls while the model still writes their arguments, as `toolArgumentsText`. Default false. */
  readonly streamArguments?: boolean
  /** Uses one connection for all pages of the browser: `shareConnections()` of `turnstream/client/share`. */
  readonly share?: Share
  /** Sends all requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch
  /** The time, for tests. */
  readonly clock?: Clock
  /** Returns a number from 0 to 1, for jitter. Default `Math.random`. */
  readonly random?: () => number
  /** The page, for tests. Default: the browser's. */
  readonly page?: PageLifecycle
}

export interface Client {
  /**
   * Returns the turn with this id. Callers with the same id share a connection.
   *
   * @example
   * const { turn } = await client.turn(turnId).done()
   */
  readonly turn: (turnId: string) => Turn
  /**
   * Returns the thread with this id. Callers with the same id share a connection.
   *
   * @example
   * const thread = client.thread(threadId)
   * const unsubscribe = thread.subscribe(() => render(thread.getSnapshot().turns))
   */
  readonly thread: (threadId: string) => Thread
  /** Lists threads, the most recently changed first. */
  readonly threads: (page?: {
    limit?: number | undefined
    cursor?: string | undefined
  }) => Promise<ThreadList>
  /**
   * Submits a turn and returns it at once, with the messages of the user in it and in its thread. The request is sent
   * again until the gateway answers: its ids make that safe. `turn.accepted()` settles with the answer.
   *
   * @example
   * const turn = client.submit({ prompt: 'Hello', threadId })
   * await turn.done()
   */
  readonly submit: (request: SubmitRequest) => Turn
  /**
   * Answers tool calls of the last turn, which starts the next one.
   *
   * @example
   * client.answer(threadId, [{ callId, output: { celsius: 21 } }])
   */
  readonly answer: (
    threadId: string,
    answers: readonly ToolAnswer[],
    settings?: TurnSettings,
  ) => Turn
  /** Stops a turn, wherever it runs. What was written stays. Leaving the page does not stop it. */
  readonly cancel: (turnId: string, reason?: string) => Promise<void>
  /**
   * Allows or declines a tool call that waits for approval. The first answer counts.
   *
   * @example
   * await client.approve(turnId, approvalId, { approved: false, reason: 'Too expensive' })
   */
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
export const createClient = (options: ClientOptions = {}): Client => {
  const { baseUrl = '', streamArguments } = options
  const config = {
    clock: currentClock,
    page: pageLifecycle(),
    ...options,
    baseUrl: baseUrl.replace(/\/+$/, ''),
    query: `/stream?${streamArguments ? 'arguments=stream' : ''}`,
  }
  const context: Context = { ...config, ...createRequests(config) }
  const { send, deliver } = context
  const turns = weakValues((turnId) => createTurn(context, turnId))
  const threads = weakValues((threadId) => createThread(context, threadId))
  /** How to abandon submits that are not answered yet, by turn. */
  const unsent = new Map<string, () => void>()

  const client: Client = {
    turn: turns.get,
    thread: threads.get,

    async threads(page = {}) {
      const query = new URLSearchParams(JSON.parse(JSON.stringify(page)))
      return (await send(`/api/v2/threads?${query}`)).json()
    },

    submit(request) {
      const { turnId = newId(), threadId = newId() } = request
      const body = { ...request, turnId, threadId }
      const accepted = deliver('/api/v2/submit', body, (abandon) =>
        unsent.set(turnId, abandon),
      ).finally(() => unsent.delete(turnId))
      const turn = createTurn(context, turnId, optimisticTurn(body), accepted)
      threads.get(threadId).add(turns.set(turnId, turn))
      return turn
    },

    answer: (threadId, answers, settings) =>
      client.submit({ ...settings, threadId, input: answers.map(toInput) }),

    cancel(turnId, reason) {
      const abandon = unsent.get(turnId)
      abandon?.()
      return deliver(path`/api/v2/runs/${turnId}/cancel`, { reason }).catch((error) => {
        // It may not have reached the gateway.
        if (!abandon) throw error
      })
    },

    approve: (turnId, approvalId, answer) =>
      deliver(path`/api/v2/runs/${turnId}/approvals/${approvalId}`, answer),

    delete: (threadId) =>
      deliver(path`/api/v2/threads/${threadId}`).catch((error) => {
        if (error.status !== 404) throw error
      }),
  }
  return client
}

/** Values by key, created on demand. Each stays while it is referenced elsewhere. */
const weakValues = <T extends object>(create: (key: string) => T) => {
  const references = new Map<string, WeakRef<T>>()
  const set = (key: string, value: T) => {
    for (const [each, reference] of references) if (!reference.deref()) references.delete(each)
    references.set(key, new WeakRef(value))
    return value
  }
  return { set, get: (key: string) => references.get(key)?.deref() ?? set(key, create(key)) }
}
