import { type Clock, monotonicNow } from '../async/clock.ts'
import type { TurnLog } from '../log/turn-log.ts'
import { type ErrorCode, hasCode, TurnstreamError } from '../protocol/errors.ts'

/** Whoever asks whether we are ready gives up after a few seconds. */
const LIMIT_MS = 2000

/** So long a store that could not be written is not asked for more; then somebody has to find out. */
const DOUBT_MS = 10_000

const UNWRITABLE: ReadonlySet<ErrorCode> = new Set(['STORE_FULL', 'STORE_READ_ONLY'])

export interface ReadinessOptions {
  readonly log: TurnLog
  readonly clock: Clock
  readonly isOpen: () => boolean
}

/** Whether turns can be taken and read. However many ask at the same time, the store is asked once. */
export class Readiness {
  readonly #options: ReadinessOptions
  #answer: Promise<void> | undefined
  #refusal: { readonly error: TurnstreamError; readonly at: number } | undefined

  constructor(options: ReadinessOptions) {
    this.#options = options
  }

  /** Takes note of an error that says that the store can be read and not written. */
  note(error: unknown): void {
    const isRefusal = error instanceof TurnstreamError && UNWRITABLE.has(error.code)
    // Our own answer is no new reason.
    if (!isRefusal || error === this.#refusal?.error) return
    this.#refusal = { error, at: monotonicNow(this.#options.clock) }
  }

  /** Rejects with the code of what is in the way: SERVER_SHUTDOWN, or what the store says. */
  async check(): Promise<void> {
    const { isOpen, clock } = this.#options
    if (!isOpen()) throw new TurnstreamError('SERVER_SHUTDOWN', 'no more turns')
    const refusal = this.#refusal
    if (refusal !== undefined && monotonicNow(clock) - refusal.at < DOUBT_MS) throw refusal.error
    this.#answer ??= this.#ask().finally(() => {
      this.#answer = undefined
    })
    await this.#answer
  }

  #ask(): Promise<void> {
    const { log, clock } = this.#options
    return new Promise((resolve, reject) => {
      const stopWaiting = clock.after(LIMIT_MS, () => {
        reject(new TurnstreamError('STORE_UNAVAILABLE', `no answer within ${LIMIT_MS} ms`))
      })
      void log
        .listThreads({ limit: 1 })
        // A damaged thread is no reason to take no turns: the store answers.
        .catch((error: unknown) => {
          if (!hasCode(error, 'STORE_CORRUPT')) throw error
        })
        .then(() => resolve(), reject)
        .finally(stopWaiting)
    })
  }
}
