import { onAbort, type StopSignal } from '@turnstream/core/internal/async/on-abort'
import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type { LogName, LogRecord, Resync, Tail } from '@turnstream/core/internal/log/turn-log'
import { parseOffset, START } from './offsets.ts'

/** The records after a position, as far as a backend returns them at once. */
export interface Block<Rec extends LogRecord> {
  /** In the order in which they are yielded. */
  readonly records: readonly Rec[]
  /** The `seq` up to which the log has been read, including superseded records. */
  readonly head: number
  /** The offset of `head`, for a reader that has seen the complete block. */
  readonly cursor: string
  readonly last: boolean
}

/** One log of one turn in a backend. Its methods throw when the turn is gone. */
export interface LogSource<Rec extends LogRecord> {
  /** Returns the `seq` after which a reader with this cursor continues. */
  resume(cursor: { epoch: number; seq: number }): number | Resync
  read(after: number): Block<Rec> | Promise<Block<Rec>>
  /** Resolves when there may be records after `seq`, or at an abort; undefined if there already are. */
  changed(seq: number, signal: StopSignal): Promise<void> | undefined
  release(): void
}

/** Reads a log to its end. Both history and new records reach readers only through this function. */
export function tailLog<Rec extends LogRecord>(
  log: LogName,
  open: () => LogSource<Rec> | Promise<LogSource<Rec>>,
  after: string,
  signal: StopSignal,
): Tail<Rec> {
  let cursor = after
  let hasCaughtUp = false
  let skipped = 0
  let catchUp: (() => void) | undefined
  const caughtUp = new Promise<void>((resolve) => {
    catchUp = resolve
  })

  function pass(block: Block<Rec>, index: number): void {
    if (index === block.records.length - 1) cursor = block.cursor
    else if (log === 'events') cursor = block.records[index]?.offset ?? cursor
  }

  async function* read(): AsyncGenerator<Rec | Resync, void> {
    const start = parseOffset(after)
    const source = await open()
    // Keep one listener on the signal while the reader is here, instead of one per wait.
    const stopListening = onAbort(signal, () => {})
    try {
      // What wrote the log may have used this iteration of the event loop, and the first record may be large, too. The
      // log is open by then: a turn that is deleted meanwhile was there.
      if (isSliceOver()) await nextSlice()
      let at = source.resume(start)
      if (typeof at !== 'number') {
        cursor = START
        yield at
        at = 0
      }
      while (!signal.aborted) {
        const reading = source.read(at)
        // Do not await available records: with many readers of a live turn that is much of the work.
        const block = reading instanceof Promise ? await reading : reading
        const { records, last } = block
        // Records superseded before the reader caught up do not count as skipped.
        if (hasCaughtUp) skipped += block.head - at - records.length
        at = block.head
        for (let index = 0; index < records.length && !signal.aborted; index++) {
          pass(block, index)
          yield records[index] as Rec
        }
        if (last) return
        const changed = source.changed(at, signal)
        // The next block may have a record of many megabytes, too.
        if (changed === undefined && isSliceOver()) await nextSlice()
        if (changed === undefined) continue
        hasCaughtUp = true
        catchUp?.()
        await changed
      }
    } finally {
      stopListening()
      source.release()
    }
  }

  return {
    caughtUp,
    get cursor() {
      return cursor
    },
    get skipped() {
      return skipped
    },
    [Symbol.asyncIterator]: read,
  }
}

/** Readers that wait for a change. Each is woken once and must wait again. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  /** Resolves at the next `wake`, or when `signal` aborts. */
  wait(signal: StopSignal): Promise<void> {
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

  /** Costs O(waiters); their work runs later. */
  wake(): void {
    if (this.#waiting.size === 0) return
    for (const go of this.#waiting) go()
  }

  get size(): number {
    return this.#waiting.size
  }
}
