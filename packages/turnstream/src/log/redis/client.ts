import { createHash } from 'node:crypto'
import { type Clock, monotonicNow, sleep } from '@turnstream/core/internal/async/clock'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { storeClosed } from '../rules.ts'
import type { RedisConnection } from './connection.ts'
import { failureOf, storeError } from './replies.ts'

/** A Lua script: a header with its inputs and outputs, then its source. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

export type ScriptArgs = readonly (string | number)[]

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') }
}

const FIRST_PAUSE_MS = 5
const MAX_PAUSE_MS = 200

/** How often to check for calls without a reply, per call timeout. */
const LOOKS_PER_LIMIT = 8

interface PendingCommand {
  readonly key: string
  /** How to send it next: a script unknown to the node is sent as source. */
  args: string[]
  readonly script: Script | undefined
  readonly deadline: number
  resolve(reply: unknown): void
  reject(error: unknown): void
}

/** Sends scripts and commands, with retries while the server is unavailable: all must be idempotent. */
export class RedisClient {
  readonly #connection: RedisConnection
  readonly #unavailableAfterMs: number
  readonly #clock: Clock
  readonly #pending = new Set<PendingCommand>()
  #cancelLook: (() => void) | undefined
  #closed = false
  #drained: (() => void) | undefined

  constructor(connection: RedisConnection, unavailableAfterMs: number, clock: Clock) {
    this.#connection = connection
    this.#unavailableAfterMs = unavailableAfterMs
    this.#clock = clock
  }

  run(script: Script, keys: readonly string[], args: ScriptArgs): Promise<unknown> {
    const sent = ['EVALSHA', script.sha, String(keys.length)]
    for (const key of keys) sent.push(key)
    for (const arg of args) sent.push(typeof arg === 'string' ? arg : String(arg))
    return this.#call(keys[0] ?? '', sent, script)
  }

  command(name: string, key: string, ...args: string[]): Promise<unknown> {
    return this.#call(key, [name, key, ...args])
  }

  checkOpen(): void {
    if (this.#closed) throw storeClosed()
  }

  /** Refuses new calls and waits for those in flight. */
  async close(): Promise<void> {
    this.#closed = true
    if (this.#pending.size > 0) {
      await new Promise<void>((resolve) => {
        this.#drained = resolve
      })
    }
    this.#cancelLook?.()
  }

  #call(key: string, args: string[], script?: Script): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.checkOpen()
      const deadline = monotonicNow(this.#clock) + this.#unavailableAfterMs
      const call: PendingCommand = { key, args, script, deadline, resolve, reject }
      this.#pending.add(call)
      this.#cancelLook ??= this.#lookLater()
      this.#send(call, FIRST_PAUSE_MS)
    })
  }

  #send(call: PendingCommand, pauseMs: number): void {
    this.#connection.send(call.key, call.args).then(
      (reply) => {
        if (this.#settle(call)) call.resolve(reply)
      },
      (error: unknown) => this.#failed(call, error, pauseMs),
    )
  }

  #failed(call: PendingCommand, error: unknown, pauseMs: number): void {
    if (!this.#pending.has(call)) return
    const failure = failureOf(error)
    if (failure === 'noscript' && call.script !== undefined) {
      call.args = ['EVAL', call.script.lua, ...call.args.slice(2)]
      this.#send(call, pauseMs)
      return
    }
    const isOver = monotonicNow(this.#clock) + pauseMs >= call.deadline
    if (failure !== 'passing' || isOver) {
      this.#settle(call)
      call.reject(storeError(error))
      return
    }
    void sleep(pauseMs, this.#clock).then(() => {
      if (this.#pending.has(call)) this.#send(call, Math.min(pauseMs * 2, MAX_PAUSE_MS))
    })
  }

  /** False if it is already settled. */
  #settle(call: PendingCommand): boolean {
    const isPending = this.#pending.delete(call)
    if (this.#pending.size === 0) this.#drained?.()
    return isPending
  }

  /** Rejects calls without a reply. One shared timer: one per call would cost as much as the call itself. */
  #lookLater(): () => void {
    return this.#clock.after(this.#unavailableAfterMs / LOOKS_PER_LIMIT, () => {
      this.#cancelLook = undefined
      const now = monotonicNow(this.#clock)
      for (const call of this.#pending) {
        if (now < call.deadline) break
        this.#settle(call)
        const detail = `no reply within ${this.#unavailableAfterMs} ms`
        call.reject(new TurnstreamError('STORE_UNAVAILABLE', detail))
      }
      if (this.#pending.size > 0) this.#cancelLook = this.#lookLater()
    })
  }
}
