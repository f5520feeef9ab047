import type {
  KeyedRecords,
  Lease,
  LogName,
  LogRecord,
  NewTurn,
  Page,
  PageOptions,
  Resync,
  Tail,
  TurnLog,
} from '@turnstream/core/internal/log/turn-log'
import { LOG_NAMES } from '@turnstream/core/internal/log/turn-log'
import { type AppendOptions, appendTo, type TextRecord } from './append.ts'
import { ok } from './assert.ts'
import { eventsUpTo, outputsOf } from './texts.ts'

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
  (given: Given): Promise<void>
  /** How long the store keeps the logs of a turn. Default: longer than any case. */
  readonly retentionMs?: number
}

/** Cases by name: a sentence about behaviour. */
export type Cases = Readonly<Record<string, Case>>

export function withRetention(retentionMs: number, run: Case): Case {
  return Object.assign(run, { retentionMs })
}

/** Cases that must hold for both logs. */
export function ofEachLog(
  cases: Readonly<Record<string, (given: Given, log: LogName) => Promise<void>>>,
): Cases {
  const ofBoth = LOG_NAMES.flatMap((log) =>
    Object.entries(cases).map(([name, run]): [string, Case] => [
      `${name} (${log})`,
      (given) => run(given, log),
    ]),
  )
  return Object.fromEntries(ofBoth)
}

/** A lease that outlasts any case. */
export const LONG_MS = 600_000
/** A lease that is meant to expire. Short, because not every store can fast-forward time. */
export const SHORT_MS = 50
export const START = '0-0'

/** The log of a case, with helpers for common steps. */
export class Given {
  readonly log: TurnLog
  readonly under: TurnLogUnderTest
  readonly #end: AbortController

  /** First seed of the random cases. */
  readonly seed: number

  constructor(under: TurnLogUnderTest, seed: number, log = under.log, end = new AbortController()) {
    this.under = under
    this.seed = seed
    this.log = log
    this.#end = end
  }

  /** The same helpers for another tenant's log. */
  ofTenant(tenant: string): Given {
    return new Given(this.under, this.seed, this.log.ofTenant(tenant), this.#end)
  }

  get keyedRecords(): KeyedRecords {
    return this.log.keyedRecords
  }

  /** Releases the store and any readers that a case left open. */
  async dispose(): Promise<void> {
    this.#end.abort()
    await this.under.dispose()
  }

  get signal(): AbortSignal {
    return this.#end.signal
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

  async seal(lease: Lease, response?: string, log = this.log): Promise<void> {
    await this.sealEvents(lease, response, log)
    await this.sealProcessed(lease, log)
  }

  sealEvents(lease: Lease, response?: string, log = this.log): Promise<string> {
    const { events } = lease.next
    const records = eventsUpTo(lease.runId, events + 1, events)
    return appendTo(log, lease, 'events', records, { seal: true, response })
  }

  sealProcessed(lease: Lease, log = this.log): Promise<string> {
    const { turnId, next } = lease
    const outputs = outputsOf(turnId, 'a').map(({ data }, at) => ({
      seq: next.processed + at,
      data,
    }))
    return appendTo(log, lease, 'processed', outputs, { seal: true })
  }

  /** The same store in another process, where possible; otherwise the same log. */
  async elsewhere(): Promise<TurnLog> {
    return (await this.under.another?.()) ?? this.log
  }

  tail<Name extends LogName>(turnId: string, name: Name, after = START): Tail<LogRecord<Name>> {
    return this.log.tail(turnId, name, after, this.#end.signal)
  }

  iterate<Name extends LogName>(turnId: string, name: Name) {
    return this.tail(turnId, name)[Symbol.asyncIterator]()
  }

  async read<Name extends LogName>(turnId: string, name: Name, after = START) {
    return toRecords(await readAll(this.tail(turnId, name, after)))
  }

  /** Returns the first records of a log, which may be open. */
  async take<Name extends LogName>(turnId: string, name: Name, count: number, after = START) {
    return toRecords(await takeFrom(this.tail(turnId, name, after), count))
  }
}

/** Returns everything that a listing yields, page by page. */
export async function pagesOf<T>(list: (options: PageOptions) => Promise<Page<T>>, limit: number) {
  const pages: T[][] = []
  let cursor: string | undefined
  do {
    const page = await list({ limit, ...(cursor !== undefined && { cursor }) })
    pages.push([...page.items])
    cursor = page.nextCursor
    ok(pages.length < 100, 'the pages have no end')
  } while (cursor !== undefined)
  return pages
}

export async function readAll<Each>(tail: AsyncIterable<Each>): Promise<Each[]> {
  const all: Each[] = []
  for await (const each of tail) all.push(each)
  return all
}

export async function takeFrom<Each>(tail: AsyncIterable<Each>, count: number): Promise<Each[]> {
  const taken: Each[] = []
  if (count === 0) return taken
  for await (const each of tail) {
    taken.push(each)
    if (taken.length === count) break
  }
  ok(taken.length === count, `a tail ended after ${taken.length} of ${count} records`)
  return taken
}

export function toRecords<Rec extends LogRecord>(all: readonly (Rec | Resync)[]): Rec[] {
  return all.map((each) => {
    ok(!('resync' in each), `a tail started over: ${JSON.stringify(each)}`)
    return each
  })
}

export async function nextOf<Rec extends LogRecord>(iterator: AsyncIterator<Rec | Resync>) {
  const { done, value } = await iterator.next()
  ok(done !== true, 'a tail ended while its log was open')
  const [record] = toRecords([value])
  ok(record !== undefined, 'a tail gave nothing')
  return record
}

export function offsets(all: readonly LogRecord[]): string[] {
  return all.map(({ offset }) => offset)
}

export function turnIdsOf(all: readonly { readonly turnId: string }[]): string[] {
  return all.map(({ turnId }) => turnId)
}

export function threadIdsOf(all: readonly { readonly threadId: string }[]): string[] {
  return all.map(({ threadId }) => threadId)
}

export function texts(all: readonly { readonly data: string }[]): string[] {
  return all.map(({ data }) => data)
}

/** Work in flight. If the case fails, this must not be reported as a second, unhandled failure. */
export function soon<T>(work: Promise<T>): Promise<T> {
  // Ignored only here: the caller that awaits the promise gets the error.
  work.catch(() => {})
  return work
}
