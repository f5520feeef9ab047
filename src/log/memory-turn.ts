import { TurnstreamError } from '../protocol/errors.ts'
import { envelopeOf } from './event-lines.ts'
import { formatOffset, type Offset, offsetOf, resume } from './offsets.ts'
import { ProcessedView } from './processed-view.ts'
import { keyOfOutput, type Outcome, outcomeOf, outputEnvelope, responseSize } from './records.ts'
import { type Append, appended, freshRecords, isSealed, type WriteState } from './rules.ts'
import type { Block, LogSource } from './tail.ts'
import type {
  LogName,
  LogRecord,
  NewRecord,
  NewTurn,
  TurnRecord,
  TurnSnapshot,
} from './turn-log.ts'
import { Waiters } from './waiters.ts'

/** A turn in memory: its record, its two logs, and those who wait for them. */
export class MemoryTurn {
  readonly turn: NewTurn
  readonly runId: string
  readonly creation = crypto.randomUUID()
  readonly ordinal: number
  readonly createdAt: number
  owner: string
  state: WriteState
  cancelReason: string | undefined
  endedAt: number | undefined
  /** Woken when the turn is cancelled, claimed or gone. */
  readonly ownership = new Waiters()
  #outcome: Outcome | undefined
  #events: LogRecord[] = []
  #processed = new ProcessedView()
  #response: string | undefined
  #responseSize: { responseBytes?: number } = {}
  #bytes = 0
  #gone: TurnstreamError | undefined
  readonly #waiters = { events: new Waiters(), processed: new Waiters() }

  constructor(turn: NewTurn, ordinal: number, createdAt: number, state: WriteState) {
    this.turn = turn
    this.runId = turn.runId ?? turn.turnId
    this.ordinal = ordinal
    this.createdAt = createdAt
    this.owner = turn.owner
    this.state = state
  }

  get ids(): { turnId: string; runId: string; creation: string } {
    return { turnId: this.turn.turnId, runId: this.runId, creation: this.creation }
  }

  append(append: Append, now: number): string {
    const { log, records, seal, response } = append
    const fresh = freshRecords(this.state, append)
    // Everything that may be refused is made before anything is changed.
    const made = fresh.map((record) => this.#record(log, record, now))
    const outcome = seal && log === 'events' ? outcomeOf(records.at(-1)?.data ?? '') : undefined
    for (const [index, record] of made.entries()) this.#keep(log, fresh[index]?.seq ?? 0, record)
    const head = fresh.at(-1)?.seq ?? this.state.logs[log].head
    this.state = appended(this.state, append, head)
    if (outcome !== undefined && this.#outcome === undefined) {
      this.#outcome = outcome
      this.endedAt = now
      this.#response = response
      this.#responseSize = responseSize(response)
      this.#bytes += response?.length ?? 0
    }
    this.#waiters[log].wake()
    return offsetOf(this.state.logs[log].epochs, records.at(-1)?.seq ?? head)
  }

  #record(log: LogName, record: NewRecord, now: number): LogRecord {
    const { seq, data } = record
    const offset = formatOffset(this.state.epoch, seq)
    if (log === 'events') return { offset, data, ...envelopeOf(data) }
    const key = record.key ?? keyOfOutput(data)
    return { offset, data, key, ...outputEnvelope(this.turn.turnId, record, now) }
  }

  #keep(log: LogName, seq: number, record: LogRecord): void {
    this.#bytes += record.data.length
    if (log === 'events') {
      this.#events.push(record)
    } else {
      const superseded = this.#processed.set(record.key ?? '', seq, record)
      this.#bytes -= superseded?.data.length ?? 0
    }
  }

  get bytes(): number {
    return this.#bytes
  }

  get response(): string | undefined {
    return this.#response
  }

  /** How many readers wait for something new. */
  get waiting(): number {
    return this.#waiters.events.size + this.#waiters.processed.size
  }

  /** Ends the readers with this error; of the logs nothing is left. */
  dropLogs(reason: TurnstreamError): void {
    this.#gone = reason
    this.#events = []
    this.#processed = new ProcessedView()
    this.#response = undefined
    this.#bytes = 0
    this.ownership.wake()
    for (const waiters of Object.values(this.#waiters)) waiters.wake()
  }

  /** Its logs were dropped. */
  get isGone(): boolean {
    return this.#gone !== undefined
  }

  checkThere(): void {
    // Made anew for every reader: an error's stack tells who was refused.
    const gone = this.#gone
    if (gone !== undefined) throw new TurnstreamError(gone.code, this.turn.turnId, { cause: gone })
  }

  source(log: LogName): LogSource {
    this.checkThere()
    return {
      start: 0,
      resume: (cursor: Offset) => {
        const { head, epochs } = this.state.logs[log]
        return resume(cursor, { first: 1, head, epochs })
      },
      read: (after) => this.#read(log, after),
      changed: (seq, signal) => this.#changed(log, seq, signal),
      release: () => {},
    }
  }

  #read(log: LogName, after: number): Block {
    this.checkThere()
    const { head, sealed, epochs } = this.state.logs[log]
    const records = log === 'events' ? this.#events.slice(after) : this.#processed.after(after)
    return { records, head, cursor: offsetOf(epochs, head), last: sealed }
  }

  #changed(log: LogName, seq: number, signal: AbortSignal): Promise<void> | undefined {
    const { head, sealed } = this.state.logs[log]
    const nothing = head === seq && !sealed && this.#gone === undefined
    return nothing ? this.#waiters[log].wait(signal) : undefined
  }

  snapshot(): TurnSnapshot {
    this.checkThere()
    const { head, sealed, epochs } = this.state.logs.processed
    return { records: this.#processed.after(0), offset: offsetOf(epochs, head), sealed }
  }

  toRecord(): TurnRecord {
    const { turnId, threadId, request } = this.turn
    return {
      turnId,
      runId: this.runId,
      threadId,
      ordinal: this.ordinal,
      owner: this.owner,
      epoch: this.state.epoch,
      createdAt: this.createdAt,
      status: 'in_progress',
      ...this.#outcome,
      ...(this.endedAt !== undefined && { endedAt: this.endedAt }),
      ...this.#responseSize,
      sealed: isSealed(this.state),
      ...(this.cancelReason !== undefined && { cancelReason: this.cancelReason }),
      ...(request !== undefined && { request }),
      expired: this.#gone?.code === 'TURN_EXPIRED',
    }
  }
}
