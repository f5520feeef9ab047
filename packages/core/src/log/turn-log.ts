import type { StopSignal } from '../async/on-abort.ts'
import type { ErrorObject, StreamEvent, TurnStatus, Usage } from '../protocol/stream-event.ts'
import type { StreamOutput } from '../protocol/stream-output.ts'

/** `events` holds StreamEvents and is the source of truth; `processed` holds snapshots derived from it. */
export const LOG_NAMES = ['events', 'processed'] as const
export type LogName = (typeof LOG_NAMES)[number]

/** What a log accepts. */
export type NewRecord<Name extends LogName = LogName> = {
  events: StreamEvent
  processed: NewOutput
}[Name]

/** What a log yields. */
export type LogRecord<Name extends LogName = LogName> = {
  events: EventRecord
  processed: OutputRecord
}[Name]

/** Exclusive write access to one turn. A later claim gets a higher epoch and fences this lease out. */
export interface Lease {
  readonly turnId: string
  readonly runId: string
  /** Distinguishes the turn from a later one with the same id. */
  readonly creation: string
  readonly epoch: number
  /** The `contentMs` of the turn, at most the retention. */
  readonly contentMs?: number
  /** When the lease expires: Unix time in milliseconds, by the store's clock. `renew` extends it. */
  until: number
  /** The next `seq` of each log at the time the lease was granted. */
  readonly next: Readonly<Record<LogName, number>>
}

export interface NewTurn {
  readonly turnId: string
  readonly threadId: string
  /** The title of the thread, if the turn begins it. */
  readonly threadTitle?: string
  /** Defaults to the turn id. */
  readonly runId?: string
  /** The process that writes the turn: a name for operators, not a secret. */
  readonly owner: string
  /** A fingerprint of the request for later comparison. The store never interprets it. */
  readonly request?: string
  /** A turn of the thread. It and all later ones are replaced by the new turn. */
  readonly replaces?: string
  /** For imports: the turn that replaced this one before. */
  readonly replacedBy?: string
  /**
   * How long to store the logs, the Response and the keyed records after the end of the turn, if shorter than the
   * retention. The record remains, without the message of its error.
   */
  readonly contentMs?: number
}

/** A snapshot with its envelope. Its key is its item id, or the type of a turn event. */
export interface NewOutput {
  readonly output: StreamOutput
  readonly eventId: string
  readonly timestamp: number
}

/** Fields of the records of both logs. */
export interface StoredRecord {
  /** `<epoch>-<seq>`. Opaque to readers. */
  readonly offset: string
  /** The JSON of the record, created on first use and shared by all readers of the process. */
  readonly data: string
  readonly eventId: string
  readonly timestamp: number
}

export interface EventRecord extends StoredRecord {
  readonly event: StreamEvent
}

export interface OutputRecord extends StoredRecord {
  readonly key: string
  /** The `seq` of the first record with this key, which this one may have superseded. */
  readonly firstSeq: number
  readonly output: StreamOutput
}

export interface WriterOptions<Entry> {
  /**
   * The `seq` of the first record. Defaults to the lease's. Records that are already stored are
   * dropped, so a writer may repeat records when it does not know whether they were stored.
   */
  readonly next?: number
  /** How long to retry writes after store failures. Default 10 s. */
  readonly retryForMs?: number
  /** Maximum retries in a row, within that time. Unlimited by default. */
  readonly retryAttempts?: number
  /** First delay between attempts, doubled each time. Default 20 ms. */
  readonly retryBaseMs?: number
  /** Longest delay between attempts. Default 1 s. */
  readonly retryMaxMs?: number
  /** Called with records once they are durable and visible, in order, and never from within `write`. */
  readonly onStored?: (stored: readonly Entry[]) => void
  /** Called once, when nothing more can be stored, never from within `write`. Records not yet stored are lost. */
  readonly onFailed?: (error: unknown) => void
}

/** Writes one log of a turn, in order, while the lease lasts. */
export interface LogWriter<Entry> {
  /**
   * Queues a record. Returns false when the writer is full; then await `room()`. Throws RECORD_INVALID for a record
   * that cannot be stored and LOG_SEALED after `seal`, without changing anything. After a failure, records are dropped.
   */
  write(entry: Entry): boolean
  /** The number of records not yet stored. */
  readonly waiting: number
  /** How long the store has left the oldest of them unanswered, in ms. */
  readonly stalledMs: number
  /** Resolves when there is room again, or never will be. */
  room(): Promise<void>
  /**
   * Resolves when everything written is durable and visible. Rejects with LEASE_LOST if a later epoch exists,
   * LOG_SEALED if the log is sealed, LOG_SEQUENCE_GAP if a record is missing before the first, RECORD_INVALID
   * if one has more than 64 million characters of JSON, or a store code.
   */
  flush(): Promise<void>
  /**
   * Writes the last record and seals the log in the same step, then flushes. `response` is for `events` only:
   * the finished Response as JSON, stored in the same step and returned by `getResponse`. The store never
   * interprets it. A repeated seal keeps the first Response.
   */
  seal(entry: Entry, response?: string): Promise<void>
  /** Stops storing, except for records in flight, and stops all callbacks. Call it on every writer, sealed or not. */
  close(): void
}

/** Announces that a cursor is not valid here and the log starts over. */
export interface Resync {
  readonly resync: 'trimmed' | 'foreign'
}

export type Tailed = LogRecord | Resync

export interface Tail<Rec extends LogRecord = LogRecord> extends AsyncIterable<Rec | Resync> {
  /**
   * Where to resume after everything yielded so far. Inside a block of `processed` it does not move: the records of a
   * block are in order of first appearance, not of their offsets, so a disconnect inside the block repeats it.
   */
  readonly cursor: string
  /** How many records were superseded before this reader took them, after it had caught up. */
  readonly skipped?: number
  /** Resolves when the iteration has yielded everything and waits for more. */
  readonly caughtUp: Promise<void>
}

export interface TurnSnapshot {
  /** The newest record of every key, in order of first appearance. */
  readonly records: readonly OutputRecord[]
  /** The cursor of `processed` after these records. */
  readonly offset: string
  readonly sealed: boolean
}

export interface TurnRecord
  extends Pick<NewTurn, 'turnId' | 'threadId' | 'owner' | 'request' | 'replaces' | 'contentMs'> {
  readonly runId: string
  /** Position of the turn in its thread, from 1. */
  readonly ordinal: number
  readonly epoch: number
  readonly createdAt: number
  /** From the last record of `events`, once that log is sealed. */
  readonly status: 'in_progress' | TurnStatus
  readonly endedAt?: number
  readonly usage?: Usage
  readonly finishReason?: string
  readonly error?: ErrorObject
  /** Size of the Response in bytes, if `events` was sealed with one. */
  readonly responseBytes?: number
  /** Whether both logs are sealed. */
  readonly sealed: boolean
  readonly cancelReason?: string
  /** Whether the logs have expired and only this record is left. */
  readonly expired: boolean
}

export interface ListedTurn extends TurnRecord {
  /** The turn that took its place. Remains when that turn is deleted. */
  readonly replacedBy?: string
  /** The record cannot be read, and the other fields only mark its place. The turn can be deleted. */
  readonly damaged?: true
}

export interface NewThread {
  readonly threadId: string
  readonly title?: string
  readonly metadata?: Readonly<Record<string, unknown>>
}

export interface ThreadRecord extends NewThread {
  /** Distinguishes the thread from a later one with the same id. Not for clients. */
  readonly creation: string
  /** How often it was put. Not for clients. */
  readonly version: number
  readonly createdAt: number
  /** When the thread was last put or got a turn. */
  readonly updatedAt: number
  /** In a list: the record cannot be read. The thread can be put again or deleted. */
  readonly damaged?: true
}

/** A thread as it was read; `null` if there was none. */
export type Replaced = ThreadRecord | null

/** An open turn of any tenant whose lease has expired. */
export interface Orphan {
  readonly tenant: string
  readonly turnId: string
}

export interface PageOptions {
  /** Default 50, maximum 200. */
  readonly limit?: number
  /** The `nextCursor` of the previous page. */
  readonly cursor?: string
}

export interface TurnPageOptions extends PageOptions {
  /** Which end of the thread to list first. `oldest` by default. */
  readonly first?: 'oldest' | 'newest'
  /** Whether to include replaced turns. */
  readonly replaced?: boolean
}

export interface Page<T> {
  readonly items: readonly T[]
  /** Absent on the last page. */
  readonly nextCursor?: string
}

/** The result of `KeyedRecords.addOnce`. */
export interface AddResult {
  /** Whether this call stored its value. */
  readonly isAdded: boolean
  /** The stored value. Absent when the turn was cancelled or has ended without one. */
  readonly value?: string
}

/**
 * Short texts under keys, beside the logs, of a tenant or of one turn. A key is an id of the caller's choice. Every
 * call sees at once what any process has stored. RECORD_INVALID for invalid keys and values that are too long.
 */
export interface KeyedRecords {
  /**
   * Adds a value of at most 500 characters to a key of the tenant. Expires after `ttlMs`, by the store's clock. A key
   * holds at most 16 values; the oldest go first.
   */
  add(key: string, value: string, ttlMs: number): Promise<void>

  /** Returns the newest value of each of at most 64 keys of the tenant. RECORD_INVALID for more. */
  read(keys: readonly string[]): Promise<(string | undefined)[]>

  /** Removes the newest value of a key of the tenant and returns it. Only one of several concurrent calls gets it. */
  consume(key: string): Promise<string | undefined>

  /**
   * Stores a value of at most 16,000 characters under a key of the turn, unless the key has one or the turn was
   * cancelled or `events` is sealed. Expires with the logs of the turn. RECORD_INVALID for the 201st key of a turn.
   */
  addOnce(turnId: string, key: string, value: string): Promise<AddResult>

  /** Returns the value of a key of the turn. */
  find(turnId: string, key: string): Promise<string | undefined>

  /**
   * Resolves with the value of a key of the turn within a second of its addition, from any process. ABORTED with
   * `signal`; LEASE_LOST when the lease is found to be lost.
   */
  watch(lease: Lease, key: string, signal: AbortSignal): Promise<string>
}

/**
 * The durable log of turns. Every turn has two ordered logs, a small record, and at most one writer.
 *
 * All backends give the same guarantees, tested by `describeTurnLog` of `turnstream/testing`. On an external
 * failure (disk full, server away) the promise rejects with a `STORE_…` code. The call may or may not have
 * taken effect, and can be repeated unchanged.
 *
 * An id has 1 to 200 characters, without white space, braces and control characters; RECORD_INVALID
 * otherwise. An unknown turn is TURN_UNKNOWN, except to its owner, whose lease is lost.
 *
 * A log belongs to one tenant, `default` unless obtained by `ofTenant`. Ids are unique per tenant: no call
 * affects or reveals another tenant's data.
 */
export interface TurnLog {
  /** How long the logs of a turn are stored after its end. */
  readonly retentionMs: number

  readonly keyedRecords: KeyedRecords

  /**
   * Returns the same store for a tenant. Names consist of lower-case letters, digits, `-` and `_`;
   * OPTION_INVALID otherwise. The same tenant gets the same log.
   */
  ofTenant(tenant: string): TurnLog

  /**
   * Creates the turn, and its thread if that is new, and returns the first lease. Its epoch is 1, or higher
   * where the owner of a deleted turn with the same id may still write. TURN_EXISTS, with the stored record,
   * if the turn or run exists; THREAD_BUSY while another turn of the thread is not sealed, or while the
   * thread is being deleted. With `replaces`, TURN_UNKNOWN if the thread has no such turn, and TURN_REPLACED
   * if another turn has replaced it. Replacing is part of the creation: both happen, or neither.
   */
  create(turn: NewTurn, leaseMs: number): Promise<Lease>

  /**
   * Takes over a turn whose lease has expired. LEASE_HELD before that, LOG_SEALED when nothing is left to write. Once
   * it resolves, no earlier lease can write to either log. One of several concurrent claims succeeds.
   */
  claim(turnId: string, owner: string, leaseMs: number): Promise<Lease>

  /** Extends `lease.until`. LEASE_LOST once another process has claimed the turn, or the turn was deleted. */
  renew(lease: Lease, leaseMs: number): Promise<void>

  /** Opens a writer for one log of the turn. Readers never delay it. OPTION_INVALID for an invalid `next`. */
  open<Name extends LogName>(
    lease: Lease,
    log: Name,
    options?: WriterOptions<NewRecord<Name>>,
  ): LogWriter<NewRecord<Name>>

  /**
   * Yields the records after `after`, then new ones, without gaps, duplicates or reordering. Ends after the last record
   * of a sealed log, or when `signal` aborts. Superseded records of `processed` are skipped: a reader gets the newest
   * state of each key, never an older one after it. Accumulated records come as one block, in order of first
   * appearance. TURN_UNKNOWN, TURN_EXPIRED, TURN_DELETED while reading, or CURSOR_INVALID.
   */
  tail<Name extends LogName>(
    turnId: string,
    log: Name,
    after: string,
    signal: StopSignal,
  ): Tail<LogRecord<Name>>

  /** Returns the state of `processed`. */
  snapshot(turnId: string): Promise<TurnSnapshot>

  /** Returns the Response stored with the seal of `events`, if the turn has one and has not expired. */
  getResponse(turnId: string): Promise<string | undefined>

  /** Lists open turns of this tenant whose lease has expired, by the store's clock. */
  expired(limit: number): Promise<string[]>

  /** Lists them for all tenants, whichever tenant's log is called. */
  orphans(limit: number): Promise<Orphan[]>

  /** Asks the owner to stop. Returns false when `events` is sealed. The first reason wins. */
  requestCancel(turnId: string, reason: string): Promise<boolean>

  /**
   * Resolves with the reason within a second of the request, from any process. ABORTED with `signal`;
   * LEASE_LOST when the lease is found to be lost.
   */
  cancelled(lease: Lease, signal: AbortSignal): Promise<string>

  getTurn(turnId: string): Promise<TurnRecord | undefined>
  getTurnOfRun(runId: string): Promise<TurnRecord | undefined>
  /** Lists the turns of a thread in creation order, without those that were replaced. */
  listTurns(threadId: string, options?: TurnPageOptions): Promise<Page<ListedTurn>>

  /**
   * Creates the thread or replaces its title and metadata. With `replaces`, only if the thread was not put or
   * deleted since that record was read; with `null`, only if it does not exist. THREAD_CHANGED otherwise.
   */
  putThread(thread: NewThread, replaces?: Replaced): Promise<ThreadRecord>
  getThread(threadId: string): Promise<ThreadRecord | undefined>
  /** Lists the most recently changed first. A thread expires when it has no turns and was not put for the retention. */
  listThreads(options?: PageOptions): Promise<Page<ThreadRecord>>

  /** The number of threads of this tenant. May include recently expired ones. */
  countThreads(): Promise<number>

  /** Deletes the turn, open or not, and ends its readers with TURN_DELETED. Returns false if it does not exist. */
  deleteTurn(turnId: string): Promise<boolean>
  /**
   * Deletes the thread and its turns. Returns false if it does not exist. A turn created meanwhile is deleted
   * with it, refused with THREAD_BUSY, or starts a new thread; it is never left without one.
   */
  deleteThread(threadId: string): Promise<boolean>

  /** Size of the stored data of all tenants. */
  storedBytes(): Promise<number>

  /** Waits for calls in flight, then closes the store for all tenants. Readers end with STORE_CLOSED. Idempotent. */
  close(): Promise<void>
}
