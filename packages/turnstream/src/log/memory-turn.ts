import { type Clock, monotonicNow } from '@turnstream/core/internal/async/clock'
import type * as log from '@turnstream/core/internal/log/turn-log'
import type { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { NO_VALUES } from './keyed-records.ts'
import { LocalTurn } from './local-log.ts'
import { formatOffset } from './offsets.ts'
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
import { appended, countKnown, isSealed, type LogState, type WriteState } from './rules.ts'
import type { Block } from './tail.ts'
import type { Taken } from './writer.ts'

/** A turn in memory: its record, its two logs, and their waiting readers. */
export class MemoryTurn extends LocalTurn {
  facts: TurnFacts
  state: WriteState
  readonly creation = crypto.randomUUID()
  replacedBy: string | undefined
  response: string | undefined
  #logBytes = 0
  #events: StoredEvent[] = []
  #processed = new ProcessedView()
  /** When the content of an ended turn expires, in monotonic time. */
  #contentUntil = Infinity

  constructor(facts: TurnFacts, state: WriteState) {
    super()
    this.facts = facts
    this.state = state
  }

  get until(): number {
    return this.state.until
  }

  set until(until: number) {
    this.state = { ...this.state, until }
  }

  get visibleFacts(): TurnFacts {
    return this.facts
  }

  get isOpen(): boolean {
    return !isSealed(this.state)
  }

  /** Size of the logs, the Response and the keyed records in characters. */
  get bytes(): number {
    const { values = NO_VALUES } = this.facts
    return values.reduce((sum, [, value]) => sum + value.length, this.#logBytes)
  }

  override decide(facts: Partial<TurnFacts>, state = this.state): void {
    this.facts = { ...this.facts, ...facts }
    this.state = state
    this.ownership.wake()
  }

  append<Name extends log.LogName>(lease: log.Lease, log: Name, taken: Taken<Name>, clock: Clock) {
    const { entries, first, count, seal } = taken
    const { epoch } = this.state
    const { head, sealed } = this.state.logs[log]
    const known = countKnown({ epoch, head, sealed }, lease, log, taken)
    const added = known === 0 && count === entries.length ? entries : entries.slice(known, count)
    if (log === 'events') this.#storeEvents(epoch, first + known, added as readonly StreamEvent[])
    else this.#storeOutputs(epoch, first + known, added as readonly log.NewOutput[])
    const newHead = Math.max(head, first + count - 1)
    this.state = appended(this.state, log, newHead, seal !== undefined)
    if (seal?.outcome !== undefined && this.facts.outcome === undefined) {
      const { outcome, response } = seal
      this.facts = { ...this.facts, outcome, endedAt: clock.now(), ...responseSize(response) }
      this.#contentUntil = monotonicNow(clock) + (this.facts.contentMs ?? Infinity)
      this.response = response
      this.#logBytes += response?.length ?? 0
    }
    this.waiters[log].wake()
  }

  /** Stores all of them, or none if one has no JSON or is too long. */
  #storeEvents(epoch: number, first: number, events: readonly StreamEvent[]): void {
    const records = events.map((event, at) => new StoredEvent(epoch, first + at, event))
    for (const { size } of records) checkLength(size)
    for (const record of records) {
      this.#logBytes += record.size
      this.#events.push(record)
    }
  }

  /** Stores the newest of each key, or none if one has no JSON or is too long. */
  #storeOutputs(epoch: number, first: number, outputs: readonly log.NewOutput[]): void {
    const { encoder } = this.#processed
    const newest = newestOutputs(outputs, first).map(({ entry, seq, firstSeq }) => ({
      seq,
      firstSeq,
      record: StoredOutput.of(formatOffset(epoch, seq), entry, encoder),
    }))
    for (const { seq, firstSeq, record } of newest) {
      const superseded = this.#processed.set(record.key, seq, record, firstSeq)
      this.#logBytes += record.data.length - (superseded?.data.length ?? 0)
    }
  }

  /** Ends the readers with this error and drops the logs. */
  dropLogs(reason: TurnstreamError): void {
    this.#events = []
    this.#processed = new ProcessedView()
    this.response = undefined
    this.#logBytes = 0
    this.facts = { ...this.facts, values: undefined }
    this.end(reason)
  }

  /** Whether its `contentMs` have passed since its end, in monotonic time, and its logs are still here. */
  isContentOver(now: number): boolean {
    return now >= this.#contentUntil && !this.isGone && !this.isOpen
  }

  get isGone(): boolean {
    return this.gone !== undefined
  }

  protected override visibleLog(log: log.LogName): LogState {
    return this.state.logs[log]
  }

  protected override eventsAfter(seq: number): Block<StoredEvent> {
    return this.restOf('events', this.#events.slice(seq))
  }

  protected override outputsAfter(seq: number): readonly log.OutputRecord[] {
    return this.#processed.after(seq)
  }

  toRecord(): log.TurnRecord {
    const { epoch } = this.state
    const expired = this.gone?.code === 'TURN_EXPIRED'
    return turnRecord(this.facts, { epoch, sealed: !this.isOpen, expired })
  }

  toListed(): log.ListedTurn {
    const { replacedBy } = this
    return { ...this.toRecord(), ...(replacedBy !== undefined && { replacedBy }) }
  }
}
