import { ERROR_CODES, type ErrorCode, hasCode, TurnstreamError } from '../../protocol/errors.ts'
import { type EpochStart, resume } from '../offsets.ts'
import { type Block, type LogSource, Waiters } from '../tail.ts'
import type { LogRecord } from '../turn-log.ts'

/** What is known of a log. */
export interface LogView {
  readonly head: number
  readonly sealed: boolean
  readonly epochs: readonly EpochStart[]
}

/** What a backend of a feed read: the log, or why there is none. */
export type Looked<T> = T | 'gone' | 'expired'

/**
 * One log of one turn, as all readers in this process see it: it is read from the store once for all of
 * them. Nobody waits for a reader, and no reader for another.
 */
export abstract class Feed<Rec extends LogRecord> {
  readonly turnId: string
  /** Where its hints come from. */
  readonly channel: string
  readonly #onError: (error: unknown) => void
  readonly #waiters = new Waiters()
  /** Of the turn as it was first read. */
  #creation: string | undefined
  #failure: { readonly code: ErrorCode; readonly cause?: unknown } | undefined
  #loading: Promise<void> | undefined
  #isDue = false

  constructor(turnId: string, channel: string, onError: (error: unknown) => void) {
    this.turnId = turnId
    this.channel = channel
    this.#onError = onError
  }

  protected abstract view: LogView | undefined
  /** Reads what is new. */
  protected abstract load(): Promise<void>
  protected abstract read(after: number): Block<Rec> | Promise<Block<Rec>>

  /** Looks for what is new; whoever asks while a look is under way gets the one after it. */
  advance(): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#refusal())
    this.#isDue = true
    this.#loading ??= this.#loadWhileDue()
    return this.#loading
  }

  async #loadWhileDue(): Promise<void> {
    try {
      while (this.#isDue) {
        this.#isDue = false
        const before = this.view
        await this.load()
        if (this.view !== before) this.#waiters.wake()
      }
    } finally {
      this.#loading = undefined
    }
  }

  /** A hint came. A store that is away is no end: the readers wait until it is back. */
  readonly look = (): void => {
    this.advance().catch((error: unknown) => {
      // The readers hear why the log is no longer there, and when the store is closed none is left.
      if (this.#failure !== undefined || hasCode(error, 'STORE_CLOSED')) return
      const isPassing = error instanceof TurnstreamError && ERROR_CODES[error.code].retryable
      if (!isPassing) this.#fail(codeOf(error), error)
      this.#onError(error)
    })
  }

  /** Ends the readers. */
  end(code: ErrorCode): void {
    this.#fail(code)
  }

  get isLive(): boolean {
    return this.#failure === undefined && this.view?.sealed === false
  }

  /**
   * What was read, if it is this log. What is not there after it was has been deleted, also if there is
   * another of the same id by now.
   */
  protected seen<T extends { readonly creation: string }>(looked: Looked<T>): T {
    if (looked === 'expired') this.#fail('TURN_EXPIRED')
    else if (looked === 'gone')
      this.#fail(this.view === undefined ? 'TURN_UNKNOWN' : 'TURN_DELETED')
    else if (looked.creation !== (this.#creation ??= looked.creation)) this.#fail('TURN_DELETED')
    else return looked
    throw this.#refusal()
  }

  get hasEnded(): boolean {
    return this.#failure !== undefined
  }

  /** What is known, for a reader. */
  protected known(): LogView {
    if (this.#failure !== undefined || this.view === undefined) throw this.#refusal()
    return this.view
  }

  source(release: () => void): LogSource<Rec> {
    return {
      start: 0,
      resume: (cursor) => resume(cursor, { first: 1, ...this.known() }),
      read: (after) => this.read(after),
      changed: (seq, signal) => {
        const { view } = this
        if (this.#failure !== undefined || view === undefined || view.sealed) return undefined
        return view.head <= seq ? this.#waiters.wait(signal) : undefined
      },
      release,
    }
  }

  #fail(code: ErrorCode, cause?: unknown): void {
    this.#failure ??= { code, cause }
    this.#waiters.wake()
  }

  /** Made anew for every reader: an error's stack tells who was refused. */
  #refusal(): TurnstreamError {
    const { code, cause } = this.#failure ?? { code: 'TURN_UNKNOWN' }
    return new TurnstreamError(code, `turn ${this.turnId}`, { cause })
  }
}

function codeOf(error: unknown): ErrorCode {
  return error instanceof TurnstreamError ? error.code : 'STORE_FAILED'
}
