import { Worker } from 'node:worker_threads'
import { CallSlots } from '@turnstream/core/internal/async/call-slots'
import { systemClock } from '@turnstream/core/internal/async/clock'
import { untilAborted } from '@turnstream/core/internal/async/on-abort'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { checkQuickly, schemaText } from './tool-arguments.ts'
import type { JsonSchema } from './tool-schema.ts'

export interface CheckRequest {
  /** JSON texts. */
  readonly schema: string
  readonly args: string
}

export type CheckResult = { readonly fault: string | undefined } | { readonly error: string }

export interface CheckOptions {
  /** Who made the call. One tenant uses one thread at a time, so that the others do not wait for it. */
  readonly tenant: string
  readonly signal: AbortSignal
}

export interface ArgumentsCheckerOptions {
  /** How long a check may take. Default 1 s. */
  readonly limitMs?: number
  /** How many checks of a tenant wait, beside the next one. Default 100. */
  readonly maxWaiting?: number
  /** How long a thread waits for its next check. Default 30 s. */
  readonly idleMs?: number
}

const MAX_THREADS = 2

/** Checks the arguments of calls. Schemas may have any regular expression: threads run what may be slow. */
export class ArgumentsChecker {
  readonly #options: ArgumentsCheckerOptions
  readonly #threads = new CallSlots(MAX_THREADS)
  /** The checks of a tenant run one at a time, so that those of other tenants get a thread in between. */
  readonly #queues = new Map<string, { readonly slots: CallSlots; checks: number }>()
  readonly #idle: CheckThread[] = []

  constructor(options: ArgumentsCheckerOptions = {}) {
    this.#options = options
  }

  /** Returns what is wrong with `args`, whose JSON is `text`. Throws for an unusable schema. TOOL_TIMEOUT. */
  async check(
    parameters: JsonSchema,
    args: Readonly<Record<string, unknown>>,
    text: string,
    options: CheckOptions,
  ): Promise<string | undefined> {
    const quick = checkQuickly(parameters, args, text)
    if (quick !== undefined) return quick.fault
    const request = { schema: schemaText(parameters), args: text }
    return untilAborted(this.#enqueue(request, options), options.signal)
  }

  async #enqueue(request: CheckRequest, options: CheckOptions): Promise<string | undefined> {
    const { tenant, signal } = options
    const { maxWaiting = 100 } = this.#options
    const queue = this.#queues.get(tenant) ?? { slots: new CallSlots(1), checks: 0 }
    if (queue.checks > maxWaiting) {
      throw new Error('too many calls wait until their arguments are checked')
    }
    this.#queues.set(tenant, queue)
    queue.checks += 1
    const run = () => this.#threads.run(signal, () => this.#run(request))
    try {
      return await queue.slots.run(signal, run)
    } finally {
      queue.checks -= 1
      if (queue.checks === 0) this.#queues.delete(tenant)
    }
  }

  async #run(request: CheckRequest): Promise<string | undefined> {
    const { limitMs = 1000, idleMs = 30_000 } = this.#options
    const thread = this.#idle.pop() ?? new CheckThread()
    try {
      const result = await thread.check(request, limitMs)
      if ('error' in result) throw new Error(result.error)
      return result.fault
    } finally {
      if (!thread.hasEnded) {
        this.#idle.push(thread)
        thread.endAfter(idleMs, () => {
          const place = this.#idle.indexOf(thread)
          if (place >= 0) this.#idle.splice(place, 1)
        })
      }
    }
  }
}

// In dist even when this file runs from src: a thread has no compiler.
const FILE = new URL('../../dist/turns/arguments-worker.js', import.meta.url)

const START_MS = 30_000
const MAX_HEAP_MB = 128

/** One thread. It keeps the process alive only while it checks. */
class CheckThread {
  readonly #worker: Worker
  readonly #ready: Promise<void>
  #onResult: ((result: CheckResult) => void) | undefined
  #onEnd: ((error: Error) => void) | undefined
  #cancelEnd = () => {}
  hasEnded = false

  constructor() {
    this.#worker = new Worker(FILE, {
      name: 'arguments',
      env: {},
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    })
    this.#ready = new Promise((resolve, reject) => {
      this.#onEnd = reject
      this.#worker.on('message', (message: 'ready' | CheckResult) => {
        if (message === 'ready') resolve()
        else this.#onResult?.(message)
      })
    })
    this.#ready.catch(() => {}) // handled by the first check
    this.#worker.on('error', (error) => this.#end(error))
    this.#worker.on('exit', (code) => this.#end(new Error(`the thread ended with code ${code}`)))
  }

  /** TOOL_TIMEOUT, and the thread ends, when the check takes too long. */
  async check(request: CheckRequest, limitMs: number): Promise<CheckResult> {
    this.#cancelEnd()
    this.#worker.ref()
    const cancelStart = systemClock.after(START_MS, () =>
      this.#end(new Error('the thread that checks arguments did not start')),
    )
    await this.#ready.finally(cancelStart)
    let isDone = false
    const detail = `the arguments were not checked within ${limitMs} ms`
    const late = new TurnstreamError('TOOL_TIMEOUT', detail)
    const cancel = systemClock.after(limitMs, () => {
      // A result that arrived while the event loop was busy comes first.
      setImmediate(() => isDone || this.#end(late))
    })
    return new Promise<CheckResult>((resolve, reject) => {
      this.#onResult = resolve
      this.#onEnd = reject
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      this.#worker.postMessage(request)
    }).finally(() => {
      isDone = true
      cancel()
    })
  }

  /** Ends the thread unless it gets another check in this time. */
  endAfter(ms: number, onEnd: () => void): void {
    const timer = setTimeout(() => this.#end(new Error('idle')), ms).unref()
    this.#cancelEnd = () => clearTimeout(timer)
    this.#onEnd = onEnd
    this.#worker.unref()
  }

  #end(error: Error): void {
    if (this.hasEnded) return
    this.hasEnded = true
    this.#onEnd?.(error)
    void this.#worker.terminate()
  }
}

export const argumentsChecker = new ArgumentsChecker()
