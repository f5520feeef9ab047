import { type Clock, systemClock } from '../../src/async/clock.ts'
import { MemoryLog, type MemoryLogOptions } from '../../src/log/memory-log.ts'
import type { Entries, Lease, LogName, WriterOptions } from '../../src/log/turn-log.ts'
import { StoreWriter } from '../../src/log/writer.ts'
import { type AppendOptions, appendTo, type TextRecord } from '../../src/testing/turn-log/append.ts'

export type Append = (records: readonly TextRecord[], options: AppendOptions) => Promise<string>

/** Writes by appends, one at a time: what comes while one is under way goes out together as the next. */
export class AppendWriter<Name extends LogName> extends StoreWriter<Name> {
  readonly #append: Append
  #isSending = false

  constructor(
    lease: Lease,
    log: Name,
    append: Append,
    options?: WriterOptions<Entries[Name]>,
    clock: Clock = systemClock,
  ) {
    super(lease, log, clock, options)
    this.#append = append
  }

  protected override wake(): void {
    if (this.#isSending) return
    this.#isSending = true
    queueMicrotask(() => void this.#send())
  }

  async #send(): Promise<void> {
    for (;;) {
      const { entries, first, count, seal } = this.take(256)
      if (count === 0) break
      const records = entries.slice(0, count).map((entry, at) => recordOf(first + at, entry))
      try {
        const response = seal?.response
        await this.#append(records, {
          seal: seal !== undefined,
          ...(response !== undefined && { response }),
        })
      } catch (error) {
        this.#isSending = false
        this.failed(error)
        return
      }
      this.stored()
    }
    this.#isSending = false
  }
}

function recordOf(seq: number, entry: Entries[LogName]): TextRecord {
  if (!('output' in entry)) return { seq, data: JSON.stringify(entry) }
  const { output, eventId, timestamp } = entry
  return { seq, data: JSON.stringify(output), eventId, timestamp }
}

/** A log in memory of which every write goes through `append`, which can be watched, delayed and made to fail. */
export class HookedLog extends MemoryLog {
  readonly clock: Clock

  constructor(options: MemoryLogOptions = {}) {
    super(options)
    this.clock = options.clock ?? systemClock
  }

  override open<Name extends LogName>(
    lease: Lease,
    name: Name,
    options?: WriterOptions<Entries[Name]>,
  ): AppendWriter<Name> {
    const append: Append = (records, more) => this.append(lease, name, records, more)
    return new AppendWriter(lease, name, append, options, this.clock)
  }

  append(
    lease: Lease,
    name: LogName,
    records: readonly TextRecord[],
    options: AppendOptions = {},
  ): Promise<string> {
    const open: MemoryLog['open'] = (...args) => super.open(...args)
    return appendTo({ open }, lease, name, records, options)
  }
}
