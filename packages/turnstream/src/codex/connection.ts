import type { Readable, Writable } from 'node:stream'
import { type Clock, within } from '@turnstream/core/internal/async/clock'
import { asFields } from '@turnstream/core/internal/formats/fields'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { isRecord, parseJsonSafe } from '@turnstream/core/internal/protocol/json'
import { LineDecoder } from '@turnstream/core/internal/sse/lines'

export type Params = Record<string, unknown>

/** A notification, or a request if it has an id. An event of the Responses API has its type as method. */
export interface Incoming {
  readonly method: string
  readonly id?: string | number
  readonly params: Params
  readonly size: number
}

// One line holds a whole item: a tool result or a long text.
const MAX_LINE_CHARS = 64 * 1024 * 1024
const METHOD_NOT_FOUND = -32601
/** Invalid request, and invalid parameters. */
const INVALID: ReadonlySet<unknown> = new Set([-32600, -32602])
const MAX_REASON_CHARS = 500

interface Pending {
  resolve(result: Params): void
  reject(error: Error): void
}

export interface ConnectionOptions {
  readonly clock: Clock
  readonly requestTimeoutMs: number
  /** Returns whether a request of the app-server is taken. Others are refused at once. */
  readonly onMessage: (message: Incoming) => boolean
  /** The input is unreadable; nothing after it is read. */
  readonly onFault: (error: Error) => void
}

/** JSON-RPC in lines, without `jsonrpc`. Both sides number requests from 0: a message with a method is no answer. */
export class Connection {
  readonly #output: Writable
  readonly #options: ConnectionOptions
  readonly #pending = new Map<number, Pending>()
  readonly #lines = new LineDecoder({ maxLineChars: MAX_LINE_CHARS })
  #nextId = 0
  #closed: Error | undefined

  constructor(input: Readable, output: Writable, options: ConnectionOptions) {
    this.#output = output
    this.#options = options
    input.on('data', (chunk: Uint8Array) => this.#read(chunk))
    // The exit of the process has the reason; a write to a closed pipe must not end ours.
    output.on('error', () => {})
    input.on('error', () => {})
  }

  async request(method: string, params: Params): Promise<Params> {
    if (this.#closed !== undefined) throw this.#closed
    const id = this.#nextId++
    const answer = new Promise<Params>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject })
    })
    this.#send({ method, id, params })
    const { clock, requestTimeoutMs } = this.#options
    const toError = () =>
      new TurnstreamError('UPSTREAM_TIMEOUT', `codex did not answer ${method} in time`)
    try {
      return await within(answer, requestTimeoutMs, clock, toError)
    } finally {
      this.#pending.delete(id)
    }
  }

  respond(id: string | number, result: Params): void {
    this.#send({ id, result })
  }

  notify(method: string): void {
    this.#send({ method })
  }

  /** Rejects what is pending, and every later request. */
  close(reason: Error): void {
    this.#closed ??= reason
    for (const pending of this.#pending.values()) pending.reject(reason)
    this.#pending.clear()
  }

  #send(message: object): void {
    this.#output.write(`${JSON.stringify(message)}\n`)
  }

  #read(chunk: Uint8Array): void {
    if (this.#closed !== undefined) return
    try {
      for (const line of this.#lines.feed(chunk)) this.#decode(line)
    } catch (error) {
      this.#options.onFault(error instanceof Error ? error : new Error(String(error)))
    }
  }

  /** Ignores lines that are not messages, as the app-server does. */
  #decode(line: string): void {
    const message = parseJsonSafe(line)
    if (!isRecord(message)) return
    const { method, type, id } = message
    if (typeof method === 'string') return this.#receive(method, message, line.length)
    if (isForwarded(type)) {
      this.#options.onMessage({ method: type, params: message, size: line.length })
      return
    }
    if (typeof id !== 'number') return
    const pending = this.#pending.get(id)
    const { error, result } = message
    if (isRecord(error)) pending?.reject(toRefusal(error))
    else pending?.resolve(asFields(result))
  }

  #receive(method: string, { id, params }: Params, size: number): void {
    const isRequest = typeof id === 'string' || typeof id === 'number'
    const incoming = { method, params: asFields(params), size }
    const isTaken = this.#options.onMessage(isRequest ? { ...incoming, id } : incoming)
    // An open request would wait forever.
    if (isRequest && !isTaken) {
      this.#send({ id, error: { code: METHOD_NOT_FOUND, message: `${method} is not supported` } })
    }
  }
}

/** An error as the answer to a request. The list of all methods may follow the reason. */
function toRefusal({ code: rpcCode, message }: Params): TurnstreamError {
  const code = INVALID.has(rpcCode) ? 'OPTION_INVALID' : 'UPSTREAM_UNREACHABLE'
  return new TurnstreamError(code, `codex refused: ${String(message).slice(0, MAX_REASON_CHARS)}`)
}

/** Whether a method or type is that of an event of the Responses API. */
export function isResponseEvent(name: unknown): name is string {
  return typeof name === 'string' && name.startsWith('response.')
}

/** Whether it is forwarded from the model's API, which may name no thread. The app-server's own errors name one. */
export function isForwarded(name: unknown): name is string {
  return name === 'error' || isResponseEvent(name)
}
