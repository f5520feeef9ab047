import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import type {
  Lease,
  ListedTurn,
  LogName,
  LogRecord,
  NewOutput,
  TurnRecord,
  TurnSnapshot,
} from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { NO_VALUES } from './keyed-records.ts'
import { formatOffset, offsetOf, resume } from './offsets.ts'
import {
  checkLength,
  newestOutputs,
  ProcessedView,
  responseSize,
  StoredEvent,
  StoredOutput,
  type TurnFacts,
  turnRecord,
} from './records.ts'
import { appended, countKnown, isSealed, type WriteState } from './rules.ts'
import { type Block, type LogSource, Waiters } from './tail.ts'
import type { Taken } from './writer.ts'

/** A turn in memory: its record, its two logs, and their waiting readers. */
export class MemoryTurn {
  facts: TurnFacts
  state: WriteState
  readonly creation = crypto.randomUUID()
  replacedBy: string | undefined
  response: string | undefined
  /** Size of the logs and the Response in characters. */
  bytes = 0
  values = NO_VALUES
  /** Woken when the turn is cancelled, claimed or deleted, or gets a keyed record. */
  readonly ownership = new Waiters()
  #events: StoredEvent[] = []
  #processed = new ProcessedView()
  #gone: TurnstreamError | undefined
  /** When the content of an ended turn expires, in monotonic time. */
  #contentUntil = Infinity
  readonly #waiters = { events: new Waiters(), processed: new Waiters() }

  constructor(facts: TurnFacts, state: WriteState) {
    this.facts = facts
    this.state = state
  }

  append<Name extends LogName>(lease: Lease, log: Name, taken: Taken<Name>, clock: Clock): void {
    const { entries, first, count, seal } = taken
    const { epoch } = this.state
    const { head, sealed } = this.state.logs[log]
    const write = { lease, log, first, count, isSeal: seal !== undefined }
    const known = countKnown({ epoch, head, sealed }, write)
    const added = known === 0 && count === entries.length ? entries : entries.slice(known, count)
    if (log === 'events') this.#keepEvents(epoch, first + known, added as readonly StreamEvent[])
    else this.#keepOutputs(epoch, first + known, added as readonly NewOutput[])
    const newHead = Math.max(head, first + count - 1)
    this.state = appended(this.state, log, newHead, seal !== undefined)
    if (seal?.outcome !== undefined && this.facts.outcome === undefined) {
      const { outcome, response } = seal
      this.facts = { ...this.facts, outcome, endedAt: clock.now(), ...responseSize(response) }
      this.#contentUntil = monotonicNow(clock) + (this.facts.contentMs ?? Infinity)
      this.response = response
      this.bytes += response?.length ?? 0
    }
    this.#waiters[log].wake()
  }

  /** Stores all of them, or none if one has no JSON or is too long. */
  #keepEvents(epoch: number, first: number, events: readonly StreamEvent[]): void {
    const records = events.map((event, at) => new StoredEvent(epoch, first + at, event))
    for (const { size } of records) checkLength(size)
    for (const record of records) {
      this.bytes += record.size
      this.#events.push(record)
    }
  }

  /** Stores the newest of each key, or none if one has no JSON or is too long. */
  #keepOutputs(epoch: number, first: number, outputs: readonly NewOutput[]): void {
    const { encoder } = this.#processed
    const newest = newestOutputs(outputs, first).map(({ entry, seq, firstSeq }) => ({
      seq,
      firstSeq,
      record: StoredOutput.of(formatOffset(epoch, seq), entry, encoder),
    }))
    for (const { seq, firstSeq, record } of newest) {
      const superseded = this.#processed.set(record.key, seq, record, firstSeq)
      this.bytes += record.data.length - (superseded?.data.length ?? 0)
    }
  }

  get waiting(): number {
    return this.#waiters.events.size + this.#waiters.processed.size
  }

  /** Ends the readers with this error and drops the logs. */
  dropLogs(reason: TurnstreamError): void {
    this.#gone = reason
    this.#events = []
    this.#processed = new ProcessedView()
    this.response = undefined
    this.values = NO_VALUES
    this.bytes = 0
    this.ownership.wake()
    for (const waiters of Object.values(this.#waiters)) waiters.wake()
  }

  /** Whether its `contentMs` have passed since its end, in monotonic time, and its logs are still here. */
  isContentOver(now: number): boolean {
    return now >= this.#contentUntil && !this.isGone && isSealed(this.state)
  }

  get isGone(): boolean {
    return this.#gone !== undefined
  }

  checkThere(): void {
    // A new error for every reader: its stack shows who was refused.
    const gone = this.#gone
    if (gone !== undefined) throw new TurnstreamError(gone.code, this.facts.turnId, { cause: gone })
  }

  source<Name extends LogName>(log: Name): LogSource<LogRecord<Name>> {
    this.checkThere()
    return {
      resume: (cursor) => resume(cursor, this.state.logs[log]),
      read: (after) => {
        this.checkThere()
        const { head, sealed, epochs } = this.state.logs[log]
        const records = log === 'events' ? this.#events.slice(after) : this.#processed.after(after)
        const block = { records, head, cursor: offsetOf(epochs, head), last: sealed }
        return block as Block<LogRecord> as Block<LogRecord<Name>>
      },
      changed: (seq, signal) => {
        const { head, sealed } = this.state.logs[log]
        const nothing = head === seq && !sealed && this.#gone === undefined
        return nothing ? this.#waiters[log].wait(signal) : undefined
      },
      release: () => {},
    }
  }

  snapshot(): TurnSnapshot {
    this.checkThere()
    const { head, sealed, epochs } = this.state.logs.processed
    return { records: this.#processed.after(0), offset: offsetOf(epochs, head), sealed }
  }

  toRecord(): TurnRecord {
    const expired = this.#gone?.code === 'TURN_EXPIRED'
    return turnRecord(this.facts, {
      epoch: this.state.epoch,
      sealed: isSealed(this.state),
      expired,
    })
  }

  toListed(): ListedTurn {
    const { replacedBy } = this
    return { ...this.toRecord(), ...(replacedBy !== undefined && { replacedBy }) }
  }
}
