import type { LogName, LogRecord, Tail } from '../../../../core/src/log/turn-log.ts'
import { MemoryLog } from '../../../src/server.ts'

/** A log that knows who reads it and how far they are. */
export class CountingLog extends MemoryLog {
  /** How many readers there are. */
  reading = 0
  /** How many records readers have taken. */
  taken = 0
  readonly #watchers = new Set<() => void>()

  override tail<Name extends LogName>(
    turnId: string,
    name: Name,
    after: string,
    signal: AbortSignal,
  ): Tail<LogRecord<Name>> {
    const tail = super.tail(turnId, name, after, signal)
    const records = this.#counted(tail)
    return {
      get cursor() {
        return tail.cursor
      },
      get caughtUp() {
        return tail.caughtUp
      },
      [Symbol.asyncIterator]: () => records,
    }
  }

  async *#counted<Each>(tail: AsyncIterable<Each>): AsyncGenerator<Each> {
    this.#count(1)
    try {
      for await (const each of tail) {
        this.taken += 1
        yield each
      }
    } finally {
      this.#count(-1)
    }
  }

  /** Resolves when so many read. */
  async untilReading(count: number): Promise<void> {
    while (this.reading !== count) {
      await new Promise<void>((resolve) => {
        const go = () => {
          this.#watchers.delete(go)
          resolve()
        }
        this.#watchers.add(go)
      })
    }
  }

  #count(change: number): void {
    this.reading += change
    for (const go of this.#watchers) go()
  }
}
