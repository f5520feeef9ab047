import { type Clock, systemClock } from '../../../core/src/async/clock.ts'
import type { Lease, LogName, NewRecord, WriterOptions } from '../../../core/src/log/turn-log.ts'
import { StoreWriter, type Taken } from '../../src/log/writer.ts'

/** Has a function store, one batch at a time: what comes while one is under way goes out together as the next. */
export class RelayWriter<Name extends LogName> extends StoreWriter<Name> {
  readonly #store: (taken: Taken<Name>) => Promise<unknown>
  #isSending = false

  constructor(
    lease: Lease,
    log: Name,
    options: WriterOptions<NewRecord<Name>> | undefined,
    store: (taken: Taken<Name>) => Promise<unknown>,
    clock: Clock = systemClock,
  ) {
    super(lease, log, clock, options)
    this.#store = store
  }

  protected override wake(): void {
    if (this.#isSending) return
    this.#isSending = true
    queueMicrotask(() => void this.#send())
  }

  async #send(): Promise<void> {
    for (let taken = this.drain(); taken.count > 0; taken = this.drain()) {
      try {
        await this.#store({ ...taken, entries: taken.entries.slice(0, taken.count) })
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
