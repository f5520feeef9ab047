import { translateCodex } from '../adapters/codex/translate.ts'
import {
  CODEX_ID,
  type ProcessHealth,
  type Provider,
  ProviderStream,
} from '../adapters/provider.ts'
import { unsupportedSettings } from '../adapters/settings.ts'
import type { Translation } from '../adapters/translation.ts'
import { concealing } from '../adapters/vendor-errors.ts'
import { type Clock, systemClock } from '../async/clock.ts'
import { IdleTimer } from '../async/idle-timer.ts'
import { onAbort } from '../async/on-abort.ts'
import { TurnstreamError } from '../protocol/errors.ts'
import { isRecord } from '../protocol/json.ts'
import { redacting } from '../protocol/redaction.ts'
import type { ErrorObject, StreamEventPayload } from '../protocol/stream-event.ts'
import type { CodexAgent } from './agent.ts'
import { AgentTurn } from './agent-turn.ts'
import type { AppServer } from './app-server.ts'
import { findCodex } from './binary.ts'
import type { Incoming, Params } from './connection.ts'
import { type ModelProvider, writeCodexHome } from './home.ts'
import { buildAgentRequest, buildCodexRequest, type CodexRequest } from './request.ts'
import { CODEX_SETTINGS } from './settings.ts'
import { CodexSupervisor } from './supervisor.ts'

export interface CodexProviderOptions {
  /** Provider id of its responses. `codex` by default. */
  id?: string
  /** The codex binary. By default from an installed `@openai/codex`, or `codex` in the `PATH`. */
  binary?: string
  /** `CODEX_HOME`: a separate directory, created with the first process. */
  home: string | (() => string)
  /** A directory whose files the home starts with, such as the `auth.json` of a login. */
  homeTemplate?: string
  /** Models that requests may name; the first is the default. */
  models: readonly string[]
  /** The Responses API that codex calls. */
  modelProvider: ModelProvider
  /** Lets codex work with its own tools, in a directory. Without it codex is a plain model server. */
  agent?: CodexAgent
  /** Environment of the process. `PATH`, proxies, certificates and the provider's key are passed on. */
  env?: Readonly<Record<string, string | undefined>>
  /** Silence of codex after which a turn fails. 300 s by default. */
  idleTimeoutMs?: number
  /** Total time of a call, after which it fails. 30 minutes by default. */
  maxTurnMs?: number
  /** Limit for the start of the process, and for its answers. 20 s by default. */
  requestTimeoutMs?: number
  /** Threads after which the process is replaced. 200 by default. */
  maxThreads?: number
  /** Memory after which the process is replaced. 1 GiB by default. */
  maxResidentBytes?: number
  clock?: Clock
  onLog?: (line: string) => void
  onUnknown?: (type: string) => void
}

/** A codex app-server as a provider. Its process starts with the first turn; `stop` ends it. */
export interface CodexProvider extends Provider {
  readonly health: ProcessHealth
  stop(): Promise<void>
}

const IDLE_MS = 300_000
const MAX_TURN_MS = 1_800_000
const REQUEST_MS = 20_000
const MAX_THREADS = 200
const MAX_RESIDENT_BYTES = 2 ** 30

/** Variables that the process needs to reach the model provider. */
const PASSED_ON = [
  'PATH',
  'HTTP_PROXY',
  'HTTPS_PROXY',
  'NO_PROXY',
  'http_proxy',
  'https_proxy',
  'no_proxy',
  'SSL_CERT_FILE',
  'SSL_CERT_DIR',
]

/** Runs a real `codex app-server` and calls it as a model. */
export function createCodexProvider(options: CodexProviderOptions): CodexProvider {
  const { id = CODEX_ID, models, modelProvider, agent, clock = systemClock } = options
  const idleMs = options.idleTimeoutMs ?? IDLE_MS
  const env = childEnvironment(options.env ?? process.env, modelProvider)
  const { baseUrl, keyVariable = '' } = modelProvider
  const apiKey = env[keyVariable]
  const redact = redacting(apiKey === undefined ? [] : [apiKey])
  const conceal = concealing({
    ...(baseUrl !== undefined && { baseUrl }),
    ...(apiKey !== undefined && { apiKey }),
  })
  const supervisor = new CodexSupervisor({
    prepare() {
      const home = typeof options.home === 'string' ? options.home : options.home()
      const template = options.homeTemplate
      writeCodexHome({ directory: home, models, modelProvider, idleMs, template, agent })
      return { home, binary: findCodex(options.binary, env['PATH']) }
    },
    env,
    clock,
    requestTimeoutMs: options.requestTimeoutMs ?? REQUEST_MS,
    maxThreads: options.maxThreads ?? MAX_THREADS,
    maxResidentBytes: options.maxResidentBytes ?? MAX_RESIDENT_BYTES,
    onLog: (line) => options.onLog?.(redact(line)),
  })
  return {
    id,
    get health() {
      return supervisor.health
    },
    stop: () => supervisor.stop(),
    unsupported: (request) => unsupportedSettings(CODEX_SETTINGS, request),
    stream(request, { onUnknown = options.onUnknown, isApproved, ...run }, signal) {
      const stream = new ProviderStream(signal, clock)
      const context = { ...run, providerId: id, modelId: request.model, now: () => clock.now() }
      const translation = translateCodex({ ...context, onUnknown, conceal })
      const build = () =>
        agent ? buildAgentRequest(request, agent, models) : buildCodexRequest(request)
      const limits = { idleMs, maxTurnMs: options.maxTurnMs ?? MAX_TURN_MS }
      const parts = { stream, translation, clock, supervisor, ...limits }
      const turn = new CodexTurn({ ...parts, agent: agent && new AgentTurn(agent, isApproved) })
      void turn.run(build)
      return stream
    },
  }
}

function childEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  { keyVariable }: ModelProvider,
): Record<string, string> {
  const names = keyVariable === undefined ? PASSED_ON : [...PASSED_ON, keyVariable]
  return Object.fromEntries(names.flatMap((name) => (env[name] ? [[name, env[name]]] : [])))
}

/** Unread messages of one turn. codex does not wait for slow readers, so this bounds what they cost. */
const MAX_QUEUED_CHARS = 32 * 1024 * 1024

interface TurnParts {
  readonly stream: ProviderStream
  readonly translation: Translation
  readonly clock: Clock
  readonly idleMs: number
  readonly maxTurnMs: number
  readonly supervisor: CodexSupervisor
  /** Set if codex uses its own tools. */
  readonly agent?: AgentTurn | undefined
}

const CALL_OF_CLIENT_TOOL = 'item/tool/call'

/**
 * One request: a new thread, the history injected, one turn. When the model has called tools of the client, the
 * turn is interrupted: the client answers with another request.
 */
class CodexTurn {
  readonly #parts: TurnParts
  readonly #silence: IdleTimer
  /** Messages in order, then the reason why no more follow. */
  #queue: (Incoming | ErrorObject)[] = []
  #queuedChars = 0
  #isDraining = false
  #originalName: (name: string) => string = (name) => name
  #turnId: string | undefined
  #hasCalls = false
  /** After an interrupt only the end of the turn counts: codex may already ask the model again. */
  #state: 'running' | 'interrupted' | 'over' = 'running'
  #requestInterrupt = (_turnId: string): void => {}
  #respond = (_id: string | number, _result: Params): void => {}
  #finish: () => void = () => {}
  readonly #finished = new Promise<void>((resolve) => {
    this.#finish = resolve
  })

  constructor(parts: TurnParts) {
    this.#parts = parts
    const message = `codex was silent for ${parts.idleMs / 1000} s`
    this.#silence = new IdleTimer(parts.idleMs, parts.clock, () => {
      this.#fail({ code: 'UPSTREAM_TIMEOUT', message })
    })
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
      if (!stream.signal.aborted) await this.#runOn(server, request)
    } catch (error) {
      this.#fail(faultOf(error))
      await this.#finished
    } finally {
      stopLimit()
      this.#silence.stop()
      stream.complete()
      if (server !== undefined) supervisor.release(server)
    }
  }

  async #runOn(server: AppServer, request: CodexRequest): Promise<void> {
    const { stream, agent } = this.#parts
    const { signal } = stream
    const { thread } = await server.request('thread/start', request.thread)
    const threadId = isRecord(thread) ? thread['id'] : undefined
    if (typeof threadId !== 'string') throw malformed('thread/start has no thread id')
    this.#requestInterrupt = (turnId) =>
      ignore(server.request('turn/interrupt', { threadId, turnId }))
    this.#respond = (id, result) => server.respond(id, result)
    const stopListening = server.listen(threadId, {
      onMessage: (message) => this.#receive(message),
      onExit: ({ code, message }) => this.#enqueue({ code, message }),
    })
    const stopWatching = onAbort(signal, () => this.#finish())
    this.#silence.startWait()
    try {
      if (signal.aborted) return
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
      await this.#finished
    } finally {
      stopWatching()
      if (this.#state === 'running') this.#interrupt()
      stopListening()
      // Commands that the model left running.
      if (agent !== undefined)
        ignore(server.request('thread/backgroundTerminals/clean', { threadId }))
      ignore(server.request('thread/unsubscribe', { threadId }))
    }
  }

  #interrupt(): void {
    this.#state = 'interrupted'
    if (this.#turnId !== undefined) this.#requestInterrupt(this.#turnId)
  }

  /**
   * Returns whether a request is answered here. A call of a client tool never is: the turn is interrupted instead, which
   * resolves it.
   */
  #receive(message: Incoming): boolean {
    const { agent } = this.#parts
    const admitted = agent === undefined ? [message] : agent.admit(message)
    if (agent?.isBusy) this.#silence.endWait()
    else this.#silence.startWait()
    for (const each of admitted) this.#keep(each)
    return agent === undefined ? message.method === CALL_OF_CLIENT_TOOL : agent.takes(message)
  }

  #keep(message: Incoming): void {
    this.#queuedChars += message.size
    if (this.#queuedChars <= MAX_QUEUED_CHARS) return this.#enqueue(message)
    const text = `more than ${MAX_QUEUED_CHARS} characters from codex are unread`
    this.#fail({ code: 'BACKPRESSURE', message: text })
  }

  /** Ends the response in place of what is queued. */
  #fail(fault: ErrorObject): void {
    this.#queue = []
    this.#enqueue(fault)
  }

  #enqueue(next: Incoming | ErrorObject): void {
    this.#queue.push(next)
    if (!this.#isDraining) void this.#drain()
  }

  /** Moves messages into the stream at the reader's pace. */
  async #drain(): Promise<void> {
    this.#isDraining = true
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      const isLast = 'code' in next
      const payloads = 'code' in next ? this.#parts.translation.end(next) : this.#translate(next)
      if ((await this.#add(payloads)) || isLast) return this.#finish()
    }
    this.#isDraining = false
  }

  #translate(message: Incoming): readonly StreamEventPayload[] {
    const { method, params, size } = message
    this.#queuedChars -= size
    if (method === 'turn/started' && isRecord(params['turn'])) {
      this.#turnId ??= String(params['turn']['id'])
    }
    if (this.#state === 'interrupted' && method !== 'turn/completed') return []
    if (this.#parts.agent?.takes(message)) return this.#decide(this.#parts.agent, message)
    // Injected items are echoed under the id of another turn.
    if (params['turnId'] !== undefined && params['turnId'] !== this.#turnId) return []
    const payloads = this.#parts.translation.translate({ method, params: this.#restore(message) })
    if (method === 'turn/completed') this.#state = 'over'
    else if (method === 'rawResponse/completed' && this.#hasCalls) this.#interrupt()
    return payloads
  }

  /** Answers a request for approval, and returns its item. */
  #decide(agent: AgentTurn, { id = '', params }: Incoming): readonly StreamEventPayload[] {
    const request = agent.decide(id, params, (result) => {
      // An interrupt resolves open calls. An answer before it would let the model continue.
      if (this.#state !== 'running' || this.#parts.stream.signal.aborted) return
      this.#respond(id, result)
    })
    return request === undefined ? [] : [request]
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

  /** Returns whether the response has ended. */
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

function ignore(promise: Promise<unknown>): void {
  promise.catch(() => {}) // the thread is over either way
}
