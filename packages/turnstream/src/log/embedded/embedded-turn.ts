import { isSliceOver, nextSlice } from '@turnstream/core/internal/async/time-slice'
import type * as log from '@turnstream/core/internal/log/turn-log'
import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { TurnstreamError } from '@turnstream/core/internal/protocol/errors'
import { encodeAhead, hasAttachments } from '@turnstream/core/internal/protocol/event-codec'
import type { StreamEvent } from '@turnstream/core/internal/protocol/stream-event'
import { LocalTurn } from '../local-log.ts'
import { offsetOf } from '../offsets.ts'
import { responseSize } from '../records.ts'
import {
  appended,
  corrupt,
  countKnown,
  isSealed,
  type LogState,
  turnGone,
  type WriteState,
} from '../rules.ts'
import type { Block } from '../tail.ts'
import { type Seal, StoreWriter, type Taken } from '../writer.ts'
import type { EmbeddedStore } from './embedded-store.ts'
import type { Write } from './environment.ts'
import type { JournalEntry } from './group-commit.ts'
import { expiryKey, type StoredFacts, type StoredTurn, type TenantKeys } from './stored-turn.ts'
import { TurnEvents } from './turn-events.ts'
import { TurnProcessed } from './turn-processed.ts'

interface Heads {
  events: number
  processed: number
}

/** A turn at one point in time. */
interface Version extends Readonly<Heads> {
  readonly facts: StoredFacts
  /** Its heads are out of date: the version has the current ones. */
  readonly state: WriteState
}

/** A turn that is open or has readers: as decided, for its writers, and as committed, for its readers. */
export class EmbeddedTurn extends LocalTurn {
  readonly #store: EmbeddedStore
  readonly keys: TenantKeys
  readonly creation: string
  readonly events: TurnEvents
  readonly processed: TurnProcessed
  /** When the lease expires. Not stored: after a restart the owner is a different one. */
  until = 0
  group: object | undefined
  #facts: StoredFacts
  /** Heads of open logs are in `#heads`: otherwise a record would cost three new objects. */
  #state: WriteState
  readonly #heads: Heads
  #committed: Version | undefined
  #writing: Version | undefined
  /** Decided with the seal of `events`, but not committed yet. */
  #response: string | undefined
  #isLoaded: boolean
  readers = 0
  /** Writers with pending records, and writers in the current commit. */
  readonly #ready: EmbeddedWriter[] = []
  readonly #storing: EmbeddedWriter[] = []
  /** Written events with attachments that were not encoded ahead. */
  readonly #large: StreamEvent[] = []
  /** Deleted, as decided: nothing of it is stored any more. */
  isDiscarded = false
  /** Why its logs are being removed. The commit may be on disk before it is acknowledged. */
  removal: TurnstreamError | undefined

  constructor(
    store: EmbeddedStore,
    keys: TenantKeys,
    facts: StoredFacts,
    state: WriteState,
    isStored: boolean,
  ) {
    super()
    this.#store = store
    this.keys = keys
    this.creation = String(facts.number)
    this.#facts = facts
    this.#state = state
    this.#heads = { events: state.logs.events.head, processed: state.logs.processed.head }
    this.#committed = isStored ? { facts, state, ...this.#heads } : undefined
    this.#isLoaded = !isStored
    this.events = new TurnEvents(facts.number, store.chunks)
    this.processed = new TurnProcessed(facts.number, store.env.tables.processed)
  }

  get facts(): StoredFacts {
    return this.#facts
  }

  /** As decided; the lease expires at `until`. */
  get state(): WriteState {
    return { ...withHeads(this.#state, this.#heads), until: this.until }
  }

  get isSealed(): boolean {
    return isSealed(this.#state)
  }

  get decided(): StoredTurn {
    return { ...this.#facts, state: withHeads(this.#state, this.#heads) }
  }

  get visibleFacts(): StoredFacts | undefined {
    return this.#committed?.facts
  }

  get isOpen(): boolean {
    return this.#committed !== undefined && !isSealed(this.#committed.state)
  }

  /** As visible to readers; undefined while nothing is stored. */
  get committed(): StoredTurn | undefined {
    const version = this.#committed
    return version && { ...version.facts, state: withHeads(version.state, version) }
  }

  /** Changes the turn itself; its logs are changed by writers. */
  override decide(facts: Partial<StoredFacts>, state = this.#state): void {
    this.#facts = { ...this.#facts, ...facts }
    this.#state = state
  }

  ready(writer: EmbeddedWriter): void {
    this.#ready.push(writer)
  }

  expectLarge(event: StreamEvent): void {
    this.#large.push(event)
  }

  /** Encodes large events before the commit, which cannot yield to the event loop. */
  async encodeLarge(): Promise<void> {
    for (const event of this.#large.splice(0)) {
      for (const _ of encodeAhead(event)) if (isSliceOver()) await nextSlice()
    }
  }

  get hasLarge(): boolean {
    return this.#large.length > 0
  }

  /** Adds everything decided and written to a commit, and the journal lines to its entry. */
  write(writes: Write[], entry: JournalEntry, storeAll: boolean): void {
    for (const writer of this.#ready.splice(0)) this.#take(writer)
    if (this.isDiscarded) return
    const facts = this.#facts
    const state = this.#state
    const before = this.#committed
    const { events, processed } = this.#heads
    this.#writing = { facts, state, events, processed }
    this.processed.write(writes)
    if (before === undefined || isChanged(before, this.#writing)) this.#writeRecord(writes, before)
    this.events.write(writes, entry, storeAll || state.logs.events.sealed)
  }

  #take(writer: EmbeddedWriter): void {
    const { log, lease } = writer
    const taken = writer.drain()
    const { entries, first, count, seal } = taken
    if (count === 0) return
    const { epoch, logs } = this.#state
    const head = this.#heads[log]
    try {
      if (this.isDiscarded) throw turnGone(this.#facts.turnId)
      const known = countKnown({ epoch, head, sealed: logs[log].sealed }, lease, log, taken)
      if (log === 'events') this.events.stage(epoch, entries as StreamEvent[], known, count)
      else this.processed.stage(epoch, entries as log.NewOutput[], first, known, count)
    } catch (error) {
      writer.failed(error)
      return
    }
    this.#heads[log] = Math.max(head, first + count - 1)
    if (seal !== undefined) this.#seal(log, seal)
    this.#storing.push(writer)
  }

  #seal(log: log.LogName, { outcome, response }: Seal): void {
    this.#state = appended(this.#state, log, this.#heads[log], true)
    if (outcome === undefined || this.#facts.outcome !== undefined) return
    const { clock, steadyNow, retentionMs } = this.#store
    const { contentMs } = this.#facts
    const contentUntil = contentMs && steadyNow() + Math.min(contentMs, retentionMs)
    this.decide({ outcome, endedAt: clock.now(), contentUntil, ...responseSize(response) })
    this.#response = response
  }

  /** Rare, and separate from the commit path: only this needs a key. */
  #writeRecord(writes: Write[], before: Version | undefined): void {
    const { tables } = this.#store.env
    const { number, turnId } = this.#facts
    const key = this.keys.of(turnId)
    if (before === undefined) writes.push({ table: tables.open, key: number, value: key })
    writes.push({ table: tables.turns, key, value: JSON.stringify(this.decided) })
    if (this.#response !== undefined) {
      writes.push({ table: tables.responses, key: number, value: this.#response })
      this.#response = undefined
    }
    if (!this.isSealed || (before !== undefined && isSealed(before.state))) return
    writes.push({ table: tables.open, key: number })
    writes.push({ table: tables.ended, key: expiryKey(this.#facts, key), value: '' })
  }

  /** The commit succeeded: makes the records visible to readers. */
  confirm(): void {
    const before = this.#committed
    const after = this.#writing
    if (after === undefined) return
    this.#committed = after
    this.#writing = undefined
    this.events.committed()
    this.processed.committed()
    for (const log of LOG_NAMES) if (hasNews(log, before, after)) this.waiters[log].wake()
    // The owner always listens, and needs no notification of its own writes.
    const isClaimed = before?.state.epoch !== after.state.epoch
    if (isClaimed || hasRequests(before, after)) this.ownership.wake()
  }

  /** Notifies the writers after a group's commit, when all its turns are up to date. */
  notifyWriters(): void {
    for (const writer of this.#storing.splice(0)) writer.stored()
  }

  /** Reverts to the committed state; the writers may retry. */
  undo(error: unknown): void {
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
    const writers = [...this.#storing.splice(0), ...this.#ready.splice(0)]
    for (const writer of writers) writer.failed(error)
  }

  /** Reads an open turn at startup. */
  restore(): void {
    this.events.restore(this.#state.logs.events.epochs)
    this.load('processed')
  }

  /** Reads the snapshots of a turn that another process wrote. */
  override load(log: log.LogName): void {
    if (this.#isLoaded || log === 'events') return
    this.#isLoaded = true
    try {
      this.processed.restore(this.#state.logs.processed)
    } catch (error) {
      throw this.removal === undefined ? error : this.refusal(this.removal)
    }
  }

  settleHeads(): void {
    this.#heads.events = Math.max(this.#heads.events, this.events.head)
    this.#heads.processed = Math.max(this.#heads.processed, this.processed.head)
    this.#committed = { facts: this.#facts, state: this.#state, ...this.#heads }
  }

  get isIdle(): boolean {
    return this.readers === 0 && isSealed(this.#committed?.state ?? this.#state)
  }

  override source<Name extends log.LogName>(log: Name, leave: () => void) {
    const release = log === 'events' ? this.events.hold() : undefined
    return super.source(log, () => {
      release?.()
      leave()
    })
  }

  protected override visibleLog(log: log.LogName): LogState {
    const { sealed, epochs } = (this.#committed?.state ?? this.#state).logs[log]
    return { head: (this.#committed ?? this.#heads)[log], sealed, epochs }
  }

  protected override eventsAfter(seq: number): Block<log.EventRecord> {
    const { head, sealed, epochs } = this.visibleLog('events')
    if (seq >= head) return this.restOf('events', [])
    const run = this.events.read(seq + 1, epochs)
    if (run === undefined) throw this.#missing(seq + 1)
    const end = Math.min(head, run.first + run.records.length - 1)
    const records = run.records.slice(seq + 1 - run.first, end + 1 - run.first)
    return { records, head: end, cursor: offsetOf(epochs, end), last: sealed && end === head }
  }

  #missing(seq: number): TurnstreamError {
    if (this.removal !== undefined) return this.refusal(this.removal)
    const { turnId } = this.#facts
    return corrupt(`event ${seq} of turn ${turnId} is missing`)
  }

  protected override outputsAfter(seq: number): readonly log.OutputRecord[] {
    return this.processed.after(seq)
  }
}

/** Has its records stored by the next commit, together with all other turns. */
export class EmbeddedWriter<Name extends log.LogName = log.LogName> extends StoreWriter<Name> {
  readonly #turn: EmbeddedTurn | undefined
  readonly #store: EmbeddedStore
  #isReady = false

  /** `turn` is missing if it was deleted. */
  constructor(
    lease: log.Lease,
    log: Name,
    turn: EmbeddedTurn | undefined,
    store: EmbeddedStore,
    options?: log.WriterOptions<log.NewRecord<Name>>,
  ) {
    super(lease, log, store.clock, options)
    this.#turn = turn
    this.#store = store
  }

  override write(entry: log.NewRecord<Name>): boolean {
    const hasRoom = super.write(entry)
    if ('payload' in entry && hasAttachments(entry)) this.#turn?.expectLarge(entry)
    return hasRoom
  }

  protected override wake(): void {
    const turn = this.#turn
    if (turn === undefined) return this.failed(turnGone(this.lease.turnId))
    if (!this.#isReady) {
      try {
        this.#store.checkOpen()
      } catch (error) {
        return this.failed(error)
      }
      this.#isReady = true
      turn.ready(this as unknown as EmbeddedWriter)
    }
    this.#store.commits.add(turn)
  }

  protected override ended(): void {
    const turn = this.#turn
    if (turn !== undefined) this.#store.logOf(turn.keys.tenant).forgetIdle(turn)
  }

  override drain(): Taken<Name> {
    this.#isReady = false
    return super.drain()
  }

  override failed(error: unknown): void {
    this.#isReady = false
    super.failed(error)
  }
}

function withHeads(state: WriteState, { events, processed }: Readonly<Heads>): WriteState {
  const { logs } = state
  return {
    ...state,
    logs: {
      events: { ...logs.events, head: events },
      processed: { ...logs.processed, head: processed },
    },
  }
}

/** Whether the turn record must be stored again. Heads of open logs are in their records. */
function isChanged(before: Version, after: Version): boolean {
  const { events, processed } = before.state.logs
  const { logs } = after.state
  return (
    before.facts !== after.facts ||
    before.state.epoch !== after.state.epoch ||
    logs.events.sealed !== events.sealed ||
    logs.processed.sealed !== processed.sealed
  )
}

function hasRequests({ facts: before }: Version, { facts: after }: Version): boolean {
  return before.cancelReason !== after.cancelReason || before.values !== after.values
}

function hasNews(log: log.LogName, before: Version | undefined, after: Version): boolean {
  if (before === undefined || before[log] !== after[log]) return true
  return before.state.logs[log].sealed !== after.state.logs[log].sealed
}
