import type { Clock } from '../async/clock.ts'
import type { Orphan, TurnLog } from '../log/turn-log.ts'
import { endOrphans } from './end-orphans.ts'
import type { TurnObserver } from './turn-observer.ts'

export interface ReaperOptions {
  readonly log: TurnLog
  readonly owner: string
  readonly leaseMs: number
  readonly clock: Clock
  /** Whether a turn is run by this process: its run renews the lease, late as it may be. */
  readonly isRunning: (orphan: Orphan) => boolean
  readonly observer: TurnObserver
  readonly onError: (error: unknown, about: { readonly turnId?: string }) => void
}

// An orphan is ended within two seconds after its lease ran out: one to notice it, one to end it.
const PAUSE_MS = 1000
const BATCH = 100

/** Ends the turns of processes that died, again and again. */
export class Reaper {
  readonly #options: ReaperOptions
  #isStopped = false
  #first: Promise<void> | undefined
  #pass: Promise<void> = Promise.resolve()
  #cancelTimer = () => {}

  constructor(options: ReaperOptions) {
    this.#options = options
  }

  /** Resolves after the first pass. */
  start(): Promise<void> {
    this.#first ??= this.#next()
    return this.#first
  }

  /** Resolves when nothing is under way any more. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancelTimer()
    await this.#pass
  }

  #next(): Promise<void> {
    if (this.#isStopped) return Promise.resolve()
    this.#pass = this.#endAll()
    return this.#pass
  }

  async #endAll(): Promise<void> {
    try {
      let left = 0
      let ended: number
      let before: number
      do {
        // Those that cannot be ended now come first again: they must not hide the others.
        before = left
        const kept: Orphan[] = []
        ended = await this.#endSome(BATCH + before, kept)
        left = kept.length
      } while ((ended > 0 || left > before) && !this.#isStopped)
    } catch (error) {
      this.#options.onError(error, {})
    }
    if (this.#isStopped) return
    this.#cancelTimer = this.#options.clock.after(PAUSE_MS, () => void this.#next())
  }

  async #endSome(limit: number, kept: Orphan[]): Promise<number> {
    const { log, owner, leaseMs, clock, observer, onError, isRunning } = this.#options
    const ended = await endOrphans(log, {
      owner,
      leaseMs,
      clock,
      limit,
      isRunning: (orphan) => {
        const isOurs = isRunning(orphan)
        if (isOurs) kept.push(orphan)
        return isOurs
      },
      onError: (error, orphan) => {
        kept.push(orphan)
        onError(error, { turnId: orphan.turnId })
      },
    })
    for (let count = 0; count < ended; count++) observer.orphanEnded()
    return ended
  }
}
