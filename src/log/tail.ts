import { onAbort } from '../async/on-abort.ts'
import { parseOffset, START } from './offsets.ts'
import type { LogName, LogRecord, Resync, Tail } from './turn-log.ts'

/** What follows a place in a log, as far as a backend gives it at once. */
export interface Block<Rec extends LogRecord> {
  /** In the order in which they are yielded. */
  readonly records: readonly Rec[]
  /** The `seq` up to which the log has now been read, superseded records included. */
  readonly head: number
  /** The offset of `head`, for whoever has seen all of the block. */
  readonly cursor: string
  /** Nothing will ever follow. */
  readonly last: boolean
}

/** One log of one turn, as a backend keeps it. Its methods throw when the turn is gone. */
export interface LogSource<Rec extends LogRecord> {
  /** After which `seq` a reader with this cursor goes on. */
  resume(cursor: { epoch: number; seq: number }): number | Resync
  /** Where the log begins now: 0, unless its beginning was trimmed. */
  readonly start: number
  read(after: number): Block<Rec> | Promise<Block<Rec>>
  /**
   * Resolves when there may be something after `seq`, and when `signal` aborts. Undefined if there is
   * something already.
   */
  changed(seq: number, signal: AbortSignal): Promise<void> | undefined
  /** The reader has left. */
  release(): void
}

/** Reads a log to its end: the one path on which records reach readers, for history and for what is new. */
export class LogTail<Rec extends LogRecord> implements Tail<Rec> {
  readonly #log: LogName
  readonly #open: () => LogSource<Rec> | Promise<LogSource<Rec>>
  readonly #after: string
  readonly #signal: AbortSignal
  #cursor: string
  #hasCaughtUp = false
  #skipped = 0
  readonly #tellCaughtUp: (() => void)[] = []

  constructor(
    log: LogName,
    open: () => LogSource<Rec> | Promise<LogSource<Rec>>,
    after: string,
    signal: AbortSignal,
  ) {
    this.#log = log
    this.#open = open
    this.#after = after
    this.#cursor = after
    this.#signal = signal
  }

  get cursor(): string {
    return this.#cursor
  }

  get skipped(): number {
    return this.#skipped
  }

  get caughtUp(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#hasCaughtUp) resolve()
      else this.#tellCaughtUp.push(resolve)
    })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Rec | Resync, void> {
    const cursor = parseOffset(this.#after)
    const signal = this.#signal
    const source = await this.#open()
    // The signal keeps its listener as long as the reader is here, and not for each wait anew.
    const stopListening = onAbort(signal, () => {})
    try {
      let at = source.resume(cursor)
      if (typeof at !== 'number') {
        this.#cursor = START
        yield at
        at = source.start
      }
      while (!signal.aborted) {
        const read = source.read(at)
        // What is at hand is not awaited: with many readers of a live turn that is a good part of the work.
        const block = read instanceof Promise ? await read : read
        const { records, last } = block
        // What was superseded before the reader came is none of its loss.
        if (this.#hasCaughtUp) this.#skipped += block.head - at - records.length
        at = block.head
        for (let index = 0; index < records.length && !signal.aborted; index++) {
          this.#pass(block, index)
          yield records[index] as Rec
        }
        if (last) return
        const changed = source.changed(at, signal)
        if (changed === undefined) continue
        if (!this.#hasCaughtUp) this.#catchUp()
        await changed
      }
    } finally {
      stopListening()
      source.release()
    }
  }

  #catchUp(): void {
    this.#hasCaughtUp = true
    for (const tell of this.#tellCaughtUp) tell()
  }

  /** Moves the cursor over a record of a block. */
  #pass({ records, cursor }: Block<Rec>, index: number): void {
    if (index === records.length - 1) this.#cursor = cursor
    else if (this.#log === 'events') this.#cursor = records[index]?.offset ?? this.#cursor
  }
}

/** Those who wait for something to change. Each is woken once and asks again itself. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `wake`, or when `signal` aborts. */
  wait(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const go = () => {
        this.#waiting.delete(go)
        stopListening()
        resolve()
      }
      const stopListening = onAbort(signal, go)
      this.#waiting.add(go)
    })
  }

  /** Costs as much as there are who wait: what they do then, they do later. */
  wake(): void {
    if (this.#waiting.size === 0) return
    for (const go of this.#waiting) go()
  }

  get size(): number {
    return this.#waiting.size
  }
}
