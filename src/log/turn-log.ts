import type { ErrorObject, StreamEvent, TurnStatus, Usage } from '../protocol/stream-event.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'

/** `events` holds StreamEvents and is the truth; `processed` holds snapshots and is derived from it. */
export type LogName = 'events' | 'processed'

export const LOG_NAMES: readonly LogName[] = ['events', 'processed']

/** What each log takes. */
export interface Entries {
  events: StreamEvent
  processed: NewOutput
}

/** What each log yields. */
export interface Records {
  events: EventRecord
  processed: OutputRecord
}

/** The right to write to a turn, and to no other of its id. Whoever claims the turn later has a higher epoch. */
export interface Lease {
  readonly turnId: string
  readonly runId: string
  /** Tells the turn from another that is made under the same id once this one is deleted. */
  readonly creation: string
  readonly epoch: number
  /** When the lease runs out, by the store's clock. `renew` moves it. */
  until: number
  /** The `seq` of the record that each log takes next, as it was when the lease was given. */
  readonly next: Readonly<Record<LogName, number>>
}

export interface NewTurn {
  readonly turnId: string
  readonly threadId: string
  /** The turn's id, unless given. */
  readonly runId?: string
  /** Who writes the turn: a name for people, not a secret. */
  readonly owner: string
  /** What was asked, in whatever form the caller compares later. The store keeps it and never reads it. */
  readonly request?: string
}

/** A snapshot with its envelope. Its key is its item or, for an event of the turn, its type. */
export interface NewOutput {
  readonly output: StreamOutput
  readonly eventId: string
  readonly timestamp: number
}

/** What the records of both logs have. */
export interface StoredRecord {
  /** `<epoch>-<seq>`. For readers it is opaque: they echo it. */
  readonly offset: string
  /** The JSON of what the record holds, made when it is first asked for and shared by all readers of the process. */
  readonly data: string
  readonly eventId: string
  readonly timestamp: number
}

export interface EventRecord extends StoredRecord {
  readonly event: StreamEvent
}

export interface OutputRecord extends StoredRecord {
  readonly key: string
  readonly output: StreamOutput
}

export type LogRecord = EventRecord | OutputRecord

export interface WriterOptions<Entry> {
  /**
   * The `seq` of the first record: that of the lease unless given. Records that the log has already are dropped,
   * so that a writer may repeat what it does not know to be stored.
   */
  readonly next?: number
  /** How long a write is repeated that failed because of the store: 10 s unless given. */
  readonly retryForMs?: number
  /** Called with records when they are durable and visible, in order, and never from within `write`. */
  readonly onStored?: (stored: readonly Entry[]) => void
  /**
   * Called once, when nothing more can be stored, and never from within `write`. What was not stored by then never
   * will be.
   */
  readonly onFailed?: (error: unknown) => void
}

/** Writes one log of a turn, in order, for as long as the lease lasts. */
export interface LogWriter<Entry> {
  /**
   * Takes a record and returns whether there is room for more: whoever gets `false` awaits `room()`. Throws
   * RECORD_INVALID for a record that cannot be kept, and LOG_SEALED after `seal`; nothing has changed then. After a
   * failure records are dropped.
   */
  write(entry: Entry): boolean
  /** How many records are not stored yet. */
  readonly waiting: number
  /** For how long the store has left the oldest of them unanswered, in ms. */
  readonly stalledMs: number
  /** Resolves when there is room again, and when there never will be. */
  room(): Promise<void>
  /**
   * Resolves when everything that was written is durable and visible. Rejects with LEASE_LOST if a later epoch
   * exists, LOG_SEALED if the log is sealed, LOG_SEQUENCE_GAP if a record is missing before the first, RECORD_INVALID
   * if one has more than 64 million characters of JSON, or a code of the store.
   */
  flush(): Promise<void>
  /**
   * Writes the last record and closes the log in the same step; then as `flush`. `response` is for `events` only:
   * the finished Response of the turn as JSON, stored in the same step and returned by `getResponse`. The store
   * never reads it. A repeated seal leaves the Response of the first.
   */
  seal(entry: Entry, response?: string): Promise<void>
  /** Stores nothing from now on but what is under way, and calls nobody. For every writer, sealed or not. */
  close(): void
}

/** A cursor that cannot be honoured is announced, and what follows begins anew. */
export interface Resync {
  readonly resync: 'trimmed' | 'foreign'
}

export type Tailed = LogRecord | Resync

export interface Tail<Rec extends LogRecord = LogRecord> extends AsyncIterable<Rec | Resync> {
  /**
   * Where a reader goes on that has seen all that was yielded so far. It stays where it was while a
   * block of `processed` is under way, because the records of a block are in the order in which their
   * items appeared and not in the order of their offsets: a cut inside the block repeats the block.
   */
  readonly cursor: string
  /** How many records were superseded before this reader, which had caught up by then, came to take them. */
  readonly skipped?: number
  /** Resolves when the iteration has yielded all there is and first waits for more. */
  readonly caughtUp: Promise<void>
}

export interface TurnSnapshot {
  /** The newest record of every key, in the order in which the keys appeared. */
  readonly records: readonly OutputRecord[]
  /** The cursor of `processed` for whoever has seen these records. */
  readonly offset: string
  readonly sealed: boolean
}

export interface TurnRecord {
  readonly turnId: string
  readonly runId: string
  readonly threadId: string
  /** The place of the turn in its thread, from 1. */
  readonly ordinal: number
  readonly owner: string
  readonly epoch: number
  readonly createdAt: number
  /** What the last record of `events` says, once that log is sealed. */
  readonly status: 'in_progress' | TurnStatus
  readonly endedAt?: number
  readonly usage?: Usage
  readonly finishReason?: string
  readonly error?: ErrorObject
  /** The size of the Response in bytes, if `events` was sealed with one. */
  readonly responseBytes?: number
  /** Both logs are sealed. */
  readonly sealed: boolean
  readonly cancelReason?: string
  readonly request?: string
  /** The logs are gone, and only this record is left. */
  readonly expired: boolean
}

export interface NewThread {
  readonly threadId: string
  readonly title?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

export interface ThreadRecord extends NewThread {
  /** Tells the thread from a later one with the same id. Not for clients. */
  readonly creation: string
  /** How often it was put. Not for clients. */
  readonly version: number
  readonly createdAt: number
  /** When the thread was last put or got a turn. */
  readonly updatedAt: number
}

/** A turn that nobody writes to any more, of whichever tenant. */
export interface Orphan {
  readonly tenant: string
  readonly turnId: string
}

export interface PageOptions {
  /** 50 unless given, 200 at most. */
  readonly limit?: number
  /** The `nextCursor` of the page before. */
  readonly cursor?: string
}

export interface TurnPageOptions extends PageOptions {
  /** Which end of the thread comes first: `oldest` unless given. */
  readonly first?: 'oldest' | 'newest'
}

export interface Page<T> {
  readonly items: readonly T[]
  /** Missing on the last page. */
  readonly nextCursor?: string
}

/** The turns and threads of one tenant, apart from what they hold. */
export interface Directory {
  getTurn(turnId: string): Promise<TurnRecord | undefined>
  getTurnOfRun(runId: string): Promise<TurnRecord | undefined>
  /** The turns of a thread in the order in which they were made. */
  listTurns(threadId: string, options?: TurnPageOptions): Promise<Page<TurnRecord>>

  /**
   * Makes the thread or replaces its title and metadata. With `replaces`, only if no one has put or deleted the
   * thread since that record was read, or, with `null`, only if there is no such thread; THREAD_CHANGED otherwise.
   */
  putThread(thread: NewThread, replaces?: ThreadRecord | null): Promise<ThreadRecord>
  getThread(threadId: string): Promise<ThreadRecord | undefined>
  /**
   * The thread that was last put or got a turn comes first. A thread expires once it has no turns left, not even
   * their records, and was not put for the retention.
   */
  listThreads(options?: PageOptions): Promise<Page<ThreadRecord>>

  /** The number of threads of this tenant. Some that expired of late may be counted. */
  countThreads(): Promise<number>

  /** Removes the turn, open or not, and ends its readers with TURN_DELETED. False if there was none. */
  deleteTurn(turnId: string): Promise<boolean>
  /**
   * Removes the thread and its turns. False if there was none. A turn that is created meanwhile is removed with
   * it, refused with THREAD_BUSY, or begins a new thread; it is never left without one.
   */
  deleteThread(threadId: string): Promise<boolean>
}

/**
 * The durable log of turns. Every turn has two ordered logs, a small record, and at most one writer.
 *
 * All backends give the same guarantees; `describeTurnLog` of `turnstream/testing` tests each of them.
 * Where a guarantee is broken by the world (a disk is full, a server is away) the promise rejects with
 * a `STORE_…` code: the call may then have happened or not, and may be made again as it was.
 *
 * An id has 1 to 200 characters, without white space, braces and control characters; RECORD_INVALID
 * otherwise. A turn that is not there is TURN_UNKNOWN, except to its owner, whose lease is lost.
 *
 * A log is that of one tenant, `default` unless it was asked for by `ofTenant`. Ids are unique per tenant:
 * nothing that one of them does, or names, touches or reveals what another has.
 */
export interface TurnLog extends Directory {
  /**
   * The same store for a tenant, whose name is of lower-case letters, digits, `-` and `_`; OPTION_INVALID
   * otherwise. The same tenant gets the same log.
   */
  ofTenant(tenant: string): TurnLog

  /**
   * Makes the turn and its thread, if that is new, and gives the first lease: epoch 1, or a later one where
   * an owner of a deleted turn of the same id may still write. TURN_EXISTS, with the stored record, if the
   * turn or its run exists already; THREAD_BUSY while another turn of the thread is not sealed, or while the
   * thread is being deleted.
   */
  create(turn: NewTurn, leaseMs: number): Promise<Lease>

  /**
   * Takes over a turn whose lease ran out; LEASE_HELD before that, LOG_SEALED when there is nothing left to
   * write. When it resolves, no earlier lease can write to either log, and of any number of claims at the
   * same time one has resolved.
   */
  claim(turnId: string, owner: string, leaseMs: number): Promise<Lease>

  /** Moves `lease.until`. LEASE_LOST once another has claimed the turn, or it is gone. */
  renew(lease: Lease, leaseMs: number): Promise<void>

  /** A writer for one log of the turn. Nobody who reads it ever delays it. OPTION_INVALID for a `next` that is no seq. */
  open<Name extends LogName>(
    lease: Lease,
    log: Name,
    options?: WriterOptions<Entries[Name]>,
  ): LogWriter<Entries[Name]>

  /**
   * Yields what follows `after`, then what is added, without a gap, a repetition or another order, and ends
   * after the last record of a sealed log, or when `signal` aborts. A record of `processed` that was
   * superseded is skipped, so that a reader gets the newest state of each key and never an older one after
   * it; what has piled up comes as one block, in the order in which the keys appeared. TURN_UNKNOWN,
   * TURN_EXPIRED, or TURN_DELETED in the middle; CURSOR_INVALID for a cursor that is none.
   */
  tail<Name extends LogName>(
    turnId: string,
    log: Name,
    after: string,
    signal: AbortSignal,
  ): Tail<Records[Name]>

  /** The state of `processed`. */
  snapshot(turnId: string): Promise<TurnSnapshot>

  /**
   * The Response that was stored with the seal of `events`. Undefined while there is none: the turn is
   * unknown, runs, has expired, or was sealed without one.
   */
  getResponse(turnId: string): Promise<string | undefined>

  /** Turns of this tenant that are not sealed and whose lease ran out, by the store's clock. */
  expired(limit: number): Promise<string[]>

  /** The same of every tenant, whichever tenant's log is asked. */
  orphans(limit: number): Promise<Orphan[]>

  /** Asks the owner to stop. False when `events` is sealed. The first reason stays. */
  requestCancel(turnId: string, reason: string): Promise<boolean>

  /**
   * Resolves with the reason within a second of the request, whichever process it was made in. ABORTED with
   * `signal`; LEASE_LOST when the lease is seen to be lost.
   */
  cancelled(lease: Lease, signal: AbortSignal): Promise<string>

  /** How much room the store takes, where it keeps its data: for all tenants together. */
  bytesKept(): Promise<number>

  /**
   * Waits for what is under way, then lets go of everything; readers end with STORE_CLOSED. Closes the store
   * for all tenants. Idempotent.
   */
  close(): Promise<void>
}
