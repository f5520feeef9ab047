import {
  type KeyedRecords,
  type Lease,
  LOG_NAMES,
  type LogName,
  type LogRecord,
  type NewTurn,
  type Tail,
  type TurnLog,
} from '@turnstream/core/internal/log/turn-log'
import { type AppendOptions, appendTo, type TextRecord } from './append.ts'
import { equal } from './assert.ts'
import { readAll, takeFrom, texts, toRecords } from './reading.ts'
import { eventsUpTo, outputsOf, STATE } from './texts.ts'

export interface TurnLogUnderTest {
  readonly log: TurnLog
  elapse(ms: number): Promise<void>
  /** Another view of the same store, as from another process, for stores that support it. */
  another?(): Promise<TurnLog>
  /** Closes the log and reopens it on the same data, for durable stores. */
  reopen?(): Promise<TurnLog>
  dispose(): Promise<void>
}

export interface Case {
  (given: Given, log: TurnLog): Promise<void>
  /** How long the store keeps the logs of a turn. Default: longer than any case. */
  readonly retentionMs?: number
}

/** Cases by name: a sentence about behaviour. */
export type Cases = Readonly<Record<string, Case>>

type LogCases<Name extends LogName> = Readonly<
  Record<string, (given: GivenLog<Name>, name: Name) => Promise<void>>
>

export function withRetention(retentionMs: number, run: Case): Case {
  return Object.assign(run, { retentionMs })
}

/** Cases about one log of an open turn. */
export function ofLog<Name extends LogName>(name: Name, cases: LogCases<Name>, suffix = ''): Cases {
  const entries = Object.entries(cases).map(([title, run]): [string, Case] => [
    `${title}${suffix}`,
    async (given) => run(new GivenLog(given, name, await given.create('turn')), name),
  ])
  return Object.fromEntries(entries)
}

/** Cases that must hold for both logs. */
export function ofEachLog(cases: LogCases<LogName>): Cases {
  return Object.assign({}, ...LOG_NAMES.map((name) => ofLog<LogName>(name, cases, ` (${name})`)))
}

/** A lease that outlasts any case. */
export const LONG_MS = 600_000
/** A lease that is meant to expire. Short, because not every store can fast-forward time. */
export const SHORT_MS = 50
/** A retention that is meant to expire. A busy machine needs some slack. */
export const RETENTION_MS = 1000
export const START = '0-0'

/** The log of a case, with helpers for common steps. */
export class Given {
  readonly log: TurnLog
  readonly under: TurnLogUnderTest
  /** First seed of the random cases. */
  readonly seed: number
  readonly end: AbortController

  constructor(under: TurnLogUnderTest, seed: number, log = under.log, end = new AbortController()) {
    this.under = under
    this.seed = seed
    this.log = log
    this.end = end
  }

  /** The same helpers for another tenant's log. */
  ofTenant(tenant: string): Given {
    return this.#at(this.log.ofTenant(tenant))
  }

  get keyedRecords(): KeyedRecords {
    return this.log.keyedRecords
  }

  /** Releases the store and any readers that a case left open. */
  async dispose(): Promise<void> {
    this.end.abort()
    await this.under.dispose()
  }

  get signal(): AbortSignal {
    return this.end.signal
  }

  create(turnId: string, turn: Partial<NewTurn> = {}, leaseMs = LONG_MS): Promise<Lease> {
    const { threadId = `thread-of-${turnId}`, ...rest } = turn
    return this.log.create({ turnId, threadId, owner: 'owner', ...rest }, leaseMs)
  }

  append(lease: Lease, name: LogName, records: readonly TextRecord[], options?: AppendOptions) {
    return appendTo(this.log, lease, name, records, options)
  }

  async createOrphan(turnId: string): Promise<Lease> {
    const lease = await this.create(turnId, {}, SHORT_MS)
    await this.under.elapse(SHORT_MS)
    return lease
  }

  async createSealed(turnId: string, turn: Partial<NewTurn> = {}): Promise<Lease> {
    const lease = await this.create(turnId, turn)
    await this.seal(lease)
    return lease
  }

  async seal(lease: Lease, response?: string): Promise<void> {
    await this.sealEvents(lease, response)
    await this.sealProcessed(lease)
  }

  sealEvents(lease: Lease, response?: string): Promise<string> {
    const { events } = lease.next
    const records = eventsUpTo(lease.runId, events + 1, events)
    return this.append(lease, 'events', records, { seal: true, response })
  }

  sealProcessed(lease: Lease): Promise<string> {
    const outputs = outputsOf(lease.turnId, 'a', lease.next.processed)
    return this.append(lease, 'processed', outputs, { seal: true })
  }

  /** The same store in another process, where possible; otherwise the same log. */
  async elsewhere(): Promise<Given> {
    return this.#at((await this.under.another?.()) ?? this.log)
  }

  /** The same store after a restart, where possible; otherwise the same log. */
  async reopened(): Promise<Given> {
    return this.#at((await this.under.reopen?.()) ?? this.log)
  }

  #at(log: TurnLog): Given {
    return new Given(this.under, this.seed, log, this.end)
  }

  tail<Name extends LogName>(turnId: string, name: Name, after = START): Tail<LogRecord<Name>> {
    return this.log.tail(turnId, name, after, this.end.signal)
  }

  iterate<Name extends LogName>(turnId: string, name: Name, after = START) {
    return this.tail(turnId, name, after)[Symbol.asyncIterator]()
  }

  async read<Name extends LogName>(turnId: string, name: Name, after = START) {
    return toRecords(await readAll(this.tail(turnId, name, after)))
  }

  /** Returns the first records of a log, which may be open. */
  async take<Name extends LogName>(turnId: string, name: Name, count: number, after = START) {
    return toRecords(await takeFrom(this.tail(turnId, name, after), count))
  }
}

/** One log of an open turn. */
export class GivenLog<Name extends LogName = LogName> extends Given {
  readonly name: Name
  readonly lease: Lease

  constructor({ under, seed, log, end }: Given, name: Name, lease: Lease) {
    super(under, seed, log, end)
    this.name = name
    this.lease = lease
  }

  write(records: readonly TextRecord[], options?: AppendOptions): Promise<string> {
    return this.append(this.lease, this.name, records, options)
  }

  /** Writes a complete log, some records at a time. */
  async writeAll(records: readonly TextRecord[], size = 1): Promise<void> {
    for (let at = 0; at < records.length; at += size) {
      await this.write(records.slice(at, at + size), { seal: at + size >= records.length })
    }
  }

  /** Lets the lease expire. */
  async expire(): Promise<void> {
    await this.log.renew(this.lease, SHORT_MS)
    await this.under.elapse(SHORT_MS)
  }

  follow(after = START): Tail<LogRecord<Name>> {
    return this.tail(this.lease.turnId, this.name, after)
  }

  iterator() {
    return this.iterate(this.lease.turnId, this.name)
  }

  records(after = START) {
    return this.read(this.lease.turnId, this.name, after)
  }

  first(count: number, after = START) {
    return this.take(this.lease.turnId, this.name, count, after)
  }

  /** Checks that a reader gets the six records of the complete log. */
  async checkComplete(): Promise<void> {
    equal(texts(await this.records()), STATE[this.name], 'the log')
  }
}

/** Work in flight. If the case fails, this must not be reported as a second, unhandled failure. */
export function soon<T>(work: Promise<T>): Promise<T> {
  // Ignored only here: the caller that awaits the promise gets the error.
  work.catch(() => {})
  return work
}
