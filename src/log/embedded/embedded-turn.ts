import { TurnstreamError } from '../../protocol/errors.ts'
import { formatOffset, offsetOf, resume } from '../offsets.ts'
import { keyOfOutput, type Outcome, outcomeOf, outputEnvelope, responseSize } from '../records.ts'
import { type Append, appended, freshAfter, isSealed, type WriteState } from '../rules.ts'
import type { Block, LogSource } from '../tail.ts'
import { LOG_NAMES, type LogName, type NewRecord, type TurnSnapshot } from '../turn-log.ts'
import { Waiters } from '../waiters.ts'
import type { Chunks } from './chunks.ts'
import type { Tables, Write } from './environment.ts'
import type { JournalEntry } from './journal.ts'
import { formatTurn, type StoredTurn, type TurnFacts } from './stored-turn.ts'
import type { TenantKeys } from './tenant-keys.ts'
import { TurnEvents } from './turn-events.ts'
import { TurnProcessed } from './turn-processed.ts'
import { type Heads, hasNews, headsOf, isChanged, type Version, withHeads } from './turn-version.ts'

/**
 * A turn that is open, or that somebody reads. It is known twice: as decided, by which writers are
 * answered, and as committed, which is all that readers see. A commit that succeeds makes them one, and
 * so does one that fails.
 */
export class EmbeddedTurn {
  readonly keys: TenantKeys
  /** No other turn has its number, not even one of the same id. */
  readonly creation: string
  readonly events: TurnEvents
  readonly processed: TurnProcessed
  /** Woken when the turn is cancelled, claimed or gone. */
  readonly ownership = new Waiters()
  /** When the lease runs out. Nothing of this is stored: whoever opens the store later is another owner. */
  until = 0
  /** The group that this turn was last added to. */
  group: object | undefined
  #facts: TurnFacts
  /** Of the open logs the heads are in `#heads`: with them a record would mean three new objects. */
  #state: WriteState
  readonly #heads: Heads
  #committed: Version | undefined
  #writing: Version | undefined
  /** Decided with the seal of `events`, and in no commit yet. */
  #response: string | undefined
  #isLoaded: boolean
  #readers = 0
  /** Deleted, as decided: nothing of it is stored any more. */
  isDiscarded = false
  #gone: TurnstreamError | undefined
  readonly #waiters = { events: new Waiters(), processed: new Waiters() }

  private constructor(keys: TenantKeys, facts: TurnFacts, state: WriteState, isStored: boolean) {
    this.keys = keys
    this.creation = String(facts.number)
    this.#facts = facts
    this.#state = state
    this.#heads = headsOf(state)
    this.#committed = isStored ? { facts, state, ...this.#heads } : undefined
    this.#isLoaded = !isStored
    this.events = new TurnEvents(facts.number)
    this.processed = new TurnProcessed(facts.number)
  }

  /** A turn of which nothing is stored yet. */
  static create(facts: TurnFacts, state: WriteState, keys: TenantKeys): EmbeddedTurn {
    return new EmbeddedTurn(keys, facts, state, false)
  }

  static load(turn: StoredTurn, keys: TenantKeys): EmbeddedTurn {
    return new EmbeddedTurn(keys, turn, turn.state, true)
  }

  get facts(): TurnFacts {
    return this.#facts
  }

  get ids(): { turnId: string; runId: string; creation: string } {
    const { turnId, runId } = this.#facts
    return { turnId, runId, creation: this.creation }
  }

  /** As decided; the lease runs out at `until`. */
  get state(): WriteState {
    return { ...withHeads(this.#state, this.#heads), until: this.until }
  }

  get isSealed(): boolean {
    return isSealed(this.#state)
  }

  get decided(): StoredTurn {
    return { ...this.#facts, state: withHeads(this.#state, this.#heads) }
  }

  /** As readers may see it; undefined while nothing of it is stored. */
  get committed(): StoredTurn | undefined {
    const version = this.#committed
    return version && { ...version.facts, state: withHeads(version.state, version) }
  }

  /** Changes the turn itself; its logs are changed by `append`. */
  decide(facts: Partial<TurnFacts>, state = this.#state): void {
    this.#facts = { ...this.#facts, ...facts }
    this.#state = state
  }

  /** Takes an append into the next commit. Answers with the offset, and whether it is stored already. */
  append(append: Append, now: number): { offset: string; isStored: boolean } {
    const { log, records, seal } = append
    const { epoch, logs } = this.#state
    const found = { epoch, head: this.#heads[log], sealed: logs[log].sealed }
    const fresh = freshAfter(found, append)
    const outcome = seal && log === 'events' ? outcomeOf(records.at(-1)?.data ?? '') : undefined
    if (log === 'events') this.events.stage(epoch, fresh)
    else this.#stageSnapshots(fresh, now)
    const last = fresh.at(-1)
    if (last === undefined) return this.#repeat(append, outcome, now)
    this.#heads[log] = last.seq
    if (seal) this.#state = appended(this.#state, append, last.seq)
    if (outcome !== undefined) this.#end(append, outcome, now)
    return { offset: formatOffset(epoch, last.seq), isStored: false }
  }

  /** An append that brings nothing new; it may still bring the seal. */
  #repeat(append: Append, outcome: Outcome | undefined, now: number) {
    const { log, records } = append
    const head = this.#heads[log]
    const { epochs } = this.#state.logs[log]
    this.#state = appended(this.#state, append, head)
    const { outcome: known } = this.#facts
    if (outcome !== undefined && known === undefined) this.#end(append, outcome, now)
    const stored = this.#committed
    const isStored =
      stored?.[log] === head && stored.state.logs[log].sealed === this.#state.logs[log].sealed
    return { offset: offsetOf(epochs, records.at(-1)?.seq ?? head), isStored }
  }

  #end({ response }: Append, outcome: Outcome, now: number): void {
    this.decide({ outcome, endedAt: now, ...responseSize(response) })
    this.#response = response
  }

  #stageSnapshots(fresh: readonly NewRecord[], now: number): void {
    const { turnId } = this.#facts
    const { epoch } = this.#state
    const snapshots = fresh.map((record) => {
      const { seq, data } = record
      const key = record.key ?? keyOfOutput(data)
      const offset = formatOffset(epoch, seq)
      return { seq, key, record: { offset, data, key, ...outputEnvelope(turnId, record, now) } }
    })
    this.processed.stage(snapshots)
  }

  /** Puts everything decided into a commit; the lines that the journal has to keep go into its entry. */
  write(writes: Write[], tables: Tables, entry: JournalEntry, storeAll: boolean): void {
    if (this.isDiscarded) return
    const facts = this.#facts
    const state = this.#state
    const before = this.#committed
    const { events, processed } = this.#heads
    this.#writing = { facts, state, events, processed }
    this.processed.write(writes, tables)
    if (before === undefined || isChanged(before, this.#writing)) {
      this.#writeRecord(writes, tables, before)
    }
    this.events.write(writes, tables, entry, storeAll || state.logs.events.sealed)
  }

  /** Seldom, and apart from what is done for each commit: only here a key has to be made. */
  #writeRecord(writes: Write[], tables: Tables, before: Version | undefined): void {
    const { number, turnId, endedAt = 0 } = this.#facts
    const key = this.keys.of(turnId)
    if (before === undefined) writes.push({ table: tables.open, key: number, value: key })
    writes.push({ table: tables.turns, key, value: formatTurn(this.decided) })
    if (this.#response !== undefined) {
      writes.push({ table: tables.responses, key: number, value: this.#response })
      this.#response = undefined
    }
    if (!this.isSealed || (before !== undefined && isSealed(before.state))) return
    writes.push({ table: tables.open, key: number })
    writes.push({ table: tables.ended, key: ['logs', endedAt, key], value: '' })
  }

  committedBy(chunks: Chunks): void {
    const before = this.#committed
    const after = this.#writing
    if (after === undefined) return
    this.#committed = after
    this.#writing = undefined
    this.events.committed(chunks, after.state.logs.events.epochs)
    this.processed.committed()
    for (const log of LOG_NAMES) if (hasNews(log, before, after)) this.#waiters[log].wake()
    // The owner listens all the time, and what it wrote itself is no news to it.
    const isClaimed = before?.state.epoch !== after.state.epoch
    if (isClaimed || before.facts.cancelReason !== after.facts.cancelReason) this.ownership.wake()
  }

  /** Back to what is committed. */
  undo(): void {
    if (this.#committed !== undefined) {
      const { facts, state, events, processed } = this.#committed
      this.#facts = facts
      this.#state = state
      this.#heads.events = events
      this.#heads.processed = processed
    }
    this.#writing = undefined
    this.#response = undefined
    this.events.undo()
    this.processed.undo()
  }

  /** Ends the readers with this error. */
  end(reason: TurnstreamError): void {
    this.#gone = reason
    this.ownership.wake()
    for (const waiters of Object.values(this.#waiters)) waiters.wake()
  }

  checkThere(): void {
    // Made anew for every reader: an error's stack tells who was refused.
    const gone = this.#gone
    if (gone === undefined) return
    throw new TurnstreamError(gone.code, this.#facts.turnId, { cause: gone })
  }

  /** Reads the logs of a turn that was not written by this process. */
  load(tables: Tables): void {
    if (this.#isLoaded) return
    this.#isLoaded = true
    this.processed.restore(tables, this.#state.logs.processed)
  }

  /** Takes the heads of the open logs from what was read. */
  settleHeads(): void {
    this.#heads.events = Math.max(this.#heads.events, this.events.head)
    this.#heads.processed = Math.max(this.#heads.processed, this.processed.head)
    this.#committed = { facts: this.#facts, state: this.#state, ...this.#heads }
  }

  hold(): () => void {
    this.#readers += 1
    let isHeld = true
    return () => {
      if (isHeld) this.#readers -= 1
      isHeld = false
    }
  }

  /** Nobody reads it, and nobody will write to it. */
  get isIdle(): boolean {
    return this.#readers === 0 && isSealed(this.#committed?.state ?? this.#state)
  }

  source(log: LogName, chunks: Chunks, leave: () => void): LogSource {
    const { epochs } = this.#shown('events')
    const letGo = log === 'events' ? this.events.hold(epochs) : undefined
    return {
      start: 0,
      resume: (cursor) => {
        const { head, epochs } = this.#shown(log)
        return resume(cursor, { first: 1, head, epochs })
      },
      read: (after) => {
        this.checkThere()
        return log === 'events' ? this.#readEvents(after, chunks) : this.#readProcessed(after)
      },
      changed: (seq, signal) => {
        const { head, sealed } = this.#shown(log)
        if (head !== seq || sealed || this.#gone !== undefined) return undefined
        return this.#waiters[log].wait(signal)
      },
      release: () => {
        letGo?.()
        leave()
      },
    }
  }

  #shown(log: LogName) {
    const { sealed, epochs } = (this.#committed?.state ?? this.#state).logs[log]
    return { head: (this.#committed ?? this.#heads)[log], sealed, epochs }
  }

  #readEvents(after: number, chunks: Chunks): Block {
    const { head, sealed, epochs } = this.#shown('events')
    if (after >= head) return { records: [], head, cursor: offsetOf(epochs, head), last: sealed }
    const { live } = this.events
    const isLive = live !== undefined && live.records.length > 0 && after + 1 >= live.first
    const run = isLive ? live : chunks.read(this.#facts.number, after + 1, epochs)
    if (run === undefined) throw this.#missing(after + 1)
    const end = Math.min(head, run.first + run.records.length - 1)
    const records = run.records.slice(after + 1 - run.first, end + 1 - run.first)
    return { records, head: end, cursor: offsetOf(epochs, end), last: sealed && end === head }
  }

  #missing(seq: number): TurnstreamError {
    const { turnId } = this.#facts
    return new TurnstreamError('STORE_CORRUPT', `event ${seq} of turn ${turnId} is missing`)
  }

  #readProcessed(after: number): Block {
    const { head, sealed, epochs } = this.#shown('processed')
    const records = this.processed.after(after)
    return { records, head, cursor: offsetOf(epochs, head), last: sealed }
  }

  snapshot(): TurnSnapshot {
    this.checkThere()
    const { head, sealed, epochs } = this.#shown('processed')
    return { records: this.processed.after(0), offset: offsetOf(epochs, head), sealed }
  }
}
