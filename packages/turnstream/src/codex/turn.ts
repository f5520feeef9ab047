import type { Clock } from '@turnstream/core/internal/async/clock'
import { Deferred } from '@turnstream/core/internal/async/deferred'
import { Fifo } from '@turnstream/core/internal/async/fifo'
import { IdleTimer } from '@turnstream/core/internal/async/idle-timer'
import { onAbort } from '@turnstream/core/internal/async/on-abort'
import type { Translation } from '@turnstream/core/internal/formats/translation'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord } from '@turnstream/core/internal/protocol/json'
import type {
  ErrorObject,
  StreamEventPayload,
} from '@turnstream/core/internal/protocol/stream-event'
import type { ProviderStream } from '../providers/provider.ts'
import type { AgentTurn } from './agent-turn.ts'
import type { AppServer } from './app-server.ts'
import { PROVIDER } from './config.ts'
import type { Incoming, Params } from './connection.ts'
import { FinishedCalls } from './finished-calls.ts'
import { OpenCalls } from './open-calls.ts'
import type { CodexRequest } from './request.ts'
import type { CodexSupervisor } from './supervisor.ts'

/** Unread messages of one turn. codex does not wait for slow readers, so this bounds what they cost. */
const MAX_QUEUED_CHARS = 32 * 1024 * 1024

/** Nothing followed the complete calls of a response. */
const QUIET = Symbol('quiet')

interface TurnParts {
  readonly stream: ProviderStream
  readonly translation: Translation
  readonly clock: Clock
  readonly idleMs: number
  readonly maxTurnMs: number
  readonly quietMs: number
  readonly supervisor: CodexSupervisor
  readonly agent?: AgentTurn | undefined
}

/** One request: a new thread with the history, and one turn, interrupted when the model has called client tools. */
export class CodexTurn {
  readonly #parts: TurnParts
  readonly #silence: IdleTimer
  readonly #openCalls: OpenCalls
  readonly #finishedCalls: FinishedCalls
  /** Messages in order, then the reason why no more follow. */
  #queue = new Fifo<Incoming | ErrorObject | typeof QUIET>()
  #queuedChars = 0
  #isDraining = false
  #originalName: (name: string) => string = (name) => name
  #turnId: string | undefined
  #hasCalls = false
  /** After an interrupt only the end of the turn counts: codex may already ask the model again. */
  #state: 'running' | 'interrupted' | 'over' = 'running'
  #thread: { readonly server: AppServer; readonly threadId: string } | undefined
  #isFinished = false
  readonly #finished = new Deferred()

  constructor(parts: TurnParts) {
    this.#parts = parts
    const message = `codex was silent for ${parts.idleMs / 1000} s`
    this.#silence = new IdleTimer(parts.idleMs, parts.clock, () => {
      this.#fail({ code: 'UPSTREAM_TIMEOUT', message })
    })
    this.#openCalls = new OpenCalls(parts.quietMs, parts.clock, this.#respond)
    this.#finishedCalls = new FinishedCalls(parts.quietMs, parts.clock, () => this.#enqueue(QUIET))
  }

  /** Never rejects: a failure is the end of the response. */
  async run(build: () => CodexRequest): Promise<void> {
    const { stream, supervisor, clock, maxTurnMs } = this.#parts
    const message = `codex did not finish within ${maxTurnMs / 1000} s`
    const stopLimit = clock.after(maxTurnMs, () =>
      this.#fail({ code: 'UPSTREAM_TIMEOUT', message }),
    )
    let server: AppServer | undefined
    try {
      const request = build()
      this.#originalName = request.originalName
      server = await supervisor.acquire()
      if (!stream.signal.aborted && !this.#isFinished) await this.#runOn(server, request)
    } catch (error) {
      this.#fail(faultOf(error))
      await this.#finished.promise
    } finally {
      stopLimit()
      this.#silence.stop()
      this.#openCalls.stop()
      this.#finishedCalls.stop()
      stream.complete()
      if (server !== undefined) supervisor.release(server)
    }
  }

  async #runOn(server: AppServer, request: CodexRequest): Promise<void> {
    const { stream, agent } = this.#parts
    const { signal } = stream
    const { thread, modelProvider } = await server.request('thread/start', request.thread)
    const threadId = isRecord(thread) ? thread['id'] : undefined
    if (typeof threadId !== 'string') throw malformed('thread/start has no thread id')
    // codex reads its configuration again for each thread.
    if (modelProvider !== PROVIDER) throw malformed('codex chose another provider')
    this.#thread = { server, threadId }
    const stopListening = server.listen(threadId, {
      onMessage: (message) => this.#receive(message),
      onFault: ({ code, message }) => this.#enqueue({ code, message }),
    })
    const stopWatching = onAbort(signal, () => this.#finish())
    this.#silence.startWait()
    try {
      if (signal.aborted || this.#isFinished) return
      const { items } = request
      const requests = [
        server.request('thread/inject_items', { threadId, items }),
        server.request('turn/start', { threadId, ...request.turn }),
      ] as const
      // Both are awaited: a turn that started although the other failed must be interrupted.
      const [, started] = await Promise.allSettled(requests)
      const turn = started.status === 'fulfilled' ? started.value['turn'] : undefined
      // The notification of the start may come before the answer, or after it.
      if (isRecord(turn) && typeof turn['id'] === 'string') this.#turnId ??= turn['id']
      await Promise.all(requests)
      await this.#finished.promise
    } finally {
      stopWatching()
      if (this.#state === 'running') this.#interrupt()
      stopListening()
      // Commands that the model left running.
      if (agent !== undefined) this.#request('thread/backgroundTerminals/clean')
      this.#request('thread/unsubscribe')
    }
  }

  /** Does not wait for the answer: the thread is over either way. */
  #request(method: string, params: Params = {}): void {
    const { server, threadId } = this.#thread ?? {}
    server?.request(method, { threadId, ...params }).catch(() => {})
  }

  readonly #respond = (id: string | number, result: Params): void => {
    // An interrupt resolves open calls. An answer before it would let the model continue.
    if (this.#state !== 'running' || this.#parts.stream.signal.aborted) return
    this.#thread?.server.respond(id, result)
  }

  #finish(): void {
    this.#isFinished = true
    this.#finished.resolve()
  }

  #interrupt(): void {
    this.#state = 'interrupted'
    if (this.#turnId !== undefined) this.#request('turn/interrupt', { turnId: this.#turnId })
  }

  #receive(message: Incoming): boolean {
    const { agent } = this.#parts
    const admitted = agent === undefined ? [message] : agent.admit(message)
    if (agent?.isBusy) this.#silence.endWait()
    else this.#silence.startWait()
    for (const each of admitted) this.#keep(each)
    return agent === undefined ? this.#openCalls.apply(message) : agent.takes(message)
  }

  #keep(message: Incoming): void {
    this.#queuedChars += message.size
    if (this.#queuedChars <= MAX_QUEUED_CHARS) return this.#enqueue(message)
    const text = `more than ${MAX_QUEUED_CHARS} characters from codex are unread`
    this.#fail({ code: 'BACKPRESSURE', message: text })
  }

  /** Ends the response in place of what is queued. */
  #fail(fault: ErrorObject): void {
    this.#queue = new Fifo()
    this.#enqueue(fault)
  }

  #enqueue(next: Incoming | ErrorObject | typeof QUIET): void {
    this.#queue.push(next)
    if (!this.#isDraining) void this.#drain()
  }

  /** Moves messages into the stream at the reader's pace. */
  async #drain(): Promise<void> {
    this.#isDraining = true
    while (this.#queue.size > 0) {
      const next = this.#queue.shift()
      // What arrived meanwhile ends the silence.
      if (next === QUIET && this.#queue.size > 0) continue
      const isLast = next === QUIET || 'code' in next
      const payloads = this.#toPayloads(next)
      if ((await this.#add(payloads)) || isLast) return this.#finish()
    }
    this.#isDraining = false
  }

  #toPayloads(next: Incoming | ErrorObject | typeof QUIET): readonly StreamEventPayload[] {
    const { translation } = this.#parts
    if (next === QUIET) return translation.end()
    if ('code' in next) return translation.end(next)
    const payloads = this.#translate(next)
    this.#finishedCalls.apply(next.method, payloads)
    return payloads
  }

  #translate(message: Incoming): readonly StreamEventPayload[] {
    const { agent } = this.#parts
    const { method, params, size } = message
    this.#queuedChars -= size
    if (method === 'turn/started' && isRecord(params['turn'])) {
      this.#turnId ??= String(params['turn']['id'])
    }
    if (this.#state === 'interrupted' && method !== 'turn/completed') return []
    if (agent?.takes(message)) return agent.decide(message, this.#respond)
    // Injected items are echoed under the id of another turn.
    if (params['turnId'] !== undefined && params['turnId'] !== this.#turnId) return []
    if (this.#openCalls.isEcho(message)) return []
    const payloads = this.#parts.translation.translate({ method, params: this.#restore(message) })
    if (method === 'turn/completed') this.#state = 'over'
    else if (method === 'rawResponse/completed' && this.#hasCalls) this.#interrupt()
    return payloads
  }

  /** Gives tools the names that the client knows. */
  #restore({ method, params }: Incoming): Params {
    const { item } = params
    if (!isRecord(item)) return params
    const isRawCall = method === 'rawResponseItem/completed' && item['type'] === 'function_call'
    if (isRawCall) this.#hasCalls = true
    const field = item['type'] === 'dynamicToolCall' ? 'tool' : 'name'
    const name = item[field]
    if (typeof name !== 'string') return params
    return { ...params, item: { ...item, [field]: this.#originalName(name) } }
  }

  async #add(payloads: readonly StreamEventPayload[]): Promise<boolean> {
    try {
      return await this.#parts.stream.addUntilEnd(payloads)
    } catch {
      return true // the reader has left
    }
  }
}

function faultOf(error: unknown): ErrorObject {
  const message = error instanceof Error ? error.message : String(error)
  const code = error instanceof TurnstreamError ? error.code : 'UPSTREAM_UNREACHABLE'
  return { code, message }
}

function malformed(reason: string): TurnstreamError {
  return new TurnstreamError('UPSTREAM_MALFORMED', reason)
}
