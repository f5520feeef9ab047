import { monotonicNow, sleep } from '../async/clock.ts'
import { Fifo } from '../async/fifo.ts'
import { calculateRetryDelay, RetryExhaustedError } from '../async/retry.ts'
import type { ResolvedOptions } from './options.ts'
import { renderEmission } from './outputs.ts'
import { prerequisites, step } from './step.ts'
import type { Emission, TurnState } from './turn-state.ts'

/** The emissions of one call, which settles when the last of them was accepted or given up. */
interface Batch {
  waiting: number
  error: RetryExhaustedError | undefined
  settle: (error: RetryExhaustedError | undefined) => void
}

interface Entry {
  emission: Emission
  batch: Batch
}

/**
 * Hands emissions to the sink one at a time, in the order in which they were decided. An emission
 * in backoff holds back all that follow: a reader never sees a later state before an earlier one.
 */
export class EmissionQueue {
  readonly #turn: TurnState
  readonly #options: ResolvedOptions
  readonly #entries = new Fifo<Entry>()
  #delivering = false
  #last: Promise<void> = Promise.resolve()

  constructor(turn: TurnState, options: ResolvedOptions) {
    this.#turn = turn
    this.#options = options
  }

  /** How many emissions were not accepted or given up yet. */
  get size(): number {
    return this.#entries.size + Number(this.#delivering)
  }

  get isIdle(): boolean {
    return !this.#delivering
  }

  /** Settles when all of these were accepted; rejects, after all were tried, if one was given up. */
  push(emissions: readonly Emission[]): Promise<void> {
    const delivered = new Promise<void>((resolve, reject) => {
      const batch: Batch = {
        waiting: emissions.length,
        error: undefined,
        settle: (error) => (error === undefined ? resolve() : reject(error)),
      }
      for (const emission of emissions) this.#entries.push({ emission, batch })
    })
    this.#last = delivered
    if (!this.#delivering) void this.#deliverAll()
    return delivered
  }

  /** Resolves when everything that is queued now was accepted or given up. Never rejects. */
  async drained(): Promise<void> {
    await Promise.allSettled([this.#last])
  }

  async #deliverAll(): Promise<void> {
    this.#delivering = true
    while (this.#entries.size > 0) {
      const { emission, batch } = this.#entries.shift()
      const error = await this.#deliver(emission)
      batch.error ??= error
      batch.waiting--
      if (batch.waiting === 0) batch.settle(batch.error)
    }
    this.#delivering = false
  }

  async #deliver(emission: Emission): Promise<RetryExhaustedError | undefined> {
    let failure: RetryExhaustedError | undefined
    for (const needed of prerequisites(this.#turn, emission)) {
      failure = (await this.#attempt(needed)) ?? failure
      if (failure !== undefined && needed.kind === 'opening') {
        // Order before progress: nothing of a turn is shown before its beginning.
        step(this.#turn, { type: 'emit_failed', emission }, monotonicNow(this.#options.clock))
        return failure
      }
    }
    return (await this.#attempt(emission)) ?? failure
  }

  /** Tries until the sink accepts or the attempts are used up; tells `step` which it was. */
  async #attempt(emission: Emission): Promise<RetryExhaustedError | undefined> {
    const { retryAttempts, retryBaseMs, retryMaxMs, clock } = this.#options
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#offer(emission)
        break
      } catch (cause) {
        if (attempt >= retryAttempts) {
          step(this.#turn, { type: 'emit_failed', emission }, monotonicNow(clock))
          return new RetryExhaustedError(attempt + 1, cause)
        }
        await sleep(calculateRetryDelay(attempt, retryBaseMs, retryMaxMs), clock)
      }
    }
    step(this.#turn, { type: 'emitted', emission }, monotonicNow(clock))
    return undefined
  }

  #offer(emission: Emission): Promise<void> | void {
    const { turnId, onEmit, clock, generateId } = this.#options
    const output = renderEmission(this.#turn.rules, emission)
    if (output === undefined) return undefined
    emission.message ??= {
      eventId: generateId(),
      timestamp: clock.now(),
      turnId,
      payload: JSON.stringify(output),
    }
    return onEmit(emission.message, output)
  }
}
