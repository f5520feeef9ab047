import type {
  Lease,
  LogName,
  LogRecord,
  NewTurn,
  Page,
  PageOptions,
  Records,
  Resync,
  Tail,
  TurnLog,
} from '../../log/turn-log.ts'
import { LOG_NAMES } from '../../log/turn-log.ts'
import { appendTo, type TextRecord } from './append.ts'
import { ok } from './assert.ts'
import { eventsUpTo, outputsOf } from './texts.ts'

export interface TurnLogUnderTest {
  readonly log: TurnLog
  /** Lets time pass in the store. */
  elapse(ms: number): Promise<void>
  /** Another view of the same store, as another process has it, where a store can have several. */
  another?(): Promise<TurnLog>
  /** Closes the log and opens it again on the same data, for stores that do not forget. */
  reopen?(): Promise<TurnLog>
  /** Frees everything that was opened. */
  dispose(): Promise<void>
}

export interface Case {
  /** A sentence about behaviour. */
  readonly name: string
  /** How long the store keeps the logs of a turn; longer than any case unless given. */
  readonly retentionMs?: number
  run(given: Given): Promise<void>
}

/** A case that is to hold for `events` as for `processed`. */
export interface LogCase {
  readonly name: string
  run(given: Given, log: LogName): Promise<void>
}

export function ofEachLog(cases: readonly LogCase[]): Case[] {
  return LOG_NAMES.flatMap((log) =>
    cases.map((each) => ({
      name: `${each.name} (${log})`,
      run: (given: Given) => each.run(given, log),
    })),
  )
}

/** A lease that outlasts any case. */
export const LONG_MS = 600_000
/** A lease that is meant to run out. Short, because in some stores time cannot be made to pass faster. */
export const SHORT_MS = 50
export const START = '0-0'

/** What a case works with: the log, and short words for what most cases do. */
export class Given {
  readonly log: TurnLog
  readonly under: TurnLogUnderTest
  readonly #end: AbortController

  /** The first seed of the cases that are made by chance. */
  readonly seed: number

  constructor(under: TurnLogUnderTest, seed: number, log = under.log, end = new AbortController()) {
    this.under = under
    this.seed = seed
    this.log = log
    this.#end = end
  }

  /** The same words for the log of another tenant. */
  ofTenant(tenant: string): Given {
    return new Given(this.under, this.seed, this.log.ofTenant(tenant), this.#end)
  }

  /** Lets readers go that a case left behind, and the store. */
  async dispose(): Promise<void> {
    this.#end.abort()
    await this.under.dispose()
  }

  /** Aborts when the case is over. */
  get signal(): AbortSignal {
    return this.#end.signal
  }

  create(turnId: string, turn: Partial<NewTurn> = {}, leaseMs = LONG_MS): Promise<Lease> {
    const { threadId = `thread-of-${turnId}`, ...rest } = turn
    return this.log.create({ turnId, threadId, owner: 'owner', ...rest }, leaseMs)
  }

  /** Makes a turn whose lease has run out. */
  async createOrphan(turnId: string): Promise<Lease> {
    const lease = await this.create(turnId, {}, SHORT_MS)
    await this.under.elapse(SHORT_MS)
    return lease
  }

  /** Makes a turn and writes it to its end. */
  async createSealed(turnId: string, turn: Partial<NewTurn> = {}): Promise<Lease> {
    const lease = await this.create(turnId, turn)
    await this.seal(lease)
    return lease
  }

  /** Writes both logs to their ends. */
  async seal(lease: Lease): Promise<void> {
    const { events, processed } = lease.next
    const records: Record<LogName, TextRecord[]> = {
      events: eventsUpTo(lease.runId, events + 1, events),
      processed: outputsOf(lease.turnId, 'a').map((record, index) => ({
        ...record,
        seq: processed + index,
      })),
    }
    for (const name of LOG_NAMES)
      await appendTo(this.log, lease, name, records[name], { seal: true })
  }

  tail<Name extends LogName>(turnId: string, name: Name, after = START): Tail<Records[Name]> {
    return this.log.tail(turnId, name, after, this.#end.signal)
  }

  /** Reads a sealed log to its end. */
  async read<Name extends LogName>(
    turnId: string,
    name: Name,
    after = START,
  ): Promise<Records[Name][]> {
    return toRecords(await readAll(this.tail(turnId, name, after)))
  }

  /** The first records of a log that need not be sealed. */
  async take<Name extends LogName>(
    turnId: string,
    name: Name,
    count: number,
    after = START,
  ): Promise<Records[Name][]> {
    return toRecords(await takeFrom(this.tail(turnId, name, after), count))
  }
}

/** Everything that a listing gives, page by page. */
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
    ok(!('resync' in each), `a tail began anew: ${JSON.stringify(each)}`)
    return each
  })
}

/** What `next` of an iterator gives while the log is open. */
export async function nextOf<Rec extends LogRecord>(
  iterator: AsyncIterator<Rec | Resync>,
): Promise<Rec> {
  const { done, value } = await iterator.next()
  ok(done !== true, 'a tail ended while its log was open')
  const [record] = toRecords([value])
  ok(record !== undefined, 'a tail gave nothing')
  return record
}

export function offsets(all: readonly LogRecord[]): string[] {
  return all.map(({ offset }) => offset)
}

export function texts(all: readonly { readonly data: string }[]): string[] {
  return all.map(({ data }) => data)
}

/**
 * Something that is under way while a case does something else. When that fails, this one must not be
 * reported as a second failure that nobody was waiting for.
 */
export function soon<T>(work: Promise<T>): Promise<T> {
  // Ignored here only: whoever awaits the promise gets the error.
  work.catch(() => {})
  return work
}
